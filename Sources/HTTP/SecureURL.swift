/// An https URL without a user and a fragment, as services name it in their metadata.
public struct SecureURL: Equatable, Sendable {
    private static let lengthLimit = 1024

    /// Host and port in lower case, without the default port.
    public let origin: String
    /// Path and query. Empty, or with a slash at the beginning.
    public let rest: String

    /// Returns nil for every other text.
    public init?(_ text: String) {
        let scheme = "https://"
        let bytes = Array(text.utf8)
        let excluded = Set("#\"<>\\^`{|}".utf8)
        guard bytes.count <= Self.lengthLimit,
            bytes.prefix(scheme.utf8.count).map({ $0 | 0x20 }) == scheme.utf8.map({ $0 | 0x20 }),
            bytes.allSatisfy({ (0x21...0x7e).contains($0) && !excluded.contains($0) })
        else { return nil }
        let parts = bytes.dropFirst(scheme.utf8.count)
        let end = parts.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? parts.endIndex
        let authority = String(decoding: parts[..<end], as: UTF8.self).lowercased()
        let rest = String(decoding: parts[end...], as: UTF8.self)
        guard !authority.isEmpty, !authority.contains("@"), rest.isEmpty || rest.hasPrefix("/") else { return nil }
        let port = ":443"
        origin = authority.hasSuffix(port) ? String(authority.dropLast(port.count)) : authority
        self.rest = rest
    }

    /// The host's name and the port. Nil for an address, and for what is no name.
    public var namedHost: (name: String, port: UInt16)? {
        let parts = origin.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let name = parts.first, (1...253).contains(name.utf8.count),
            let port = parts.count == 1 ? 443 : UInt16(parts[1]),
            port > 0
        else { return nil }
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        let isName = labels.allSatisfy { label in
            (1...63).contains(label.utf8.count)
                && label.utf8.allSatisfy { ByteClass.isPlainInName($0) }
        }
        // The last label of an address is a number (RFC 3986 section 3.2.2).
        guard isName, let last = labels.last, !last.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            !last.hasPrefix("0x")
        else { return nil }
        return (String(name), port)
    }
}
