/// Where a service is that is asked something: a URL with `https`, or with `http` where nothing leaves the machine.
public struct OutboundURL: Hashable, Sendable {
    /// As it stands in the file.
    public let text: String
    /// Whether TLS is spoken.
    public let isEncrypted: Bool
    public let server: ServerAddress
    /// What `Host` says: the port is left out where it is the usual one.
    public let authority: String
    /// What comes before the paths of the service: nothing, or a slash and more, without one at the end.
    public let path: String

    static func parse(_ text: String) throws(InvalidValue) -> OutboundURL {
        let isPlain = text.hasPrefix("http://")
        let scheme = isPlain ? "http://" : "https://"
        _ = try ServiceURL.parse(text, scheme: scheme, mayEndWithSlash: false)
        let rest = String(text.dropFirst(scheme.count))
        let authority = String(rest.prefix { $0 != "/" })
        let hasPort = authority.contains(":") && !authority.hasSuffix("]")
        let server = try ServerAddress.parse(hasPort ? authority : "\(authority):\(isPlain ? 80 : 443)")
        guard !isPlain || server.isLoopback else {
            throw InvalidValue("\(Printable.quoted(text)) would be called unencrypted", suggestion: "https://" + rest)
        }
        return OutboundURL(
            text: text, isEncrypted: !isPlain, server: server, authority: authority,
            path: String(rest.dropFirst(authority.count)))
    }
}

extension Kind where Value == OutboundURL {
    static var outboundURL: Kind {
        .text(
            "an https URL without a slash at the end, or an http URL of this machine",
            matching: "^https?://.*[^/]$",
            OutboundURL.parse)
    }
}
