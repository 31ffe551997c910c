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
