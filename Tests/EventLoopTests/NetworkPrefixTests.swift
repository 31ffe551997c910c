import EventLoop
import Testing

@Suite("Network prefixes")
struct NetworkPrefixTests {
    private static func v4(_ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8, _ length: Int) throws -> NetworkPrefix {
        try #require(NetworkPrefix(octets: [a, b, c, d], length: length))
    }

    private static func v6(_ octets: [UInt8], _ length: Int) throws -> NetworkPrefix {
        let rest = [UInt8](repeating: 0, count: 16 - octets.count)
        return try #require(NetworkPrefix(octets: octets + rest, length: length))
    }

    @Test("a network contains all addresses with its prefix, from the first to the last")
    func members() throws {
        let ten = try Self.v4(10, 0, 0, 0, 8)
        for text in ["10.0.0.0:1", "10.255.255.255:1"] { #expect(try ten.contains(SocketAddress(text)), "\(text)") }
        for text in ["9.255.255.255:1", "11.0.0.0:1"] { #expect(try !ten.contains(SocketAddress(text)), "\(text)") }
        let odd = try Self.v4(192, 0, 2, 64, 27)
        for text in ["192.0.2.64:1", "192.0.2.95:1"] { #expect(try odd.contains(SocketAddress(text)), "\(text)") }
        for text in ["192.0.2.63:1", "192.0.2.96:1"] { #expect(try !odd.contains(SocketAddress(text)), "\(text)") }
        let one = try Self.v4(127, 0, 0, 1, 32)
        #expect(try one.contains(SocketAddress("127.0.0.1:1")) && !one.contains(SocketAddress("127.0.0.2:1")))
        let wide = try Self.v6([0x20, 0x01, 0x0d, 0xb8], 33)
        #expect(try wide.contains(SocketAddress("[2001:db8:7fff::1]:1")))
        #expect(try !wide.contains(SocketAddress("[2001:db8:8000::1]:1")))
    }

    @Test("a prefix of no bits contains its whole family and nothing of the other")
    func everything() throws {
        let all = try Self.v4(0, 0, 0, 0, 0)
        #expect(try all.contains(SocketAddress("255.255.255.255:1")) && !all.contains(SocketAddress("[::1]:1")))
        let other = try Self.v6([], 0)
        #expect(try other.contains(SocketAddress("[ff::1]:1")) && !other.contains(SocketAddress("0.0.0.0:1")))
        #expect(try !all.contains(SocketAddress(unixPath: "/a")) && !other.contains(SocketAddress(unixPath: "/a")))
    }

    @Test("a prefix needs 4 or 16 bytes, a valid length and no bits behind it")
    func none() {
        #expect(NetworkPrefix(octets: [], length: 0) == nil)
        #expect(NetworkPrefix(octets: [10, 0, 0], length: 8) == nil)
        #expect(NetworkPrefix(octets: [10, 0, 0, 0], length: 33) == nil)
        #expect(NetworkPrefix(octets: [10, 0, 0, 0], length: -1) == nil)
        #expect(NetworkPrefix(octets: [10, 0, 0, 1], length: 31) == nil)
        #expect(NetworkPrefix(octets: [10, 0, 0, 1], length: 32) != nil)
    }
}

private func address(_ octets: [UInt8], port: UInt16) -> SocketAddress? {
    SocketAddress(octets: octets.span, port: port)
}

private func address(text: String, isIPv6: Bool, port: UInt16) -> SocketAddress? {
    SocketAddress(text: Array(text.utf8).span, isIPv6: isIPv6, port: port)
}

@Suite("Addresses in protocols")
struct CarriedAddressTests {
    @Test("an address has 4 or 16 bytes")
    func octets() {
        #expect(address([192, 0, 2, 7], port: 443)?.description == "192.0.2.7:443")
        let v6: [UInt8] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]
        #expect(address(v6, port: 1)?.description == "[2001:db8::7]:1")
        #expect(address([1, 2, 3], port: 1) == nil)
        #expect(address([], port: 1) == nil)
    }

    @Test("an IPv4-mapped IPv6 address is the IPv4 address, so that each client is one source")
    func mapped() throws {
        let mapped = [UInt8](repeating: 0, count: 10) + [0xff, 0xff, 192, 0, 2, 7]
        let found = try #require(address(mapped, port: 9))
        #expect(found.description == "192.0.2.7:9" && !found.isIPv6)
        #expect(try found.block == SocketAddress("192.0.2.7:1").block)
        #expect(address(text: "::ffff:192.0.2.7", isIPv6: true, port: 9)?.description == "192.0.2.7:9")
        // Neither ::192.0.2.7 nor 64:ff9b::192.0.2.7 maps an IPv4 address.
        #expect(address(text: "::192.0.2.7", isIPv6: true, port: 9)?.isIPv6 == true)
    }

    @Test(
        "text with anything behind the address is refused",
        arguments: ["", "1.2.3.4 ", "1.2.3.4\0", "1.2.3.4\0x", "a.b", "1.2.3"])
    func texts(_ text: String) {
        #expect(address(text: text, isIPv6: false, port: 1) == nil)
    }

    @Test("text longer than the longest address is refused")
    func long() {
        let longest = "0000:0000:0000:0000:0000:ffff:192.168.100.100"
        #expect(address(text: longest, isIPv6: true, port: 1)?.description == "192.168.100.100:1")
        #expect(address(text: longest + "1", isIPv6: true, port: 1) == nil)
    }
}
