internal import Vocabulary

/// A denial with what there is to say about it beyond the table.
struct Refusal: Error, Equatable {
    let denial: Denial
    /// For the log: never bytes of a proof.
    let detail: String?
    /// The component that a proof does not cover, in lower case and of token characters: for the client.
    let component: String?
    /// Which rate was exceeded, and for how long: for the client.
    var excess: RateExcess?

    init(_ denial: Denial, _ detail: String? = nil, component: String? = nil) {
        self.denial = denial
        self.detail = detail
        self.component = component
    }

    init(_ excess: RateExcess) {
        self.init(.rateLimited, excess.scope.rawValue)
        self.excess = excess
    }
}
