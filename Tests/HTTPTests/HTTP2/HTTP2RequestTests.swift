import HTTP
import Testing

@Suite("HTTP/2 server: requests")
struct HTTP2RequestTests {
    @Test("a request equals what the HTTP/1.1 parser returns for it")
    func request() throws {
        let peer = HTTP2Peer()
        var fields: [String] = []
        peer.record.onHead = { stream in
            fields = stream.fields
            #expect(stream.head.version == .http2)
            #expect(stream.head.minorVersion == 1)
            #expect(stream.head.isPersistent)
            #expect(stream.head.host.count == "health.example".utf8.count)
        }
        peer.send(.get(1, "/records/7?day=2026-11-21", [("accept", "*/*"), ("x-a", "")]))
        #expect(peer.record.events == ["1 GET health.example /records/7?day=2026-11-21 none", "1 end"])
        #expect(fields == ["accept: */*", "x-a: "])
        #expect(peer.fault == nil)
    }

    @Test("content of stated length, of unknown length and none are distinguished")
    func framing() {
        let peer = HTTP2Peer()
        peer.send(.post(1, [("content-length", "5")]), .data(1, "hello", end: true))
        peer.send(.post(3), .data(3, "hel"), .data(3, "lo", end: true))
        peer.send(.headers(5, HPACK.request("POST", "/") + [("content-length", "0")]))
        #expect(
            peer.record.events == [
                "1 POST health.example / length(5)", "1 end", "3 POST health.example / chunked", "3 end",
                "5 POST health.example / none", "5 end",
            ])
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "hellohello")
    }

    @Test("a request in any pieces is the same request")
    func cuts() {
        let bytes =
            Frame.post(1, [("content-length", "5"), ("x-a", "b")]).bytes
            + Frame.data(1, "hello", end: true).bytes
        for step in [1, 2, 8, 9, 10, 30] {
            let peer = HTTP2Peer()
            for start in stride(from: 0, to: bytes.count, by: step) {
                peer.send(Array(bytes[start..<min(start + step, bytes.count)]))
            }
            #expect(peer.record.events == ["1 POST health.example / length(5)", "1 end"], "in steps of \(step)")
        }
    }

    @Test("cookie pieces are joined in order behind the other fields")
    func cookies() {
        let peer = HTTP2Peer()
        var fields: [String] = []
        peer.record.onHead = { fields = $0.fields }
        peer.send(.get(1, "/", [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")]))
        #expect(fields == ["x: y", "cookie: a=1; b=2; c=3"])
        peer.send(.get(3, "/", [("cookie", "d=4")]))
        #expect(fields == ["cookie: d=4"])
        peer.send(.get(5, "/", [("cookie", ""), ("cookie", "e=5"), ("cookie", ""), ("cookie", "f=6"), ("cookie", "")]))
        #expect(fields == ["cookie: e=5; f=6"])
        peer.send(.get(7, "/", [("cookie", ""), ("cookie", "")]))
        #expect(fields == [])
    }

    @Test("Host replaces a missing :authority and must otherwise agree with it")
    func host() {
        let peer = HTTP2Peer()
        let line = [(":method", "GET"), (":scheme", "https"), (":path", "/")]
        peer.send(.headers(1, line + [("host", "a.example:8443")]))
        peer.send(.get(3, "/", [("host", "health.example")]))
        peer.send(.get(5, "/", [("host", "other.example")]))
        peer.send(.headers(7, line))
        peer.send(.headers(9, line + [("host", "a"), ("host", "a")]))
        #expect(
            peer.record.events == [
                "1 GET a.example:8443 / none", "1 end", "3 GET health.example / none", "3 end",
                "5 fault targetDisagreesWithHost", "7 fault hostMissing", "9 fault hostRepeated",
            ])
    }

    @Test("Content-Length 0 is accepted only when the stream has ended")
    func emptyContent() {
        let peer = HTTP2Peer()
        peer.send(.post(1, [("content-length", "0")]))
        #expect(peer.record.events.isEmpty)
        peer.send(.data(1, end: true))
        #expect(peer.record.events == ["1 POST health.example / none", "1 end"])
        peer.record.events = []
        peer.send(.post(3, [("content-length", "0")]), .data(3, "x", end: true))
        #expect(peer.record.events == ["3 fault contentLengthDisagrees"])
    }

    @Test("an incomplete field block is known as such until its last byte, on any stream")
    func incompleteBlocks() {
        let peer = HTTP2Peer()
        peer.send(.get(1), .reset(1))
        for stream in [UInt32(1), 3] {
            let fields = HPACK.literals(stream == 1 ? [("a", "b")] : HPACK.request("GET", "/"))
            let head = Frame(kind: .headers, flags: Frame.endStream, stream: stream, payload: fields).bytes
            let rest = Frame(
                kind: .continuation, flags: Frame.endHeaders, stream: stream, payload: HPACK.literals([("c", "d")])
            ).bytes
            #expect(!peer.session.isMidBlock)
            for part in [head.prefix(9), head.dropFirst(9), rest.prefix(9), rest[9..<(rest.count - 1)]] {
                peer.send(Array(part))
                #expect(peer.session.isMidBlock)
            }
            peer.send([rest.last ?? 0])
            #expect(!peer.session.isMidBlock)
            peer.send(.data(1, end: true))
            #expect(!peer.session.isMidBlock)
        }
        #expect(peer.fault == nil)
        #expect(peer.record.events.last == "3 end")
    }

    @Test("a head completed after its request was answered is dropped with all that follows")
    func answeredHead() {
        let peer = HTTP2Peer()
        let head = Frame.post(1)
        peer.send(Array(head.bytes.dropLast()))
        peer.record.streams[0].disregardRequest()
        peer.record.streams[0].answer(408, "late")
        peer.send([head.bytes.last ?? 0] + Frame.data(1, "x").bytes + Frame.headers(1, [("A", "b")]).bytes)
        #expect(peer.record.events.isEmpty)
        #expect(peer.frames().contains { $0.kind == .headers })
    }

    @Test("the last byte of a stated length waits for the end of the stream")
    func lastOctet() {
        let peer = HTTP2Peer()
        peer.send(.post(1, [("content-length", "5")]), .data(1, "hel"), .data(1, "lo"))
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "hell")
        peer.record.streams[0].contentWanted()
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "hell")
        peer.send(.headers(1, []))
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "hello")
        #expect(peer.record.events.last == "1 end")
    }

    @Test("100 (Continue) is expected only where content follows")
    func expectation() {
        let peer = HTTP2Peer()
        var expects: [Bool] = []
        peer.record.onHead = { expects.append($0.head.expectsContinue) }
        peer.send(.post(1, [("expect", "100-continue")]), .get(3, "/", [("expect", "100-continue")]))
        #expect(expects == [true, false])
    }

    @Test("trailers are checked and dropped, and end the request")
    func trailers() {
        let peer = HTTP2Peer()
        peer.send(.post(1), .data(1, "a"), .headers(1, [("x-sum", "1")]))
        #expect(peer.record.events == ["1 POST health.example / chunked", "1 end"])
        #expect(peer.record.streams[0].fields == [])
    }

    static let malformedTrailerCases: [([(String, String)], Bool, MessageFault)] = [
        ([(":path", "/")], true, MessageFault.pseudoFieldLate),
        ([("content-length", "1")], true, .trailerNamesFraming),
        ([("host", "a")], true, .trailerNamesFraming), ([("X", "a")], true, .fieldNameUpperCase),
        ([("connection", "close")], true, .fieldOfConnection), ([("x", "a")], false, .trailersUnended),
        ([("x", String(repeating: "a", count: 5000))], true, .trailerTooLarge),
    ]

    @Test(
        "malformed trailers make the request malformed",
        arguments: malformedTrailerCases)
    func malformedTrailers(_ fields: [(String, String)], _ end: Bool, _ fault: MessageFault) {
        let peer = HTTP2Peer()
        peer.send(.post(1), .data(1, "a"), .headers(1, fields, end: end))
        #expect(peer.record.events == ["1 POST health.example / chunked", "1 fault \(fault)"])
    }

    @Test("an extended CONNECT opens a WebSocket where admitted, and is refused elsewhere")
    func extendedConnect() {
        let fields = HPACK.request("CONNECT", "/chat") + [(":protocol", "websocket")]
        var limits = HTTP2Limits()
        #expect(Self.fault(fields) == .pseudoFieldUnknown)
        limits.extendedConnect = true
        let peer = HTTP2Peer(limits)
        peer.send(.headers(1, fields, end: false))
        #expect(peer.record.events == ["1 websocket health.example /chat none"])
        #expect(peer.record.streams[0].head.routedMethod == .get)
        #expect(peer.record.streams[0].head.methodBytes == Array("CONNECT".utf8))
        #expect(Self.fault(fields, limits) == .contentUnexpected)
        #expect(Self.fault(fields + [("content-length", "0")], limits, end: false) == .contentUnexpected)
        #expect(
            Self.fault(HPACK.request("CONNECT", "/chat") + [(":protocol", "telnet")], limits) == .connectUnsupported)
        #expect(Self.fault(HPACK.request("CONNECT", "/chat"), limits) == .connectUnsupported)
        #expect(Self.fault(HPACK.request("GET", "/chat") + [(":protocol", "websocket")], limits) == .pseudoFieldUnknown)
        #expect(Self.fault([(":method", "CONNECT"), (":authority", "a:443")], limits) == .connectUnsupported)
    }

    @Test("each side of a tunnel ends separately, and only DATA is accepted in it")
    func tunnel() {
        var limits = HTTP2Limits()
        limits.extendedConnect = true
        let fields = HPACK.request("CONNECT", "/chat") + [(":protocol", "websocket")]
        let peer = HTTP2Peer(limits)
        peer.record.onHead = {
            _ = $0.sendHead(200, endsStream: false) { _ in }
            $0.sendEnd()
        }
        peer.send(.headers(1, fields, end: false), .headers(3, fields, end: false))
        // No reset: the client may have more to send.
        #expect(peer.frames().map(\.kind) == [.headers, .headers, .data, .data])
        peer.send(.data(1, "a"), .data(1, "b", end: true))
        #expect(peer.record.events.contains("1 end"))
        peer.send(.headers(3, [("x", "a")]))
        #expect(peer.record.events.contains("3 fault \(MessageFault.fieldsInTunnel)"))
    }

    /// Returns the fault of a request with these fields, or nil.
    static func fault(
        _ fields: [(String, String)], _ limits: HTTP2Limits = HTTP2Limits(), heads: HeadLimits = .standard,
        end: Bool = true
    ) -> MessageFault? {
        let peer = HTTP2Peer(limits, heads: heads)
        peer.send(.headers(1, fields, end: end))
        return MessageFault.allCases.first { peer.record.events == ["1 fault \($0)"] }
    }
}
