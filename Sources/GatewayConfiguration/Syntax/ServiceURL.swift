/// The URL that a service is known under: what tokens name as their issuer or audience. It is compared byte by byte, so
/// it has one spelling: `https`, a host in lower case, perhaps a port and a path; no user, no query, no fragment.
public struct ServiceURL: Hashable, Sendable, CustomStringConvertible {
    public let text: String

    public var description: String { text }

    private static let longest = 1024

    /// - Parameters:
    ///   - scheme: what it begins with.
    ///   - mayEndWithSlash: some issuers do; what a path is appended to does not.
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
            // A port, unless the last colon is one of an IPv6 address.
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

    /// Unreserved characters of RFC 3986 section 2.3, and what separates host, port and path.
    private static func isCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-._~:/[]%".utf8.contains(byte)
        }
    }
}

extension Kind where Value == ServiceURL {
    /// What paths are appended to.
    static var serviceURL: Kind {
        .text(
            "an https URL without a slash at the end, for example https://localhost:8444", matching: "^https://.*[^/]$"
        ) {
            text throws(InvalidValue) in
            try ServiceURL.parse(text, mayEndWithSlash: false)
        }
    }

    /// Somebody else's, who may have put a slash there.
    static var issuerURL: Kind {
        .text("an https URL, exactly as it is in the issuer's tokens", matching: "^https://.+") {
            text throws(InvalidValue) in
            try ServiceURL.parse(text, mayEndWithSlash: true)
        }
    }
}
