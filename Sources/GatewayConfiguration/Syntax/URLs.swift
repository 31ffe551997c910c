/// The URL of a service, which tokens name as their issuer or audience.
///
/// It is compared byte by byte, so it has one spelling: `https`, a host in lower case, an optional port and path. It
/// has no user, query or fragment.
public struct ServiceURL: Hashable, Sendable, CustomStringConvertible {
    public let text: String

    public var description: String { text }

    private static let longest = 1024

    /// Parses a URL.
    ///
    /// - Parameters:
    ///   - text: the URL.
    ///   - scheme: the required beginning.
    ///   - mayEndWithSlash: whether a slash may be at the end. Some issuers have one; a base for paths has none.
    static func parse(
        _ text: String, scheme: String = "https://", mayEndWithSlash: Bool
    ) throws(InvalidValue) -> ServiceURL {
        guard text.hasPrefix(scheme) else {
            let rest = text.firstRange(of: "://").map { text[$0.upperBound...] } ?? text[...]
            throw InvalidValue(
                "\(Printable.quoted(text)) does not begin with \(scheme)",
                suggestion: (try? parse(scheme + rest, scheme: scheme, mayEndWithSlash: mayEndWithSlash))?.text)
        }
        guard text.utf8.count <= longest, text.utf8.allSatisfy(isCharacter) else {
            throw InvalidValue("\(Printable.quoted(text)) is not a URL of scheme, host, port and path")
        }
        if !mayEndWithSlash, text.hasSuffix("/") {
            throw InvalidValue(
                "\(Printable.quoted(text)) ends with a slash",
                suggestion: (try? parse(String(text.dropLast()), scheme: scheme, mayEndWithSlash: false))?.text)
        }
        let authority = String(text.dropFirst(scheme.count).prefix { $0 != "/" })
        do throws(InvalidValue) {
            // A port, unless the last colon is part of an IPv6 address.
            if authority.contains(":"), !authority.hasSuffix("]") {
                _ = try ServerAddress.parse(authority)
            } else {
                _ = try HostName.parse(authority)
            }
        } catch {
            let path = text.dropFirst(scheme.count + authority.count)
            throw InvalidValue(error.message, suggestion: error.suggestion.map { scheme + $0 + path })
        }
        return ServiceURL(text: text)
    }

    /// Returns whether the byte is unreserved (RFC 3986 section 2.3) or separates host, port and path.
    private static func isCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-._~:/[]%".utf8.contains(byte)
        }
    }
}

extension ServiceURL {
    /// The base of paths.
    static var kind: Kind<ServiceURL> {
        .text(
            "an https URL without a slash at the end, for example https://localhost:8444", matching: "^https://.*[^/]$"
        ) {
            text throws(InvalidValue) in
            try ServiceURL.parse(text, mayEndWithSlash: false)
        }
    }

    /// The URL of another organisation's issuer, which may end with a slash.
    static var issuer: Kind<ServiceURL> {
        .text("an https URL, exactly as it is in the issuer's tokens", matching: "^https://.+") {
            text throws(InvalidValue) in
            try ServiceURL.parse(text, mayEndWithSlash: true)
        }
    }
}

/// The URL of a service that the gateway calls: `https`, or `http` on this machine.
public struct OutboundURL: Hashable, Sendable {
    /// The notation of the conf file.
    public let text: String
    /// Whether the scheme is `https`.
    public let isEncrypted: Bool
    public let server: ServerAddress
    /// The value of `Host`, without the default port.
    public let authority: String
    /// The prefix of the service's paths: empty, or a slash and more, without one at the end.
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

extension OutboundURL {
    static var kind: Kind<OutboundURL> {
        .text(
            "an https URL without a slash at the end, or an http URL of this machine",
            matching: "^https?://.*[^/]$",
            OutboundURL.parse)
    }
}

/// The prefix of a URI. It is written into JSON unescaped, so it contains nothing that needs escaping.
enum URIPrefix {
    static let expected = "the beginning of a URI, for example https://example.org/denials#"

    static func parse(_ text: String) throws(InvalidValue) -> String {
        guard text.utf8.count <= 1024, let colon = text.firstIndex(of: ":") else {
            throw InvalidValue("\(Printable.quoted(text)) is not the beginning of a URI")
        }
        let scheme = text[..<colon].utf8
        guard let first = scheme.first, isLetter(first),
            scheme.allSatisfy({ isLetter($0) || isDigit($0) || "+-.".utf8.contains($0) })
        else {
            throw InvalidValue("\(Printable.quoted(text)) has no scheme")
        }
        guard text.utf8.allSatisfy({ isLetter($0) || isDigit($0) || "-._~:/?#[]@!$&'()*+,;=%".utf8.contains($0) })
        else {
            throw InvalidValue("\(Printable.quoted(text)) has characters that a URI cannot contain")
        }
        return text
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
    }
}
