import HTTP
import Testing

@Suite("Parsing response heads")
struct ResponseHeadParserTests {
    @Test("framing follows RFC 9112 section 6.3")
    func framing() throws {
        func framing(_ head: String, answering method: Method = .get) throws -> ContentFraming? {
            try Parsing.response("HTTP/1.1 \(head)\r\n\r\n", answering: method).get()?.framing
        }
        #expect(try framing("200 OK\r\nContent-Length: 5") == .length(5))
        #expect(try framing("200 OK\r\nContent-Length: 0") == ContentFraming.none)
        #expect(try framing("200 OK\r\nTransfer-Encoding: chunked") == .chunked)
        #expect(try framing("200 OK") == .untilClose)
        #expect(try framing("204 No Content") == ContentFraming.none)
        #expect(try framing("204 No Content\r\nContent-Length: 0") == ContentFraming.none)
        #expect(try framing("103 Early Hints") == ContentFraming.none)
        #expect(try framing("304 Not Modified\r\nContent-Length: 5") == ContentFraming.none)
        #expect(try framing("200 OK\r\nContent-Length: 5", answering: .head) == ContentFraming.none)
    }

    @Test("a connection is kept only if both sides know where the response ends")
    func persistence() throws {
        func isPersistent(_ text: String) throws -> Bool? { try Parsing.response(text).get()?.isPersistent }
        #expect(try isPersistent("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n") == true)
        #expect(try isPersistent("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n") == false)
        #expect(try isPersistent("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n") == false)
        #expect(try isPersistent("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n") == true)
        #expect(try isPersistent("HTTP/1.1 200 OK\r\n\r\n") == false)
    }

    @Test("a status line without a reason is read")
    func noReason() throws {
        #expect(try Parsing.response("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n").get()?.status == 200)
        #expect(try Parsing.response("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n").get()?.status == 200)
    }

    @Test(
        "malformed responses are refused",
        arguments: [
            ("ICY 200 OK\r\n\r\n", MessageFault.statusLineMalformed),
            ("HTTP/2 200\r\n\r\n", .statusLineMalformed),
            ("HTTP/1.1  200 OK\r\n\r\n", .statusLineMalformed),
            ("HTTP/1.1 20 OK\r\n\r\n", .statusLineMalformed),
            ("HTTP/1.1 2000 OK\r\n\r\n", .statusLineMalformed),
            ("HTTP/1.1 600 OK\r\n\r\n", .statusLineMalformed),
            ("HTTP/1.1 200 OK\nX: y\n\n", .statusLineMalformed),
            ("<html>\n", .statusLineMalformed),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", .contentLengthRepeated),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                .contentLengthWithTransferEncoding
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", .transferEncodingUnsupported),
            ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", .transferEncodingUnsupported),
            ("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", .obsoleteLineFolding),
            ("HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n", .bareLineFeed),
            ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", .contentImpossible),
            ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", .contentImpossible),
            ("HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", .contentImpossible),
            ("HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n", .contentImpossible),
        ])
    func malformed(_ text: String, _ fault: MessageFault) {
        #expect(Parsing.response(text).failure == fault)
    }
}
