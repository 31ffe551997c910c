/// What a challenge is for. Each purpose has keys of its own, so that none of its challenges passes for another's.
public enum ChallengePurpose: Sendable, CaseIterable {
    /// The `nonce` of a request proof.
    case request
    /// The nonce of the enrolment endpoints.
    case enrolment

    /// The label that separates the derived keys. No label is a prefix of another.
    var label: String {
        switch self {
        case .request: "attestgate challenge request"
        case .enrolment: "attestgate challenge enrolment"
        }
    }
}
