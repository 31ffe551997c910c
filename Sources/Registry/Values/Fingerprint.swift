/// The SHA-256 of something whose text the registry has no use for: an attestation, a nonce, the id of a token, a person.
///
/// Hashing is the caller's: here are only the 32 bytes.
public struct Fingerprint: Hashable, Sendable {
    private let first: UInt64
    private let second: UInt64
    private let third: UInt64
    private let fourth: UInt64

    /// - Parameter bytes: exactly 32; anything else is no fingerprint.
    public init?(_ bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        func word(_ at: Int) -> UInt64 { bytes[at..<(at + 8)].reduce(0) { $0 << 8 | UInt64($1) } }
        (first, second, third, fourth) = (word(0), word(8), word(16), word(24))
    }

    /// The 32 bytes.
    public var bytes: [UInt8] {
        [first, second, third, fourth].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) }
        }
    }
}

/// The 65 bytes of a P-256 key's uncompressed point (X9.63): 0x04, x, y. Whether it lies on the curve, only a
/// cryptographic library can tell.
public struct PublicPoint: Sendable {
    /// x and y, inline: records with points are copied between threads without a reference count.
    private let coordinates: InlineArray<8, UInt64>

    /// - Parameter bytes: exactly 65, the first 0x04; anything else is no uncompressed point.
    public init?(_ bytes: [UInt8]) {
        guard bytes.count == 65, bytes[0] == 0x04 else { return nil }
        coordinates = InlineArray { word in
            (0..<8).reduce(0) { value, byte in value << 8 | UInt64(bytes[1 + word * 8 + byte]) }
        }
    }

    /// The 65 bytes.
    public var bytes: [UInt8] {
        var bytes: [UInt8] = [0x04]
        bytes.reserveCapacity(65)
        for index in coordinates.indices {
            for byte in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: coordinates[index] >> UInt64(56 - 8 * byte))) }
        }
        return bytes
    }
}

extension PublicPoint: Equatable {
    public static func == (left: PublicPoint, right: PublicPoint) -> Bool {
        left.coordinates.indices.allSatisfy { left.coordinates[$0] == right.coordinates[$0] }
    }
}

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
