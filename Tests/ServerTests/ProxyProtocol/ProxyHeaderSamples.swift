/// Headers made byte by byte, of both versions.
enum ProxyHeaderSamples {
    static let signature: [UInt8] = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a]
    /// 192.0.2.7:56324 to 192.0.2.1:443.
    static let overIPv4: [UInt8] = [192, 0, 2, 7, 192, 0, 2, 1, 0xdc, 0x04, 0x01, 0xbb]
    /// The same ports, 2001:db8::7 to 2001:db8::1.
    static let overIPv6 = v6(7) + v6(1) + overIPv4[8...]
    /// ::ffff:192.0.2.7 to ::ffff:192.0.2.1.
    static let mapped = map(overIPv4[..<4]) + map(overIPv4[4..<8]) + overIPv4[8...]

    private static func v6(_ last: UInt8) -> [UInt8] {
        [0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [last]
    }

    private static func map(_ octets: ArraySlice<UInt8>) -> [UInt8] {
        [UInt8](repeating: 0, count: 10) + [0xff, 0xff] + octets
    }

    static func line(_ text: String) -> [UInt8] { Array(text.utf8) }

    /// Of version 2. - Parameter length: what it says of the rest; by default the truth.
    static func binary(
        command: UInt8 = 0x21, family: UInt8 = 0x11, _ rest: [UInt8] = overIPv4, length: Int? = nil
    ) -> [UInt8] {
        let length = length ?? rest.count
        return signature + [command, family, UInt8(length >> 8), UInt8(length & 0xff)] + rest
    }

    static func value(_ type: UInt8, _ value: [UInt8]) -> [UInt8] {
        [type, UInt8(value.count >> 8), UInt8(value.count & 0xff)] + value
    }

    /// Over IPv4, with a checksum; the right one was computed elsewhere, by another program.
    static func checked(_ checksum: [UInt8] = [0xa2, 0xaa, 0x7a, 0xe9]) -> [UInt8] {
        binary(overIPv4 + value(0x03, checksum))
    }
}
