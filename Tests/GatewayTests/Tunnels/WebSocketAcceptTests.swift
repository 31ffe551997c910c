import Cryptography
import Testing

@testable import Gateway

@Suite("Sec-WebSocket-Accept")
struct WebSocketAcceptTests {
    @Test("the answer to a key is that of RFC 6455 section 1.3")
    func example() throws {
        let key = Array("dGhlIHNhbXBsZSBub25jZQ==".utf8)
        let value = try WebSocketAccept.value(for: key.span, LibraryContext())
        #expect(String(decoding: value, as: UTF8.self) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    }
}
