/// What is spoken on a connection, as client and server agree on it in the handshake (ALPN, RFC 7301).
public enum ApplicationProtocol: CaseIterable, Sendable {
    case http2
    case http11

    /// RFC 9113 section 3.2; RFC 7301 section 6. The name of HTTP/1.0 is included: clients that speak it are
    /// understood.
    private var names: [String] {
        switch self {
        case .http2: ["h2"]
        case .http11: ["http/1.1", "http/1.0"]
        }
    }

    /// What a client offers it as.
    public var name: String { names[0] }

    /// - Parameters:
    ///   - wanted: the preferred one first.
    ///   - offered: the client's list of names, each behind a byte that holds its length; OpenSSL has checked that it is
    ///     well-formed.
    /// - Returns: where in it the name of the first one lies that is wanted; nil if none is.
    static func choose(_ wanted: [ApplicationProtocol], among offered: Span<UInt8>) -> Range<Int>? {
        for name in wanted.flatMap(\.names) {
            if let place = place(of: Array(name.utf8), in: offered) { return place }
        }
        return nil
    }

    private static func place(of name: [UInt8], in offered: Span<UInt8>) -> Range<Int>? {
        var position = 0
        while position < offered.count {
            let start = position + 1
            position = start + Int(offered[position])
            guard position - start == name.count else { continue }
            if name.indices.allSatisfy({ offered[start + $0] == name[$0] }) { return start..<position }
        }
        return nil
    }
}
