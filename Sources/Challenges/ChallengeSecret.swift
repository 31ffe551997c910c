/// A secret that challenge keys are derived from, with the number of its generation.
///
/// Secrets are changed without refusing what is on its way: the new generation signs, and the one before still verifies
/// until its last challenge has expired. All gateways of one store have the same secrets.
public struct ChallengeSecret: Sendable {
    /// Shortest secret, in bytes: as many as the hash gives (RFC 2104 section 3).
    public static let shortest = 32

    /// Travels in every challenge and says whose key to check it with. Two neighbouring generations must differ.
    public let generation: UInt8
    let bytes: [UInt8]

    /// - Parameter bytes: random; nil comes of fewer than `shortest`.
    public init?(generation: UInt8, bytes: [UInt8]) {
        guard bytes.count >= Self.shortest else { return nil }
        self.generation = generation
        self.bytes = bytes
    }
}
