internal import Glibc

/// A host and a port of a listener or of an upstream's server, or the server's Unix socket.
public struct ServerAddress: Hashable, Sendable {
    /// A DNS name in lower case, or a literal address in canonical form, IPv6 without brackets. `localhost` for a Unix
    /// socket.
    public let host: String
    /// 0 for a Unix socket.
    public let port: UInt16
    /// Whether the host is an address, which needs no resolution.
    public let isLiteral: Bool
    /// Whether traffic to the host stays on the machine: 127.0.0.0/8, ::1, `localhost`, a Unix socket.
    public let isLoopback: Bool
    /// The absolute path of a Unix socket. Nil for others.
    public let socketPath: String?

    /// A regular expression that every address matches.
    static let pattern = "^([^:]+|\\[[0-9a-fA-F:.]+\\]):[1-9][0-9]{0,4}$"

    /// A regular expression that every literal address matches.
    static let literalPattern = "^([0-9.]+|\\[[0-9a-fA-F:.]+\\]):[1-9][0-9]{0,4}$"

    /// Parses `127.0.0.1:8443`, `[::1]:8443` or `records.internal:9000`.
    static func parse(_ text: String) throws(InvalidValue) -> ServerAddress {
        if let scheme = text.firstRange(of: "://") {
            let authority = String(text[scheme.upperBound...].prefix { $0 != "/" })
            throw InvalidValue(
                "\(Printable.quoted(text)) is a URL", suggestion: (try? parse(authority)).map(\.description))
        }
        if let port = Decimal.parse(text[...]), UInt16(exactly: port) != nil {
            throw InvalidValue("\(Printable.quoted(text)) has no address, only a port")
        }
        guard let colon = text.lastIndex(of: ":"), !text.hasSuffix("]") else {
            throw InvalidValue("\(Printable.quoted(text)) has no port")
        }
        let digits = text[text.index(after: colon)...]
        guard let number = Decimal.parse(digits), let port = UInt16(exactly: number), port > 0 else {
            throw InvalidValue("\(Printable.quoted(String(digits))) is not a port from 1 to 65535")
        }
        let host = String(text[..<colon])
        if host == "*" || host.isEmpty {
            throw InvalidValue("\(Printable.quoted(text)) has no address", suggestion: "0.0.0.0:\(port)")
        }
        if host.hasPrefix("["), host.hasSuffix("]"), let literal = IPLiteral(String(host.dropFirst().dropLast())),
            literal.isIPv6
        {
            return ServerAddress(literal, port)
        }
        if let literal = IPLiteral(host) {
            guard !literal.isIPv6 else {
                throw InvalidValue("an IPv6 address is written in brackets", suggestion: "[\(literal.text)]:\(port)")
            }
            return ServerAddress(literal, port)
        }
        let name: String
        do throws(InvalidValue) { name = try HostName.parseName(host) } catch {
            // The suggestion needs a port as well.
            throw InvalidValue(error.message, suggestion: error.suggestion.map { "\($0):\(port)" })
        }
        return ServerAddress(host: name, port: port, isLiteral: false, isLoopback: name == "localhost")
    }

    /// A regular expression that every address of a server matches.
    static let serverPattern = "^(unix:/.+|([^:]+|\\[[0-9a-fA-F:.]+\\]):[1-9][0-9]{0,4})$"

    /// Parses an address as `parse` does, or `unix:/run/records.sock`.
    static func parseServer(_ text: String) throws(InvalidValue) -> ServerAddress {
        guard !text.hasPrefix("unix:") else { return try parseSocket(text) }
        if text.hasPrefix("/") || text.hasPrefix("unix@") {
            throw InvalidValue(
                "\(Printable.quoted(text)) is no address",
                suggestion: "unix:\(text.hasPrefix("/") ? text : String(text.dropFirst(5)))")
        }
        return try parse(text)
    }

    /// The maximum length of a Unix socket's path in bytes. `sun_path` of unix(7) has one more, for the NUL at its end.
    static let longestSocketPath = 107

    private static func parseSocket(_ text: String) throws(InvalidValue) -> ServerAddress {
        let path = String(text.dropFirst("unix:".count))
        guard path.hasPrefix("/"), !path.hasPrefix("//"), !path.hasSuffix("/"), !path.hasSuffix(":") else {
            let trimmed = path.drop { $0 == "/" }
            let isURL = path.hasPrefix("//") && !trimmed.isEmpty
            throw InvalidValue(
                "\(Printable.quoted(text)) has no absolute path of a socket",
                suggestion: isURL ? "unix:/\(trimmed)" : path.hasSuffix(":") ? String(text.dropLast()) : nil)
        }
        guard path.utf8.count <= longestSocketPath, path.utf8.allSatisfy({ $0 > 0x1f && $0 != 0x7f }) else {
            throw InvalidValue("the path of a socket has at most \(longestSocketPath) bytes, and no control characters")
        }
        return ServerAddress(host: "localhost", port: 0, isLiteral: true, isLoopback: true, socketPath: path)
    }

    /// A regular expression that every address of a listener matches.
    static let listenerPattern = "^(unix:/.+|([0-9.]+|\\[[0-9a-fA-F:.]+\\]):[1-9][0-9]{0,4})$"

    /// Parses an address as `parseLiteral` does, or `unix:/run/attestgate/edge.sock`.
    static func parseListener(_ text: String) throws(InvalidValue) -> ServerAddress {
        let address = try parseServer(text)
        return address.socketPath == nil ? try parseLiteral(text) : address
    }

    /// Parses an address without a name. A listener must not depend on a resolver.
    static func parseLiteral(_ text: String) throws(InvalidValue) -> ServerAddress {
        let address = try parse(text)
        guard address.isLiteral else {
            throw InvalidValue(
                "\(Printable.quoted(address.host)) is a name, not an address",
                suggestion: address.isLoopback ? "127.0.0.1:\(address.port)" : nil)
        }
        return address
    }

    private init(_ literal: IPLiteral, _ port: UInt16) {
        self.init(host: literal.text, port: port, isLiteral: true, isLoopback: literal.isLoopback)
    }

    private init(host: String, port: UInt16, isLiteral: Bool, isLoopback: Bool, socketPath: String? = nil) {
        self.host = host
        self.port = port
        self.isLiteral = isLiteral
        self.isLoopback = isLoopback
        self.socketPath = socketPath
    }
}

extension ServerAddress {
    /// Returns whether two sockets cannot listen on both. 0.0.0.0 includes every IPv4 address, [::] every IPv6 address.
    func overlaps(_ other: ServerAddress) -> Bool {
        guard port == other.port, let own = IPLiteral(host), let its = IPLiteral(other.host) else { return false }
        return own.octets == its.octets || own.isIPv6 == its.isIPv6 && (own.isUnspecified || its.isUnspecified)
    }

    /// Returns the reason why this address cannot be used beside another one, if there is one.
    ///
    /// - Parameters:
    ///   - other: the other address.
    ///   - what: the owner of the other address: "a listener of the administration".
    func objection(to other: ServerAddress, _ what: String) -> String? {
        if self == other { return "\(self) is \(what)" }
        return overlaps(other) ? "\(self) is the same port as \(other), \(what)" : nil
    }
}

extension ServerAddress: CustomStringConvertible {
    /// The notation of the conf file.
    public var description: String {
        if let socketPath { return "unix:\(socketPath)" }
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}

/// A literal IPv4 or IPv6 address in canonical form.
struct IPLiteral: Hashable {
    /// The text of the C library, IPv6 as in RFC 5952, without brackets.
    let text: String
    /// 4 or 16 bytes in network order.
    let octets: [UInt8]
    let isLoopback: Bool
    let isIPv6: Bool

    /// The IPv4 address that an IPv6 address maps (RFC 4291 section 2.5.5.2), or the address itself.
    var unmapped: IPLiteral {
        let isMapped = isIPv6 && octets.prefix(10).allSatisfy { $0 == 0 } && octets[10...11].allSatisfy { $0 == 0xff }
        return isMapped ? IPLiteral(octets: Array(octets.suffix(4))) ?? self : self
    }

    /// Whether this is the unspecified address: 0.0.0.0 or `::`.
    var isUnspecified: Bool { octets.allSatisfy { $0 == 0 } }

    /// Whether this is a multicast address or 255.255.255.255.
    var isForMany: Bool {
        isIPv6 ? octets[0] == 0xff : octets[0] >> 4 == 0xe || octets.allSatisfy { $0 == 0xff }
    }

    /// Creates an address from its bytes.
    ///
    /// - Returns: nil unless there are 4 or 16 bytes.
    init?(octets: [UInt8]) {
        switch octets.count {
        case 4: self.init(octets.map { "\($0)" }.joined(separator: "."))
        case 16:
            let groups = stride(from: 0, to: 16, by: 2).map {
                String(Int(octets[$0]) << 8 | Int(octets[$0 + 1]), radix: 16)
            }
            self.init(groups.joined(separator: ":"))
        default: return nil
        }
    }

    /// Parses an address. Refuses leading zeros, which some programs read as octal.
    ///
    /// - Parameter text: the address without brackets and zone.
    init?(_ text: String) {
        if text.contains(":") {
            var address = in6_addr()
            guard unsafe inet_pton(AF_INET6, text, &address) == 1 else { return nil }
            var canonical = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
            // The buffer holds the longest spelling, so the call cannot fail.
            guard unsafe inet_ntop(AF_INET6, &address, &canonical, socklen_t(canonical.count)) != nil else {
                return nil
            }
            octets = unsafe withUnsafeBytes(of: address) { unsafe Array($0) }
            self.text = String(decoding: canonical.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            isIPv6 = true
            isLoopback = self.text == "::1"
        } else {
            var address = in_addr()
            guard unsafe inet_pton(AF_INET, text, &address) == 1 else { return nil }
            octets = unsafe withUnsafeBytes(of: address) { unsafe Array($0) }
            self.text = text
            isIPv6 = false
            isLoopback = UInt32(bigEndian: address.s_addr) >> 24 == 127
        }
    }
}

/// An address or a network: `10.0.0.0/8`, `2001:db8::/32`, `127.0.0.1`.
public struct Network: Hashable, Sendable {
    /// The lowest address: 4 or 16 bytes in network order.
    public let octets: [UInt8]
    /// The length of the prefix in bits.
    public let length: Int

    public var isIPv6: Bool { octets.count == 16 }
    /// Whether the network contains every address of its family.
    var isEverything: Bool { length == 0 }

    static let expected = "an address or a network, for example 10.0.0.0/8, 192.0.2.7 or \"2001:db8::/32\""

    /// Parses a network. Bits behind the prefix must be zero: others mean that another network, or one address, was
    /// intended.
    static func parse(_ text: String) throws(InvalidValue) -> Network {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = IPLiteral(String(parts[0])) else {
            let isBracketed = parts[0].hasPrefix("[") && parts[0].hasSuffix("]")
            throw InvalidValue(
                "\(Printable.quoted(String(parts[0]))) is not an address",
                suggestion: isBracketed ? IPLiteral(String(parts[0].dropFirst().dropLast()))?.text : nil)
        }
        let bits = 8 * address.octets.count
        guard parts.count == 2 else { return Network(octets: address.octets, length: bits) }
        guard let length = Decimal.parse(parts[1]), length <= bits else {
            throw InvalidValue("\(Printable.quoted(String(parts[1]))) is not a number of bits from 0 to \(bits)")
        }
        let lowest = Network(address.octets, masked: length)
        guard lowest.octets == address.octets else {
            throw InvalidValue(
                "\(Printable.quoted(text)) has bits set after the first \(length)",
                suggestion: IPLiteral(octets: lowest.octets).map { "\($0.text)/\(length)" })
        }
        return lowest
    }

    private init(octets: [UInt8], length: Int) {
        self.octets = octets
        self.length = length
    }

    private init(_ octets: [UInt8], masked length: Int) {
        let kept = octets.enumerated().map { place, octet in
            octet & ~UInt8(truncatingIfNeeded: 0xff >> max(0, min(8, length - 8 * place)))
        }
        self.init(octets: kept, length: length)
    }
}

/// The canonical spelling of hosts: a DNS name in lower case, an IPv4 address, or an IPv6 address in brackets.
enum HostName {
    /// A regular expression that every host matches.
    static let pattern = "^([a-z0-9.-]+|\\[[0-9a-f:.]+\\])$"

    static func parse(_ text: String) throws(InvalidValue) -> String {
        if text.hasPrefix("[") { return try parseBracketed(text) }
        if let literal = IPLiteral(text) {
            guard !literal.isIPv6 else {
                throw InvalidValue("an IPv6 address is written in brackets", suggestion: "[\(literal.text)]")
            }
            return literal.text
        }
        if let colon = text.firstIndex(of: ":") {
            throw InvalidValue(
                "\(Printable.quoted(text)) is more than a host: no port, no scheme",
                suggestion: suggestion(without: colon, text))
        }
        return try parseName(text)
    }

    private static func parseBracketed(_ text: String) throws(InvalidValue) -> String {
        guard text.hasSuffix("]"), let literal = IPLiteral(String(text.dropFirst().dropLast())), literal.isIPv6 else {
            throw InvalidValue("\(Printable.quoted(text)) is not an IPv6 address in brackets")
        }
        // Requests are compared as text, so only the canonical spelling (RFC 5952) could match.
        guard text == "[\(literal.text)]" else {
            throw InvalidValue("\(Printable.quoted(text)) has a shorter spelling", suggestion: "[\(literal.text)]")
        }
        return text
    }

    /// Parses a DNS name (RFC 1123 section 2.1). The last label is not a number, so that no address passes for a name.
    static func parseName(_ text: String) throws(InvalidValue) -> String {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        let isName = (1...253).contains(text.utf8.count) && labels.allSatisfy(isLabel)
        if !isName, text != text.lowercased(), (try? parseName(text.lowercased())) != nil {
            throw InvalidValue("\(Printable.quoted(text)) is not in lower case", suggestion: text.lowercased())
        }
        guard !text.contains("*") else {
            throw InvalidValue(
                "\(Printable.quoted(text)) is not a host name: patterns are not supported, list each host")
        }
        guard !text.contains(where: { $0 == " " || $0 == "," }) else {
            throw InvalidValue("\(Printable.quoted(text)) is more than one host name")
        }
        guard isName, labels.last.map({ !$0.allSatisfy(\.isNumber) }) ?? false else {
            throw InvalidValue("\(Printable.quoted(text)) is not a host name")
        }
        return text
    }

    private static func isLabel(_ label: Substring) -> Bool {
        (1...63).contains(label.utf8.count) && !label.hasPrefix("-") && !label.hasSuffix("-")
            && label.utf8.allSatisfy(ConfiguredName.isCharacter)
    }

    private static func suggestion(without colon: String.Index, _ text: String) -> String? {
        let host = String(text[..<colon])
        return Decimal.parse(text[text.index(after: colon)...]) != nil && !host.isEmpty ? host : nil
    }
}
