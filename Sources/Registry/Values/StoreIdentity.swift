/// Which store this is, and since when its counters are good: what challenges are bound to.
public struct StoreIdentity: Equatable, Sendable {
    /// Drawn when the store is created.
    public let store: RandomID
    /// Drawn again whenever counters may have gone back. Challenges and conditional writes of another epoch are
    /// refused.
    public let epoch: RandomID

    package init(store: RandomID, epoch: RandomID) {
        self.store = store
        self.epoch = epoch
    }
}

/// 16 random bytes.
public struct RandomID: Hashable, Sendable {
    private let high: UInt64
    private let low: UInt64

    /// Drawn from the system's random generator, which is cryptographically secure on Linux.
    init() {
        var generator = SystemRandomNumberGenerator()
        high = generator.next()
        low = generator.next()
    }

    /// - Parameter bytes: exactly 16; anything else is no such id.
    public init?(_ bytes: [UInt8]) {
        self.init(bytes.span)
    }

    init?(_ bytes: Span<UInt8>) {
        guard bytes.count == 16 else { return nil }
        high = (0..<8).reduce(0) { $0 << 8 | UInt64(bytes[$1]) }
        low = (8..<16).reduce(0) { $0 << 8 | UInt64(bytes[$1]) }
    }

    /// The 16 bytes.
    public var bytes: [UInt8] {
        [high, low].flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) } }
    }
}
