internal import Bytes
package import EventLoop
internal import HTTP

/// The field in which a proxy states its client's address.
package enum ClientAddressField: Sendable {
    /// RFC 7239.
    case forwarded
    case xForwardedFor

    /// Returns the range of the last such field. Nil if there is none.
    func range(in head: RequestHead, _ bytes: Span<UInt8>) -> ByteRange? {
        var range: ByteRange?
        for index in head.fields.indices {
            let field = head.fields[index]
            let isMeant =
                switch self {
                case .forwarded: field.name == .forwarded
                case .xForwardedFor: field.name == .other && field.nameRange.of(bytes).equals(lowercase: Self.name)
                }
            if isMeant { range = field.valueRange }
        }
        return range
    }

    /// The name in messages.
    var label: String {
        switch self {
        case .forwarded: "Forwarded"
        case .xForwardedFor: "X-Forwarded-For"
        }
    }

    private static let name = Array("x-forwarded-for".utf8)
    private static let node = Array("for".utf8)

    /// Returns the address of the proxy's own client: that of the last element. What stands before it, a client may have
    /// written.
    ///
    /// - Parameter line: The value of the last field.
    /// - Returns: Nil if there is none, or it is no address.
    package func address(in line: Span<UInt8>) -> SocketAddress? {
        switch self {
        case .xForwardedFor: Self.address(line.extracting(Self.lastElement(of: line, hasQuotes: false)))
        case .forwarded: Self.node(in: line.extracting(Self.lastElement(of: line, hasQuotes: true)))
        }
    }

    /// Returns the range of what follows the last comma that is not within quotes. It reads from the end, so that a quote
    /// before the proxy's own element has no effect on it.
    private static func lastElement(of line: Span<UInt8>, hasQuotes: Bool) -> Range<Int> {
        var (start, last, isQuoted) = (line.count, 0, false)
        while start > 0 {
            switch line[start - 1] {
            case UInt8(ascii: ",") where !isQuoted: return start..<line.count
            case UInt8(ascii: ",") where last == 0: last = start
            case UInt8(ascii: "\"") where hasQuotes && !isEscaped(start - 1, in: line): isQuoted.toggle()
            default: break
            }
            start -= 1
        }
        // Of an odd number of quotes, none counts.
        return (isQuoted ? last : 0)..<line.count
    }

    /// Returns whether the byte follows an odd number of backslashes.
    private static func isEscaped(_ place: Int, in line: Span<UInt8>) -> Bool {
        var start = place
        while start > 0, line[start - 1] == UInt8(ascii: "\\") { start -= 1 }
        return (place - start) % 2 == 1
    }

    /// Returns the address of the parameter `for` of an element (RFC 7239 section 4).
    private static func node(in element: Span<UInt8>) -> SocketAddress? {
        var start = 0
        while start < element.count {
            var (equals, end, isQuoted): (Int?, Int, Bool) = (nil, start, false)
            while end < element.count, isQuoted || element[end] != UInt8(ascii: ";") {
                switch element[end] {
                case UInt8(ascii: "\"") where !isEscaped(end, in: element): isQuoted.toggle()
                case UInt8(ascii: "=") where equals == nil: equals = end
                default: break
                }
                end += 1
            }
            if let equals {
                let name = element.extracting(start..<equals)
                if name.extracting(name.unpadded).equals(lowercase: Self.node) {
                    return unquoted(element.extracting((equals + 1)..<end))
                }
            }
            start = end + 1
        }
        return nil
    }

    private static func unquoted(_ value: Span<UInt8>) -> SocketAddress? {
        let range = value.unpadded
        let quote = UInt8(ascii: "\"")
        guard let first = range.first, value[first] == quote else { return address(value) }
        guard range.count >= 2, value[range.upperBound - 1] == quote else { return nil }
        return address(value.extracting((first + 1)..<(range.upperBound - 1)))
    }

    /// Reads an address with or without a port, an IPv6 address with or without brackets.
    private static func address(_ value: Span<UInt8>) -> SocketAddress? {
        let text = value.extracting(value.unpadded)
        var (colons, colon, bracket) = (0, 0, 0)
        for place in text.indices {
            switch text[place] {
            case UInt8(ascii: ":"):
                if colons == 0 { colon = place }
                colons += 1
            case UInt8(ascii: "]") where bracket == 0: bracket = place
            default: break
            }
        }
        guard text.count == 0 || text[0] != UInt8(ascii: "[") else {
            return bracket == 0 ? nil : SocketAddress(text: text.extracting(1..<bracket), isIPv6: true, port: 0)
        }
        let host = colons == 1 ? text.extracting(..<colon) : text
        return SocketAddress(text: host, isIPv6: colons > 1, port: 0)
    }
}
