public import EventLoop

/// The header of HAProxy's PROXY protocol (doc/proxy-protocol.txt), versions 1 and 2: it names the client of a
/// connection that a proxy relays. A value without I/O.
package struct ProxyHeader: Sendable {
    /// The client's address; nil if the proxy speaks for itself or does not know the client, so that its own address
    /// counts (section 2.1, UNKNOWN; section 2.2, LOCAL and UNSPEC).
    package let source: SocketAddress?
    /// The length in bytes. What follows belongs to the client, even if it looks like another header: there is
    /// exactly one.
    package let length: Int

    /// The longest header accepted, in bytes. The protocol intends it to fit a segment of 536 (section 2), but
    /// type-length-values can be long, such as names and certificates of clients.
    package static let longest = binaryHead + 1024

    /// Parses a header.
    ///
    /// - Parameter bytes: The connection's bytes from the first on.
    /// - Returns: Nil if they are the beginning of a header; all of them then belong to it.
    package static func parse(_ bytes: Span<UInt8>) throws(ProxyHeaderFault) -> ProxyHeader? {
        guard !bytes.isEmpty else { return nil }
        return bytes[0] == keyword[0] ? try parseLine(bytes) : try parseBinary(bytes)
    }
}

/// Version 1, a line of text (section 2.1): `PROXY TCP4 192.0.2.7 192.0.2.1 56324 443` and CRLF.
extension ProxyHeader {
    private static let keyword = word("PROXY ")
    private static let unknown = word("UNKNOWN")
    private static let overIPv4 = word("TCP4")
    private static let overIPv6 = word("TCP6")
    /// The longest line with its end.
    private static let longestLine = 107
    private static let space = UInt8(ascii: " ")

    private static func word(_ text: String) -> [UInt8] { Array(text.utf8) }

    private static func parseLine(_ bytes: Span<UInt8>) throws(ProxyHeaderFault) -> ProxyHeader? {
        for place in 0..<min(bytes.count, keyword.count) where bytes[place] != keyword[place] { throw .absent }
        guard let end = try lineEnd(bytes) else { return nil }
        let line = bytes.extracting(first: end - 2)
        guard line.count > keyword.count else { throw .lineProtocol }
        return ProxyHeader(source: try source(line.extracting(keyword.count...)), length: end)
    }

    /// Finds the end of the line; addresses are parsed only in a complete line.
    ///
    /// - Returns: The length of the line with its end; nil if it is incomplete.
    private static func lineEnd(_ bytes: Span<UInt8>) throws(ProxyHeaderFault) -> Int? {
        for place in 0..<min(bytes.count, longestLine) where bytes[place] == UInt8(ascii: "\n") {
            guard bytes[place - 1] == UInt8(ascii: "\r") else { throw .lineEnd }
            return place + 1
        }
        guard bytes.count < longestLine else { throw .lineTooLong }
        return nil
    }

    private static func source(_ line: Span<UInt8>) throws(ProxyHeaderFault) -> SocketAddress? {
        // What follows it is ignored.
        if begins(line, with: unknown), line.count == unknown.count || line[unknown.count] == space { return nil }
        var position = 0
        let family = try nextWord(of: line, from: &position)
        let isIPv6 = begins(line, with: overIPv6)
        guard family.count == overIPv4.count, isIPv6 || begins(line, with: overIPv4) else { throw .lineProtocol }
        let from = try nextWord(of: line, from: &position)
        let to = try nextWord(of: line, from: &position)
        let fromPort = try port(line.extracting(try nextWord(of: line, from: &position)))
        let toPort = try port(line.extracting(try nextWord(of: line, from: &position, isLast: true)))
        guard SocketAddress(text: line.extracting(to), isIPv6: isIPv6, port: toPort) != nil,
            let source = SocketAddress(text: line.extracting(from), isIPv6: isIPv6, port: fromPort)
        else { throw .lineAddress }
        return source
    }

    /// Takes the next word, which ends with one space, or for the last word with the line.
    private static func nextWord(
        of line: Span<UInt8>, from position: inout Int, isLast: Bool = false
    ) throws(ProxyHeaderFault) -> Range<Int> {
        let start = position
        while position < line.count, line[position] != space { position += 1 }
        guard position > start, (position == line.count) == isLast else { throw .lineWords }
        defer { position += 1 }
        return start..<position
    }

    private static func port(_ digits: Span<UInt8>) throws(ProxyHeaderFault) -> UInt16 {
        guard 1...5 ~= digits.count, digits.count == 1 || digits[0] != UInt8(ascii: "0") else { throw .linePort }
        var number = 0
        for place in digits.indices {
            guard UInt8(ascii: "0")...UInt8(ascii: "9") ~= digits[place] else { throw .linePort }
            number = 10 * number + Int(digits[place] - UInt8(ascii: "0"))
        }
        guard let port = UInt16(exactly: number) else { throw .linePort }
        return port
    }

    private static func begins(_ line: Span<UInt8>, with word: [UInt8]) -> Bool {
        guard line.count >= word.count else { return false }
        for place in word.indices where line[place] != word[place] { return false }
        return true
    }
}

/// Version 2, in binary (section 2.2): signature, version and command, family and protocol, length; then two addresses, two
/// ports, and type-length-values.
extension ProxyHeader {
    private static let signature: InlineArray<12, UInt8> = [
        0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a,
    ]
    /// The length of the fixed part, in bytes.
    private static let binaryHead = 16
    /// PP2_TYPE_CRC32C.
    private static let checksumType: UInt8 = 0x03

    private static func parseBinary(_ bytes: Span<UInt8>) throws(ProxyHeaderFault) -> ProxyHeader? {
        for place in 0..<min(bytes.count, signature.count) where bytes[place] != signature[place] { throw .absent }
        guard bytes.count >= binaryHead else { return nil }
        guard bytes[12] >> 4 == 2 else { throw .version }
        let length = binaryHead + number(bytes, at: 14)
        guard length <= longest else { throw .tooLong }
        let octets: Int?
        switch bytes[12] & 0x0f {
        case 0: octets = nil  // LOCAL: the family is ignored
        case 1: octets = try addressLength(bytes[13])
        default: throw .command
        }
        guard bytes.count >= length else { return nil }
        let header = bytes.extracting(first: length)
        guard let octets else { return ProxyHeader(source: nil, length: length) }
        return ProxyHeader(source: try source(header, octets), length: length)
    }

    /// Returns the number of octets of an address; nil if there are no addresses to read.
    private static func addressLength(_ family: UInt8) throws(ProxyHeaderFault) -> Int? {
        switch family {
        case 0x00: nil  // UNSPEC: any bytes may follow
        case 0x11: 4
        case 0x21: 16
        default: throw .family
        }
    }

    private static func source(_ header: Span<UInt8>, _ octets: Int) throws(ProxyHeaderFault) -> SocketAddress? {
        let values = binaryHead + 2 * octets + 4
        guard header.count >= values else { throw .addresses }
        try checkValues(header, from: values)
        let port = UInt16(number(header, at: binaryHead + 2 * octets))
        return SocketAddress(octets: header.extracting(binaryHead..<(binaryHead + octets)), port: port)
    }

    /// Checks that the type-length-values end with the header, and that the checksum, if any, is right. The other
    /// values are not read.
    private static func checkValues(_ header: Span<UInt8>, from start: Int) throws(ProxyHeaderFault) {
        var position = start
        var checksum: Int?
        while position < header.count {
            guard header.count - position >= 3 else { throw .value }
            let value = position + 3
            let end = value + number(header, at: position + 1)
            guard end <= header.count else { throw .value }
            if header[position] == checksumType {
                guard checksum == nil, end - value == 4 else { throw .checksum }
                checksum = value
            }
            position = end
        }
        guard let checksum else { return }
        let stated = UInt32(number(header, at: checksum)) << 16 | UInt32(number(header, at: checksum + 2))
        guard CRC32C.of(header, takingAsZero: checksum..<(checksum + 4)) == stated else { throw .checksum }
    }

    /// Returns two octets in network order.
    private static func number(_ bytes: Span<UInt8>, at place: Int) -> Int {
        Int(bytes[place]) << 8 | Int(bytes[place + 1])
    }
}

/// The checksum of RFC 4960 appendix B, computed bit by bit: few proxies send it, and only once per connection.
enum CRC32C {
    /// Returns the checksum.
    ///
    /// - Parameter zeros: The range of the checksum itself.
    static func of(_ bytes: Span<UInt8>, takingAsZero zeros: Range<Int>) -> UInt32 {
        var remainder: UInt32 = 0xffff_ffff
        for place in bytes.indices {
            remainder ^= zeros.contains(place) ? 0 : UInt32(bytes[place])
            for _ in 0..<8 {
                // The polynomial 0x1EDC6F41 with its bits in reverse, as in each byte.
                remainder = remainder & 1 == 0 ? remainder >> 1 : remainder >> 1 ^ 0x82f6_3b78
            }
        }
        return ~remainder
    }
}

/// The reason why the connection of a trusted proxy is not served. Sections are those of HAProxy's
/// proxy-protocol.txt.
public enum ProxyHeaderFault: Error, Equatable, Sendable {
    /// Neither the word `PROXY` nor the signature of version 2: the connection must be dropped (section 2.2).
    case absent
    /// The time for the handshake is over.
    case late
    /// The proxy ended the connection within the header.
    case cut

    // Version 1, section 2.1.
    case lineTooLong
    /// A line feed without its carriage return.
    case lineEnd
    /// Neither TCP4 nor TCP6 nor UNKNOWN.
    case lineProtocol
    /// Words are missing, or too many, or not one space apart.
    case lineWords
    case lineAddress
    case linePort

    // Version 2, section 2.2.
    case version
    case command
    case tooLong
    /// Neither TCP over IPv4 nor over IPv6 nor unspecified.
    case family
    /// Too short for its two addresses.
    case addresses
    /// A type-length-value is longer than the rest of the header.
    case value
    /// The checksum is wrong, or there are two (section 2.2.3).
    case checksum

    /// The text for the log. It repeats nothing of the header.
    public var reason: String {
        switch self {
        case .absent: "the trusted proxy's connection does not begin with a PROXY header"
        case .late: "the PROXY header was not complete in time"
        case .cut: "the trusted proxy closed the connection within the PROXY header"
        case .lineTooLong: "PROXY header, version 1: no line end within 107 bytes"
        case .lineEnd: "PROXY header, version 1: the line does not end with CRLF"
        case .lineProtocol: "PROXY header, version 1: the protocol is not TCP4, TCP6 or UNKNOWN"
        case .lineWords: "PROXY header, version 1: not two addresses and two ports, one space apart"
        case .lineAddress: "PROXY header, version 1: no address of the family it names"
        case .linePort: "PROXY header, version 1: no port from 0 to 65535 in plain decimal digits"
        case .version: "PROXY header, version 2: another version"
        case .command: "PROXY header, version 2: the command is neither LOCAL nor PROXY"
        case .tooLong: "PROXY header, version 2: longer than \(ProxyHeader.longest) bytes"
        case .family: "PROXY header, version 2: the client's connection is not TCP over IPv4 or IPv6"
        case .addresses: "PROXY header, version 2: too short for its addresses"
        case .value: "PROXY header, version 2: a type-length-value reaches beyond the header"
        case .checksum: "PROXY header, version 2: the checksum is wrong"
        }
    }
}

/// The peers of a listener that relay connections of others: each of theirs begins with a PROXY header.
///
/// Connections of other peers are not searched for a header: otherwise a peer could choose the address that limits
/// and logs use for it.
public struct TrustedProxies: Equatable, Sendable {
    private let networks: [NetworkPrefix]

    public static let none = TrustedProxies([])

    public init(_ networks: [NetworkPrefix]) {
        self.networks = networks
    }

    /// A copy without memory shared with other threads.
    var unshared: TrustedProxies { TrustedProxies(networks.map { $0 }) }

    func contains(_ peer: SocketAddress) -> Bool {
        for network in networks where network.contains(peer) { return true }
        return false
    }
}

/// The peers that may connect to a listener.
public struct AdmittedPeers: Sendable {
    /// The users of a Unix socket's peers. Nil for any.
    private let users: [UInt32]?
    /// Nil for any.
    private let networks: TrustedProxies?

    public static let all = AdmittedPeers()

    public init(users: [UInt32]? = nil, networks: TrustedProxies? = nil) {
        self.users = users
        self.networks = networks
    }

    /// A copy without memory shared with other threads.
    var unshared: AdmittedPeers { AdmittedPeers(users: users.map { $0.map { $0 } }, networks: networks?.unshared) }

    func contains(_ connection: ServerConnection) -> Bool {
        if let networks, !networks.contains(connection.peer) { return false }
        guard let users else { return true }
        return connection.peerUser.map(users.contains) ?? false
    }
}
