/// Something that an operator has asked for and that changes what the gateway does: a line of the audit log.
///
/// It names devices by their numbers, and no person: a log that gets out must lead to nobody.
public struct AdministrationAct: Equatable, Sendable, CustomStringConvertible {
    public enum Outcome: Equatable, Sendable {
        case done
        /// Begun; a later line reports the outcome.
        case begun
        /// - code: of the fault.
        case refused(String)
        /// The store has not said what became of it, and may still do it. - code: of the fault.
        case unknown(String)
    }

    /// What: `device_revoke` and its like. Fixed, for programs.
    public let name: String
    /// To what, in one word; nil if that goes without saying.
    public let target: String?
    public let outcome: Outcome
    /// By whom, as `AdministrationRequest` says it.
    public let peer: String
    /// One sentence, for people.
    public let description: String

    /// - Parameter sentence: without who it was.
    public init(
        _ name: String, _ sentence: String, target: String? = nil, _ outcome: Outcome = .done, by peer: String
    ) {
        self.name = name
        self.target = target
        self.outcome = outcome
        self.peer = peer
        description = "\(sentence), by \(peer)"
    }

    /// One that has not been done, as far as is known.
    ///
    /// - Parameter sentence: what was asked for.
    init(_ name: String, _ sentence: String, target: String? = nil, _ fault: AdministrationFault, by peer: String) {
        // A store that answers late may still have executed the command: "refused" would be wrong where it matters
        // most.
        if fault == .storeUnavailable {
            self.init(
                name, "\(sentence), whether done or not is unknown: \(fault.error)", target: target,
                .unknown(fault.error), by: peer)
        } else {
            self.init(
                name, "\(sentence) refused: \(fault.error)", target: target, .refused(fault.error), by: peer)
        }
    }
}

/// What the administration tells its log.
public enum AdministrationNotice: Equatable, Sendable {
    case act(AdministrationAct)
    /// Somebody was turned away before anything of the request was looked at; who, where and why.
    case refused(String)
}
