/// A host and a port: where a listener listens, or where an upstream's server is.
public struct ServerAddress: Hashable, Sendable {
    /// A DNS name in lower case, or a literal address in canonical spelling, IPv6 without brackets.
    public let host: String
    public let port: UInt16
    /// Whether the host is an address, so that nothing has to be resolved.
    public let isLiteral: Bool
    /// Whether what is sent there cannot leave the machine: 127.0.0.0/8, ::1, `localhost`.
    public let isLoopback: Bool

    /// What all of them fit, as a regular expression.
    static let pattern = "^([^:]+|\\[[0-9a-fA-F:.]+\\]):[1-9][0-9]{0,4}$"

    /// The same of those without a name.
    static let literalPattern = "^([0-9.]+|\\[[0-9a-fA-F:.]+\\]):[1-9][0-9]{0,4}$"

    /// `127.0.0.1:8443`, `[::1]:8443`, `records.internal:9000`.
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
            // What takes its place has a port as well.
            throw InvalidValue(error.message, suggestion: error.suggestion.map { "\($0):\(port)" })
        }
        return ServerAddress(host: name, port: port, isLiteral: false, isLoopback: name == "localhost")
    }

    /// The same, but never a name: a listener must not depend on what a resolver says today.
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

    private init(host: String, port: UInt16, isLiteral: Bool, isLoopback: Bool) {
        self.host = host
        self.port = port
        self.isLiteral = isLiteral
        self.isLoopback = isLoopback
    }
}

extension ServerAddress {
    /// Whether two sockets cannot listen on both: 0.0.0.0 stands for every IPv4 address, [::] for every IPv6 address.
    func overlaps(_ other: ServerAddress) -> Bool {
        guard port == other.port, let own = IPLiteral(host), let its = IPLiteral(other.host) else { return false }
        return own.octets == its.octets || own.isIPv6 == its.isIPv6 && (own.isUnspecified || its.isUnspecified)
    }

    /// What speaks against listening here, too. - Parameter what: whose the other address is: "a listener of the administration".
    func objection(to other: ServerAddress, _ what: String) -> String? {
        if self == other { return "\(self) is \(what)" }
        return overlaps(other) ? "\(self) is the same port as \(other), \(what)" : nil
    }
}

extension ServerAddress: CustomStringConvertible {
    /// As the conf file writes it.
    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
