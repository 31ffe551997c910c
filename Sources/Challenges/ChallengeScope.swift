/// Where and for what challenges are valid: one purpose, in one store, in one epoch of it.
///
/// Counters and challenges live and die together: when a store may have forgotten counters (restored, imported, behind
/// its commit mark), it draws a new epoch, and every proof made before falls with its challenge.
public struct ChallengeScope: Equatable, Sendable {
    /// Longest store id and longest epoch, in bytes.
    public static let longestIdentifier = 255

    public let purpose: ChallengePurpose
    private let store: [UInt8]
    private let epoch: [UInt8]

    /// - Parameters:
    ///   - store: the store's random id, 1 to 255 bytes.
    ///   - epoch: the store's random epoch, 1 to 255 bytes.
    ///
    /// Nil comes of other lengths: an empty identifier would let stores share challenges.
    public init?(purpose: ChallengePurpose, store: [UInt8], epoch: [UInt8]) {
        guard (1...Self.longestIdentifier).contains(store.count), (1...Self.longestIdentifier).contains(epoch.count)
        else { return nil }
        self.purpose = purpose
        self.store = store
        self.epoch = epoch
    }

    /// Purpose, store id and epoch for the key derivation. Lengths go before the two that vary: without them, a byte moved
    /// from one to the other would give the same key.
    var info: [UInt8] {
        Array(purpose.label.utf8) + [UInt8(store.count)] + store + [UInt8(epoch.count)] + epoch
    }
}
