/// What a text is that came as a challenge.
public enum ChallengeVerdict: Equatable, Sendable {
    /// Ours, and of use.
    ///
    /// - `issuedAt`: in seconds since 1970.
    /// - `pastHalfLife`: the answer should bring the client a new one, before this one ends.
    case fresh(issuedAt: UInt64, pastHalfLife: Bool)
    /// Ours, but too old.
    case expired(issuedAt: UInt64)
    /// Ours, but of a time that is still to come: the clocks of gateways that share a secret disagree, or this one was set
    /// back. An operator should know.
    case premature(issuedAt: UInt64)
    /// Of the right form, but not made by this store in this epoch for this purpose, or changed on its way.
    case foreign
    /// No challenge of this version.
    case malformed
}
