/// Something that may be used once while it is good: an enrolment nonce, an admission token. Whether it is genuine the
/// caller has found out before.
public struct SingleUse: Hashable, Sendable {
    /// Of what makes it unique.
    public let id: Fingerprint
    /// Seconds since 1970-01-01T00:00:00Z; from then on it is refused, used or not.
    public let expiresAt: Int64

    public init(id: Fingerprint, expiresAt: Int64) {
        self.id = id
        self.expiresAt = expiresAt
    }

    /// How far ahead an admission token may expire when it is shown, in seconds: whatever was used once expires within that.
    public static let longestTokenLife: Int64 = 3_600
}
