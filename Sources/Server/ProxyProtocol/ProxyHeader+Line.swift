internal import EventLoop

/// Version 1, a line of text (section 2.1): `PROXY TCP4 192.0.2.7 192.0.2.1 56324 443` and CRLF.
extension ProxyHeader {
    static let keyword = word("PROXY ")
    private static let unknown = word("UNKNOWN")
    private static let overIPv4 = word("TCP4")
    private static let overIPv6 = word("TCP6")
    /// Its end included.
    private static let longestLine = 107
    private static let space = UInt8(ascii: " ")

    private static func word(_ text: String) -> [UInt8] { Array(text.utf8) }

    static func parseLine(_ bytes: Span<UInt8>) throws(ProxyHeaderFault) -> ProxyHeader? {
        for place in 0..<min(bytes.count, keyword.count) where bytes[place] != keyword[place] { throw .absent }
        guard let end = try lineEnd(bytes) else { return nil }
        let line = bytes.extracting(first: end - 2)
        guard line.count > keyword.count else { throw .lineProtocol }
        return ProxyHeader(source: try source(line.extracting(keyword.count...)), length: end)
    }

    /// Addresses are looked at only when the line is complete.
    ///
    /// - Returns: where the line is over, its end included; nil if it is not yet.
    private static func lineEnd(_ bytes: Span<UInt8>) throws(ProxyHeaderFault) -> Int? {
        for place in 0..<min(bytes.count, longestLine) where bytes[place] == UInt8(ascii: "\n") {
            guard bytes[place - 1] == UInt8(ascii: "\r") else { throw .lineEnd }
            return place + 1
        }
        guard bytes.count < longestLine else { throw .lineTooLong }
        return nil
    }

    private static func source(_ line: Span<UInt8>) throws(ProxyHeaderFault) -> SocketAddress? {
        // Whatever follows is ignored.
        if begins(line, with: unknown), line.count == unknown.count || line[unknown.count] == space { return nil }
        var position = 0
        let family = try nextWord(of: line, from: &position)
        let isIPv6 = begins(line, with: overIPv6)
        guard family.count == overIPv4.count, isIPv6 || begins(line, with: overIPv4) else { throw .lineProtocol }
        let from = try nextWord(of: line, from: &position)
        let to = try nextWord(of: line, from: &position)
        let fromPort = try port(line.extracting(try nextWord(of: line, from: &position)))
        let toPort = try port(line.extracting(try nextWord(of: line, from: &position, isLast: true)))
        guard SocketAddress(text: line.extracting(to), isIPv6: isIPv6, port: toPort) != nil,
            let source = SocketAddress(text: line.extracting(from), isIPv6: isIPv6, port: fromPort)
        else { throw .lineAddress }
        return source
    }

    /// A word that one space ends, the last one the line.
    private static func nextWord(
        of line: Span<UInt8>, from position: inout Int, isLast: Bool = false
    ) throws(ProxyHeaderFault) -> Range<Int> {
        let start = position
        while position < line.count, line[position] != space { position += 1 }
        guard position > start, (position == line.count) == isLast else { throw .lineWords }
        defer { position += 1 }
        return start..<position
    }

    private static func port(_ digits: Span<UInt8>) throws(ProxyHeaderFault) -> UInt16 {
        guard 1...5 ~= digits.count, digits.count == 1 || digits[0] != UInt8(ascii: "0") else { throw .linePort }
        var number = 0
        for place in digits.indices {
            guard UInt8(ascii: "0")...UInt8(ascii: "9") ~= digits[place] else { throw .linePort }
            number = 10 * number + Int(digits[place] - UInt8(ascii: "0"))
        }
        guard let port = UInt16(exactly: number) else { throw .linePort }
        return port
    }

    private static func begins(_ line: Span<UInt8>, with word: [UInt8]) -> Bool {
        guard line.count >= word.count else { return false }
        for place in word.indices where line[place] != word[place] { return false }
        return true
    }
}
