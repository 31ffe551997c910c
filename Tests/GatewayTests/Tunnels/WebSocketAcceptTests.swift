import Cryptography
import Testing

@testable import Gateway

@Suite("The answer to a WebSocket's key")
struct WebSocketAcceptTests {
    @Test("it is that of RFC 6455 section 1.3")
    func example() throws {
        let key = Array("dGhlIHNhbXBsZSBub25jZQ==".utf8)
        let value = try WebSocketAccept.value(for: key.span, LibraryContext())
        #expect(String(decoding: value, as: UTF8.self) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    }
}
