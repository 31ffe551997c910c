import Testing

@testable import TLS

@Suite("ALPN")
struct ApplicationProtocolTests {
    /// Returns the chosen protocol of an encoded list.
    private func chosen(_ wanted: [ApplicationProtocol], of offered: [String]) -> String? {
        let list = offered.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        return ApplicationProtocol.choose(wanted, among: list.span).map { String(decoding: list[$0], as: UTF8.self) }
    }

    @Test("the server's preference decides, whatever the client's order")
    func serverPrefers() {
        #expect(chosen([.http2, .http11], of: ["http/1.1", "h2"]) == "h2")
        #expect(chosen([.http11, .http2], of: ["h2", "http/1.1"]) == "http/1.1")
    }

    @Test("the protocol is one that both have")
    func both() {
        #expect(chosen([.http2, .http11], of: ["spdy/1", "http/1.1"]) == "http/1.1")
        #expect(chosen([.http2], of: ["http/1.1", "h2"]) == "h2")
        #expect(chosen([.http11], of: ["h2", "http/1.0"]) == "http/1.0")
    }

    @Test("without a common protocol nothing is chosen, even if names begin or end alike")
    func nothing() {
        #expect(chosen([.http2], of: ["http/1.1", "http/1.0"]) == nil)
        #expect(chosen([.http2, .http11], of: ["h2c", "h", "2", "http/1.11", "HTTP/1.1"]) == nil)
        #expect(chosen([.http2, .http11], of: []) == nil)
    }

    @Test("a name across two entries is not recognized")
    func withinNames() {
        #expect(chosen([.http2], of: ["x\u{2}h2", "\u{2}h2x"]) == nil)
    }
}
