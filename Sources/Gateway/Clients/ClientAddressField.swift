package import EventLoop
internal import HTTP

/// The field in which a proxy states its client's address.
package enum ClientAddressField: Sendable {
    /// RFC 7239.
    case forwarded
    case xForwardedFor

    /// Returns the address of the proxy's own client: the last one. What stands before it, a client may have written.
    ///
    /// - Returns: Nil if there is none, or it is no address.
    func address(in head: RequestHead, _ bytes: Span<UInt8>) -> SocketAddress? {
        var line: ByteRange?
        for index in head.fields.indices {
            let field = head.fields[index]
            let isMeant =
                switch self {
                case .forwarded: field.name == .forwarded
                case .xForwardedFor: field.name == .other && field.nameRange.of(bytes).equals(lowercase: Self.name)
                }
            if isMeant { line = field.valueRange }
        }
        return line.flatMap { address(in: $0.of(bytes)) }
    }

    private static let name = Array("x-forwarded-for".utf8)

    /// Returns the address in the last element of a field line.
    package func address(in line: Span<UInt8>) -> SocketAddress? {
        // Quotes may contain a comma that a client has written.
        var (start, end, isQuoted) = (0, 0, false)
        while end < line.count {
            switch line[end] {
            case UInt8(ascii: "\\") where isQuoted: end += 1
            case UInt8(ascii: "\""): isQuoted.toggle()
            case UInt8(ascii: ",") where !isQuoted: start = end + 1
            default: break
            }
            end += 1
        }
        guard !isQuoted, start < line.count else { return nil }
        let element = String(decoding: (start..<line.count).map { line[$0] }, as: UTF8.self)
        switch self {
        case .xForwardedFor: return Self.address(element)
        case .forwarded:
            let pairs = element.split(separator: ";").map { $0.split(separator: "=", maxSplits: 1) }
            guard let node = pairs.first(where: { $0.count == 2 && Self.trimmed($0[0]).lowercased() == "for" }) else {
                return nil
            }
            return Self.address(Self.trimmed(node[1]).filter { $0 != "\"" })
        }
    }

    /// Reads an address with or without a port, an IPv6 address with or without brackets.
    private static func address(_ text: String) -> SocketAddress? {
        let text = trimmed(text[...])
        var host = text
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]") else { return nil }
            host = text[text.index(after: text.startIndex)..<end]
        } else if text.count(where: { $0 == ":" }) == 1, let colon = text.firstIndex(of: ":") {
            host = text[..<colon]
        }
        return SocketAddress(text: Array(host.utf8).span, isIPv6: host.contains(":"), port: 0)
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while text.first == " " || text.first == "\t" { text.removeFirst() }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }
}
