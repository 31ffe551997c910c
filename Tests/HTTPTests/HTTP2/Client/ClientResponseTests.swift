import Bytes
import HTTP
import Testing

@Suite("HTTP/2 client: responses")
struct ClientResponseTests {
    @Test("a response has head, content and end")
    func whole() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.sendRequest()
        peer.send(
            .response(1, "200", [("content-type", "text/plain"), ("x_a.b", "1"), ("x", "")]), .data(1, "hel"),
            .data(1, "lo", end: true))
        #expect(peer.record.events == ["1 200 chunked", "1 end", "1 ended"])
        #expect(stream.fields == ["content-type: text/plain", "x_a.b: 1", "x: "])
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "hello")
        #expect(stream.head.isPersistent)
        #expect(peer.frames().isEmpty)
    }

    struct Parity: CustomTestStringConvertible {
        let method: Method
        let status: String
        let fields: [(String, String)]
        let ends: Bool
        var testDescription: String { "\(method) \(status) \(fields)\(ends ? " at its end" : "")" }
    }

    static let parities: [Parity] = [
        Parity(method: .get, status: "200", fields: [("content-length", "5")], ends: false),
        Parity(method: .get, status: "200", fields: [("content-length", "0")], ends: true),
        Parity(method: .head, status: "200", fields: [("content-length", "5"), ("etag", "\"a\"")], ends: true),
        Parity(method: .get, status: "304", fields: [("content-length", "5")], ends: true),
        Parity(method: .get, status: "204", fields: [("server", "x")], ends: true),
        Parity(method: .get, status: "204", fields: [("content-length", "0")], ends: true),
        Parity(
            method: .get, status: "404", fields: [("content-length", "1"), ("set-cookie", "a"), ("set-cookie", "b")],
            ends: false),
    ]

    @Test("a head equals what the HTTP/1.1 parser returns for it", arguments: parities)
    func parity(_ parity: Parity) throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.sendRequest(parity.method)
        peer.send(.response(1, parity.status, parity.fields, end: parity.ends))
        let text =
            "HTTP/1.1 \(parity.status) X\r\n" + parity.fields.map { "\($0.0): \($0.1)\r\n" }.joined() + "\r\n"
        let bytes = Array(text.utf8)
        var parser = ResponseHeadParser(limits: .standard)
        var head = ResponseHead()
        #expect(try parser.parse(bytes.span, answering: parity.method, into: &head) == .complete(length: bytes.count))
        #expect(stream.head.status == head.status)
        #expect(stream.head.framing == head.framing)
        #expect(stream.head.statedLength == head.statedLength)
        #expect(stream.head.isPersistent == head.isPersistent)
        #expect(stream.head.fields.map(\.name) == head.fields.map(\.name))
        #expect(stream.fields == parity.fields.map { "\($0.0): \($0.1)" })
    }

    @Test("a response that ends with its head has no content")
    func headAlone() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.response(1, "500", end: true))
        #expect(peer.record.events == ["1 500 none", "1 end", "1 ended"])
    }

    @Test(
        "a head without content is delivered together with its end",
        arguments: ["204", "304", "200"])
    func held(_ status: String) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.response(1, status, status == "200" ? [("content-length", "0")] : []))
        #expect(peer.record.events.isEmpty)
        peer.send(.data(1, end: true))
        #expect(peer.record.events == ["1 \(status) none", "1 end", "1 ended"])
    }

    @Test("trailers follow the content without hop-by-hop fields, in any spelling")
    func trailers() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(
            .response(1), .data(1, "abc"),
            .headers(1, [("grpc-status", "0"), ("trailer", "x"), ("te", "trailers"), ("a.b_c-bin", "AA==")]))
        #expect(
            peer.record.events
                == ["1 200 chunked", #"1 trailers ["grpc-status: 0", "a.b_c-bin: AA=="]"#, "1 end", "1 ended"])
    }

    @Test("trailers belong to their own response alone")
    func trailersOfEach() throws {
        let peer = HTTP2ClientPeer()
        for id in [UInt32(1), 3] {
            _ = try peer.sendRequest()
            peer.send(.response(id), .headers(id, [("x", "\(id)")]))
        }
        _ = try peer.sendRequest()
        peer.send(.response(5), .data(5, end: true))
        #expect(peer.record.events(of: 3) == ["200 chunked", #"trailers ["x: 3"]"#, "end", "ended"])
        #expect(peer.record.events(of: 5) == ["200 chunked", "end", "ended"])
    }

    @Test("trailers after a held head belong to it")
    func trailersOfHeld() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.sendRequest()
        peer.send(.response(1, "200", [("content-length", "0"), ("a", "b")]), .headers(1, [("x", "y")]))
        #expect(peer.record.events == ["1 200 none", #"1 trailers ["x: y"]"#, "1 end", "1 ended"])
        #expect(stream.fields == ["content-length: 0", "a: b"])
    }

    @Test("interim responses are dropped")
    func interim() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.sendRequest(.post, content: true)
        for _ in 0..<8 { peer.send(.response(1, "100"), .response(1, "103", [("link", "</a>")])) }
        #expect(peer.record.events.isEmpty)
        #expect(stream.isAnswered)
        peer.send(.response(1, "200", [("a", "b")], end: true))
        #expect(peer.record.events.first == "1 200 none")
        #expect(stream.fields == ["a: b"])
    }

    @Test("a response complete before its request ends the request")
    func early() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.sendRequest(.post, content: true)
        let bytes = Array("half".utf8)
        _ = stream.sendContent(bytes.span)
        _ = peer.frames()
        var isOpen = true
        peer.record.onEnd = { isOpen = $0.isOpen }
        peer.send(.response(1, "413", end: true))
        #expect(peer.record.events == ["1 413 none", "1 end"])
        #expect(!isOpen)
        // It never looks like a whole request.
        #expect(peer.frames() == [.reset(1, HTTP2ErrorCode.cancel.rawValue)])
        #expect(peer.record.events.last == "1 ended")
    }

    @Test(
        "a reset after a complete response is no failure (RFC 9113 section 8.1)",
        arguments: [HTTP2ErrorCode.noError, .cancel])
    func resetBehind(_ code: HTTP2ErrorCode) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest(.post, content: true)
        peer.send(.response(1), .data(1, "no", end: true), .reset(1, code.rawValue))
        #expect(peer.record.events == ["1 200 chunked", "1 end", "1 ended"])
        _ = peer.frames()
        #expect(peer.session.openStreams == 0)
    }

    @Test("a response in many pieces causes the same events", arguments: [1, 2, 7])
    func pieces(size: Int) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        _ = try peer.sendRequest()
        let frames: [Frame] = [
            .response(3, "200", [("content-length", "3")]), .response(1, "100"), .response(1),
            .data(3, "abc", end: true),
            .data(1, "def"), .headers(1, [("x", "y")]),
        ]
        let bytes = frames.flatMap(\.bytes)
        for start in stride(from: 0, to: bytes.count, by: size) {
            peer.send(Array(bytes[start..<min(start + size, bytes.count)]))
        }
        #expect(peer.record.events(of: 3) == ["200 length(3)", "end", "ended"])
        #expect(peer.record.events(of: 1) == ["200 chunked", #"trailers ["x: y"]"#, "end", "ended"])
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "abcdef")
    }

    @Test("the session reports whether the server is within a field block")
    func midBlock() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        let fields = HPACK.literals([(":status", "200")])
        peer.send(Frame(kind: .headers, stream: 1, payload: fields))
        #expect(peer.session.isMidBlock)
        peer.send(Frame(kind: .continuation, flags: Frame.endHeaders, stream: 1))
        #expect(!peer.session.isMidBlock)
        #expect(peer.record.events == ["1 200 chunked"])
    }
}
