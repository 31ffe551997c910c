/// An `https` URL taken apart into what a connection and a request line need.
public struct LoadURL: Equatable, Sendable {
    /// The name asked for in the handshake and checked against the server's certificate.
    public let host: String
    public let port: UInt16
    /// Value of the Host field: the host, and the port unless it is 443.
    public let authority: String
    /// Path and query, as they go on the request line.
    public let target: String

    /// - Returns: nil unless `text` is `https://host[:port][/path][?query]` without user information or fragment.
    public init?(_ text: String) {
        let scheme = "https://"
        guard text.hasPrefix(scheme) else { return nil }
        let rest = text.dropFirst(scheme.count)
        guard rest.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "#") }) else { return nil }
        let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
        authority = String(rest[..<end])
        let path = rest[end...]
        target = path.hasPrefix("/") ? String(path) : "/" + path

        guard let (host, port) = Self.split(authority) else { return nil }
        self.host = host
        self.port = port
    }

    private static func split(_ authority: String) -> (host: String, port: UInt16)? {
        let host: Substring
        let rest: Substring
        if authority.hasPrefix("[") {
            guard let close = authority.firstIndex(of: "]") else { return nil }
            host = authority[authority.index(after: authority.startIndex)..<close]
            rest = authority[authority.index(after: close)...]
        } else {
            let colon = authority.firstIndex(of: ":") ?? authority.endIndex
            host = authority[..<colon]
            rest = authority[colon...]
        }
        guard !host.isEmpty, !host.contains("@") else { return nil }
        if rest.isEmpty { return (String(host), 443) }
        guard rest.hasPrefix(":"), let port = UInt16(rest.dropFirst()), port > 0 else { return nil }
        return (String(host), port)
    }
}
