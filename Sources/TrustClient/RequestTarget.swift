/// Where a request goes, in the parts that a proof covers.
public struct RequestTarget: Equatable, Sendable {
    /// `host` or `host:port`.
    public var authority: [UInt8]
    /// Percent-encoded as sent; `/` if the URL has none.
    public var path: [UInt8]
    /// As sent, without its `?`; empty if there is none.
    public var query: [UInt8]

    /// - Parameter url: `https://authority[/path][?query][#fragment]`, percent-encoded; `URL.absoluteString` is. The
    ///   fragment, which is never sent, is left out. Nil if it is of another form, or names a user.
    public init?(url: String) {
        let bytes = Array(url.utf8)
        guard bytes.count > Self.scheme.count, bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7f }),
            zip(bytes, Self.scheme).allSatisfy({ Self.lowercased($0) == $1 })
        else { return nil }
        let rest = bytes[Self.scheme.count...].prefix { $0 != UInt8(ascii: "#") }
        let authority = rest.prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        guard !authority.isEmpty, !authority.contains(UInt8(ascii: "@")) else { return nil }
        let path = rest[authority.endIndex...].prefix { $0 != UInt8(ascii: "?") }
        self.authority = Array(authority)
        self.path = path.isEmpty ? [UInt8(ascii: "/")] : Array(path)
        query = Array(rest[path.endIndex...].dropFirst())
    }

    private static let scheme = Array("https://".utf8)

    private static func lowercased(_ byte: UInt8) -> UInt8 { byte &- 0x41 < 26 ? byte | 0x20 : byte }
}
