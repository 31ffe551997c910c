/// The checksum of RFC 4960 appendix B, bit by bit: few proxies send it, and then once for a connection.
enum CRC32C {
    /// - Parameter zeros: where the checksum itself stands.
    static func of(_ bytes: Span<UInt8>, takingAsZero zeros: Range<Int>) -> UInt32 {
        var remainder: UInt32 = 0xffff_ffff
        for place in bytes.indices {
            remainder ^= zeros.contains(place) ? 0 : UInt32(bytes[place])
            for _ in 0..<8 {
                // The polynomial 0x1EDC6F41 with its bits in reverse, as they are in each octet.
                remainder = remainder & 1 == 0 ? remainder >> 1 : remainder >> 1 ^ 0x82f6_3b78
            }
        }
        return ~remainder
    }
}
