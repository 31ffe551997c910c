/// The SHA-256 of a value that the registry does not store: an attestation, a nonce, a token id or a person.
///
/// The caller hashes. This type holds only the 32 bytes.
public struct Fingerprint: Hashable, Sendable {
    private let first: UInt64
    private let second: UInt64
    private let third: UInt64
    private let fourth: UInt64

    /// Creates a fingerprint.
    ///
    /// - Parameter bytes: Exactly 32 bytes. Other lengths return nil.
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

/// The uncompressed point of a P-256 key (X9.63), 65 bytes: 0x04, x, y.
///
/// This type does not check that the point is on the curve.
public struct PublicPoint: Sendable {
    /// The coordinates x and y. They are stored inline, so that records are copied between threads without a reference
    /// count.
    private let coordinates: InlineArray<8, UInt64>

    /// Creates a point.
    ///
    /// - Parameter bytes: Exactly 65 bytes, the first 0x04. Other values return nil.
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

/// The identity of a store and the epoch of its counters. Challenges are bound to both.
public struct StoreIdentity: Equatable, Sendable {
    /// The id of the store, drawn at its creation.
    public let store: RandomID
    /// The epoch, which is drawn again whenever counters may have gone back. Challenges and conditional writes of
    /// another epoch are refused.
    public let epoch: RandomID

    package init(store: RandomID, epoch: RandomID) {
        self.store = store
        self.epoch = epoch
    }
}

/// A random id of 16 bytes.
public struct RandomID: Hashable, Sendable {
    private let high: UInt64
    private let low: UInt64

    /// Draws an id from the system's random generator, which is cryptographically secure on Linux.
    package init() {
        var generator = SystemRandomNumberGenerator()
        high = generator.next()
        low = generator.next()
    }

    /// Creates an id.
    ///
    /// - Parameter bytes: Exactly 16 bytes. Other lengths return nil.
    public init?(_ bytes: [UInt8]) {
        self.init(bytes.span)
    }

    package init?(_ bytes: Span<UInt8>) {
        guard bytes.count == 16 else { return nil }
        high = (0..<8).reduce(0) { $0 << 8 | UInt64(bytes[$1]) }
        low = (8..<16).reduce(0) { $0 << 8 | UInt64(bytes[$1]) }
    }

    /// The 16 bytes.
    public var bytes: [UInt8] {
        [high, low].flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) } }
    }
}
