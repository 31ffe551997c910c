import HTTP
import Testing

@Suite("Decoding content")
struct ContentDecoderTests {
    @Test("a length consumes exactly its bytes and leaves the next request")
    func length() throws {
        let decoded = try Parsing.content(["hel", "loGET /"], .length(5)).get()
        #expect(decoded.content == "hello")
        #expect(decoded.ended)
        #expect(decoded.rest == "GET /")
    }

    @Test("chunks are joined, trailers skipped, and following bytes left")
    func chunks() throws {
        let whole = "5\r\nhello\r\n6\r\n world\r\n0\r\nX-Checksum: 1\r\n\r\nGET"
        let decoded = try Parsing.content([whole], .chunked).get()
        #expect(decoded.content == "hello world")
        #expect(decoded.ended)
        #expect(decoded.rest == "GET")
        let slow = try Parsing.content(whole.map { String($0) }, .chunked).get()
        #expect(slow.content == "hello world")
        #expect(slow.rest == "GET")
    }

    @Test(
        "malformed chunks are refused, at once and byte by byte",
        arguments: [
            "0x5\r\nhello\r\n", "+5\r\nhello\r\n", "-5\r\n", " 5\r\nhello\r\n", "5 \r\nhello\r\n", "\r\n", "g\r\n",
            "5\nhello\n", "5\r\nhelloX\r\n", "5\r\nhello\n0\r\n\r\n", "5;a=b\r\nhello\r\n0\r\n\r\n", "5;\r\nhello\r\n",
            "ffffffffffffffff\r\n", "10000000000000000\r\n", "0000000000000000\r\n", "5\rhello",
        ])
    func brokenChunks(_ text: String) {
        #expect(Parsing.content([text], .chunked).failure == .chunkMalformed)
        #expect(Parsing.content(text.map { String($0) }, .chunked).failure == .chunkMalformed)
    }

    @Test(
        "trailers at their limit have the same outcome however they are cut",
        arguments: [4_092, 4_093, 4_094, 4_095, 4_096])
    func trailersAtTheLimit(length: Int) {
        let text = "0\r\nX: " + String(repeating: "a", count: length - 5) + "\r\n\r\n"
        let whole = Parsing.content([text], .chunked)
        let pieces = Parsing.content(text.map(String.init), .chunked)
        #expect(whole.failure == pieces.failure && (whole.failure == nil) == (length <= 4_094))
    }

    @Test("trailers are checked as strictly as a head, and are bounded")
    func trailers() {
        #expect(Parsing.content(["0\r\nX : y\r\n\r\n"], .chunked).failure == .spaceBeforeColon)
        for name in ["X_Y", "X!Y", "X~", "`X"] {
            #expect(Parsing.content(["0\r\n\(name): y\r\n\r\n"], .chunked).failure == .fieldNameUnusual)
        }
        for name in ["Content-Length", "host", "Transfer-Encoding"] {
            #expect(Parsing.content(["0\r\n\(name): 5\r\n\r\n"], .chunked).failure == .trailerNamesFraming)
        }
        let line = "X: " + String(repeating: "a", count: 100) + "\r\n"
        let endless = "0\r\n" + String(repeating: line, count: 60)
        #expect(Parsing.content([endless], .chunked).failure == .trailerTooLarge)
        #expect(
            Parsing.content(["0\r\nX: " + String(repeating: "a", count: 5_000)], .chunked).failure == .trailerTooLarge)
    }

    @Test("chunk extensions of responses are skipped, within limits")
    func extensions() throws {
        let decoded = try Parsing.content(["5;a=b\r\nhello\r\n0;x\r\n\r\n"], .chunked, extensions: .ignored).get()
        #expect(decoded.content == "hello")
        let endless = "5;" + String(repeating: "a", count: 300)
        #expect(Parsing.content([endless], .chunked, extensions: .ignored).failure == .chunkMalformed)
        #expect(Parsing.content(["5;a\n"], .chunked, extensions: .ignored).failure == .chunkMalformed)
    }
}
