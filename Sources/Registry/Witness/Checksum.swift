/// CRC-32 as of IEEE 802.3 (zlib's): tells damage of a file from what was written. It keeps nobody from writing something else.
enum Checksum {
    private static let table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { value, _ in value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1 }
    }

    static func of(_ bytes: some Sequence<UInt8>) -> UInt32 { of(bytes, behind: 0) }

    /// That of some bytes and of these behind them. - Parameter sum: that of the former; 0 if there are none.
    static func of(_ bytes: some Sequence<UInt8>, behind sum: UInt32) -> UInt32 {
        ~bytes.reduce(~sum) { sum, byte in table[Int(UInt8(truncatingIfNeeded: sum) ^ byte)] ^ (sum >> 8) }
    }

    /// Eight hexadecimal digits.
    static func text(of bytes: some Sequence<UInt8>) -> String { text(of(bytes)) }

    static func text(_ sum: UInt32) -> String {
        let digits = String(sum, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }
}
