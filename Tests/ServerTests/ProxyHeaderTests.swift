import EventLoop
import Testing

@testable import Server

private typealias Samples = ProxyHeaderSamples

private func parse(_ bytes: [UInt8]) throws(ProxyHeaderFault) -> ProxyHeader? { try ProxyHeader.parse(bytes.span) }

@Suite("The PROXY header")
struct ProxyHeaderTests {
    struct Accepted: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let bytes: [UInt8]
        /// The client, as text; nil if the proxy's own address stays in force.
        let source: String?

        init(_ description: String, _ bytes: [UInt8], _ source: String?) {
            testDescription = description
            self.bytes = bytes
            self.source = source
        }
    }

    static let accepted = [
        Accepted("TCP4", Samples.line("PROXY TCP4 192.0.2.7 192.0.2.1 56324 443\r\n"), "192.0.2.7:56324"),
        Accepted("the longest TCP4", longest4, "255.255.255.255:65535"),
        Accepted("TCP6", Samples.line("PROXY TCP6 2001:DB8::7 2001:db8::1 0 443\r\n"), "[2001:db8::7]:0"),
        Accepted("the longest TCP6", longest6, "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"),
        Accepted(
            "TCP6 with IPv4 in it", Samples.line("PROXY TCP6 ::ffff:192.0.2.7 ::ffff:192.0.2.1 1 2\r\n"), "192.0.2.7:1"),
        Accepted("UNKNOWN alone", Samples.line("PROXY UNKNOWN\r\n"), nil),
        Accepted("UNKNOWN with addresses", Samples.line("PROXY UNKNOWN 192.0.2.7 192.0.2.1 1 2\r\n"), nil),
        Accepted("UNKNOWN with anything, to the last byte", Samples.line("PROXY UNKNOWN " + x(91) + "\r\n"), nil),
        Accepted("TCP over IPv4", Samples.binary(), "192.0.2.7:56324"),
        Accepted("TCP over IPv6", Samples.binary(family: 0x21, Samples.overIPv6), "[2001:db8::7]:56324"),
        Accepted("IPv4 within IPv6", Samples.binary(family: 0x21, Samples.mapped), "192.0.2.7:56324"),
        Accepted("values", Samples.binary(Samples.overIPv4 + values), "192.0.2.7:56324"),
        Accepted("a checksum", Samples.checked(), "192.0.2.7:56324"),
        Accepted("LOCAL", Samples.binary(command: 0x20, family: 0x00, []), nil),
        Accepted("LOCAL with a family and what it likes", Samples.binary(command: 0x20, family: 0xff, [1, 2]), nil),
        Accepted("LOCAL with addresses", Samples.binary(command: 0x20), nil),
        Accepted("UNSPEC", Samples.binary(family: 0x00, []), nil),
        Accepted("UNSPEC with what it likes", Samples.binary(family: 0x00, [3, 0, 9]), nil),
        Accepted("as much as there may be", Samples.binary(Samples.overIPv4 + padding(1024 - 12)), "192.0.2.7:56324"),
    ]

    private static let longest4 = Samples.line("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n")
    private static let full = Array(repeating: "ffff", count: 8).joined(separator: ":")
    private static let longest6 = Samples.line("PROXY TCP6 \(full) \(full) 65535 65535\r\n")
    private static let values =
        Samples.value(0x02, Array("example.org".utf8)) + Samples.value(0x04, []) + Samples.value(0xea, [0, 1, 2])

    private static func x(_ count: Int) -> String { String(repeating: "x", count: count) }

    /// PP2_TYPE_NOOP of so many bytes in all.
    private static func padding(_ count: Int) -> [UInt8] {
        Samples.value(0x04, [UInt8](repeating: 0, count: count - 3))
    }

    @Test("a header gives the client's address in any pieces, and ends at its own end", arguments: accepted)
    func source(_ sample: Accepted) throws {
        for count in 0..<sample.bytes.count {
            let known = Array(sample.bytes[..<count])
            #expect(try parse(known) == nil, "\(count) bytes")
        }
        for rest in [[], Array("PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n".utf8), [0x16, 0x03, 0x01]] as [[UInt8]] {
            let all = sample.bytes + rest
            let header = try #require(try parse(all))
            #expect(header.source?.description == sample.source)
            #expect(header.length == sample.bytes.count)
        }
    }

    struct Refused: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let bytes: [UInt8]
        let fault: ProxyHeaderFault

        init(_ description: String, _ bytes: [UInt8], _ fault: ProxyHeaderFault) {
            testDescription = description
            self.bytes = bytes
            self.fault = fault
        }

        /// Of version 1.
        init(_ line: String, _ fault: ProxyHeaderFault) {
            self.init(line.debugDescription, Samples.line(line), fault)
        }
    }

    static let strangers = [
        Refused("TLS", [0x16], .absent), Refused("an HTTP request", Samples.line("GET / HTTP/1.1\r\n"), .absent),
        Refused("another method with P", Samples.line("POST / HTTP/1.1\r\n"), .absent), Refused("NUL", [0], .absent),
        Refused("proxy TCP4 1.1.1.1 1.1.1.1 1 1\r\n", .absent), Refused("PROXY\tTCP4", .absent),
        Refused("PROXY\r\n", .absent), Refused(" PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n", .absent),
        Refused("a signature with one bit wrong", Samples.signature.dropLast() + [0x0b], .absent),
        Refused("empty lines", [0x0d, 0x0a, 0x0d, 0x0a, 0x0d], .absent),
    ]

    static let lines = [
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 1 2\n", .lineEnd), Refused("PROXY UNKNOWN\n", .lineEnd),
        Refused("PROXY TCP4 192.0.2.7\n192.0.2.1 1 2\r\n", .lineEnd),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 1 2\r\r\n", .linePort),
        Refused("PROXY UNKNOWN " + x(92) + "\r\n", .lineTooLong),
        Refused("PROXY TCP4 " + x(96), .lineTooLong),
        Refused("PROXY \r\n", .lineProtocol), Refused("PROXY UNKNOWNS\r\n", .lineWords),
        Refused("PROXY UDP4 192.0.2.7 192.0.2.1 1 2\r\n", .lineProtocol),
        Refused("PROXY TCP44 192.0.2.7 192.0.2.1 1 2\r\n", .lineProtocol),
        Refused("PROXY tcp4 192.0.2.7 192.0.2.1 1 2\r\n", .lineProtocol),
        Refused("PROXY UNIX /a /b 1 2\r\n", .lineProtocol),
        Refused("PROXY TCP4\r\n", .lineWords), Refused("PROXY  TCP4 192.0.2.7 192.0.2.1 1 2\r\n", .lineWords),
        Refused("PROXY TCP4 192.0.2.7  192.0.2.1 1 2\r\n", .lineWords),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 1\r\n", .lineWords),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 1 2 \r\n", .lineWords),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 1 2 3\r\n", .lineWords),
        Refused("PROXY TCP4 192.0.2.7\t192.0.2.1 1 2\r\n", .lineWords),
        Refused("PROXY TCP4 192.0.2.07 192.0.2.1 1 2\r\n", .lineAddress),
        Refused("PROXY TCP4 192.0.2.256 192.0.2.1 1 2\r\n", .lineAddress),
        Refused("PROXY TCP4 192.0.2 192.0.2.1 1 2\r\n", .lineAddress),
        Refused("PROXY TCP4 192.0.2.7\0 192.0.2.1 1 2\r\n", .lineAddress),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.x 1 2\r\n", .lineAddress),
        Refused("PROXY TCP4 ::1 ::1 1 2\r\n", .lineAddress),
        Refused("PROXY TCP6 192.0.2.7 192.0.2.1 1 2\r\n", .lineAddress),
        Refused("PROXY TCP6 ::1::2 ::1 1 2\r\n", .lineAddress), Refused("PROXY TCP6 [::1] ::1 1 2\r\n", .lineAddress),
        Refused("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", .lineAddress),
        Refused("PROXY TCP6 10000::1 ::1 1 2\r\n", .lineAddress), Refused("PROXY TCP6 1:2:3 ::1 1 2\r\n", .lineAddress),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 65536 2\r\n", .linePort),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 01 2\r\n", .linePort),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 +1 2\r\n", .linePort),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 1 -2\r\n", .linePort),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 1 0x2\r\n", .linePort),
        Refused("PROXY TCP4 192.0.2.7 192.0.2.1 000001 2\r\n", .linePort),
    ]

    static let binaries = [
        Refused("version 1", Samples.binary(command: 0x11), .version),
        Refused("version 3", Samples.binary(command: 0x31), .version),
        Refused("version 0", Samples.binary(command: 0x01), .version),
        Refused("another command", Samples.binary(command: 0x22), .command),
        Refused("the last command", Samples.binary(command: 0x2f), .command),
        Refused("UDP over IPv4", Samples.binary(family: 0x12), .family),
        Refused("UDP over IPv6", Samples.binary(family: 0x22, Samples.overIPv6), .family),
        Refused("a Unix socket", Samples.binary(family: 0x31, [UInt8](repeating: 1, count: 216)), .family),
        Refused("no protocol over IPv4", Samples.binary(family: 0x10), .family),
        Refused("no family, but a stream", Samples.binary(family: 0x01), .family),
        Refused("a family there is not", Samples.binary(family: 0x41), .family),
        Refused("no addresses", Samples.binary([]), .addresses),
        Refused("an octet too few", Samples.binary(Samples.overIPv4.dropLast()), .addresses),
        Refused("IPv4 for IPv6", Samples.binary(family: 0x21), .addresses),
        Refused("one byte too much", Samples.binary([], length: 1025), .tooLong),
        Refused("the longest that can be said", Samples.binary([], length: 0xffff), .tooLong),
        Refused("LOCAL, too long", Samples.binary(command: 0x20, [], length: 1025), .tooLong),
        Refused("half the head of a value", Samples.binary(Samples.overIPv4 + [4, 0]), .value),
        Refused("a value beyond the end", Samples.binary(Samples.overIPv4 + [4, 0, 2, 1]), .value),
        Refused(
            "a second value beyond the end",
            Samples.binary(Samples.overIPv4 + Samples.value(4, [1]) + [4, 0xff, 0xff]),
            .value),
        Refused("a wrong checksum", Samples.checked([1, 2, 3, 4]), .checksum),
        Refused("a short checksum", Samples.binary(Samples.overIPv4 + Samples.value(3, [1, 2])), .checksum),
        Refused(
            "a second checksum", Samples.binary(Samples.checked()[16...] + Samples.value(3, [0, 0, 0, 0])), .checksum),
    ]

    @Test("anything else is refused as no header", arguments: strangers)
    func absent(_ sample: Refused) { refuse(sample) }

    @Test("a version 1 header has one spelling", arguments: lines)
    func line(_ sample: Refused) { refuse(sample) }

    @Test("a version 2 header with invalid parts or lengths is refused", arguments: binaries)
    func binary(_ sample: Refused) { refuse(sample) }

    @Test("a header with one changed bit fails its checksum")
    func changed() {
        for place in 16..<28 {
            for bit in 0..<8 {
                var bytes = Samples.checked()
                bytes[place] ^= 1 << bit
                refuse(Refused("bit \(bit) of byte \(place)", bytes, .checksum))
            }
        }
    }

    /// However it comes, and with whatever behind it, it is refused with the same words.
    private func refuse(_ sample: Refused) {
        for bytes in [sample.bytes, sample.bytes + Samples.line("\r\n")] {
            #expect(throws: sample.fault) { try parse(bytes) }
        }
        for count in 0..<sample.bytes.count {
            let known = Array(sample.bytes[..<count])
            do throws(ProxyHeaderFault) {
                #expect(try parse(known) == nil, "\(count) bytes")
            } catch {
                #expect(error == sample.fault, "\(count) bytes")
            }
        }
    }

    private static let everyFault: [ProxyHeaderFault] = (strangers + lines + binaries).map(\.fault)

    @Test("every refusal reason occurs and has its own text")
    func words() {
        let reasons = Set((Self.everyFault + [.late, .cut]).map(\.reason))
        #expect(reasons.count == 16)
    }
}

@Suite("CRC32C")
struct CRC32CTests {
    @Test(
        "the checksum is that of RFC 3720 appendix B.4",
        arguments: [
            ([UInt8](repeating: 0, count: 32), 0x8a91_36aa), ([UInt8](repeating: 0xff, count: 32), 0x62a8_ab43),
            (Array(0..<32), 0x46dd_794e), (Array((0..<32).reversed()), 0x113f_db5c),
            (Array("123456789".utf8), 0xe306_9283),
        ] as [([UInt8], UInt32)])
    func vectors(bytes: [UInt8], checksum: UInt32) {
        let computed = CRC32C.of(bytes.span, takingAsZero: 0..<0)
        #expect(computed == checksum)
    }

    @Test("the checksum's own bytes count as zero")
    func zeros() {
        let bytes = [UInt8](repeating: 0, count: 32)
        var marked = bytes
        for place in 10..<14 { marked[place] = 0xaa }
        let computed = CRC32C.of(marked.span, takingAsZero: 10..<14)
        #expect(computed == 0x8a91_36aa)
    }
}

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
