import HTTP
import Testing

/// The rules of frames, streams and header compression, in the order of RFC 9113 and with the cases of h2spec. nghttp2
/// enforces most of them; its configuration and the handling of its reports are ours.
@Suite("HTTP/2 server: protocol")
struct HTTP2ProtocolTests {
    struct Case: CustomTestStringConvertible {
        let testDescription: String
        let frames: [Frame]
        let code: HTTP2ErrorCode

        init(_ description: String, _ code: HTTP2ErrorCode, _ frames: Frame...) {
            testDescription = description
            self.frames = frames
            self.code = code
        }
    }

    private static func block(_ bytes: [UInt8], flags: UInt8 = 0x5, _ stream: UInt32 = 1) -> Frame {
        Frame(kind: .headers, flags: flags, stream: stream, payload: bytes)
    }

    private static let fields = HPACK.literals(HPACK.request("GET", "/"))
    private static let begun = block(fields, flags: Frame.endStream)
    private static let rest = Frame(
        kind: .continuation, flags: Frame.endHeaders, stream: 1, payload: HPACK.literals([("x", "y")]))

    static let violations: [Case] = [
        // 4.2, 4.3
        Case("DATA beyond the frame size", .frameSizeError, .post(1), .data(1, String(repeating: "a", count: 16_385))),
        Case("HEADERS beyond the frame size", .frameSizeError, block([UInt8](repeating: 0x82, count: 16_385))),
        Case("an invalid header block", .compressionError, block([0x82, 0x84, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff])),
        Case(
            "PRIORITY within a header block", .protocolError, begun,
            Frame(kind: .priority, stream: 1, payload: [0, 0, 0, 0, 1])),
        Case("HEADERS of another stream within a header block", .protocolError, begun, .get(3)),
        // 5.1
        Case("idle: DATA", .protocolError, .data(1, "x")), Case("idle: RST_STREAM", .protocolError, .reset(1)),
        Case("idle: WINDOW_UPDATE", .protocolError, .windowUpdate(1, 100)),
        Case("idle: CONTINUATION", .protocolError, rest),
        Case("half closed: DATA", .streamClosed, .get(1), .data(1, "x", end: true)),
        Case("half closed: HEADERS", .streamClosed, .get(1), .get(1)),
        Case("half closed: CONTINUATION", .protocolError, .get(1), rest),
        // 5.1.1
        Case("a stream of even number", .protocolError, .get(2)),
        // 5.4.1, 6.7
        Case("PING of six octets", .frameSizeError, Frame(kind: .ping, payload: [0, 0, 0, 0, 0, 0])),
        Case("PING on a stream", .protocolError, Frame(kind: .ping, stream: 1, payload: Array("12345678".utf8))),
        // 5.5
        Case("a frame of unknown type within a header block", .protocolError, begun, Frame(kind: .unknown, stream: 1)),
        // 6.1
        Case("DATA on stream 0", .protocolError, .data(0, "x")),
        Case(
            "DATA with too much padding", .protocolError, .post(1),
            Frame(kind: .data, flags: Frame.padded, stream: 1, payload: [6, 0x61, 0, 0])),
        // 6.2
        Case("HEADERS on stream 0", .protocolError, .get(0)),
        Case("HEADERS with too much padding", .protocolError, block([255] + fields, flags: 0x5 | Frame.padded)),
        Case(
            "HEADERS that depend on their own stream", .protocolError,
            block([0, 0, 0, 1, 255] + fields, flags: 0x5 | Frame.priorities)),
        // 6.3
        Case("PRIORITY on stream 0", .protocolError, Frame(kind: .priority, payload: [0, 0, 0, 0, 1])),
        Case(
            "PRIORITY of four octets", .frameSizeError, .post(1),
            Frame(kind: .priority, stream: 1, payload: [0, 0, 0, 1])),
        // 6.4
        Case("RST_STREAM on stream 0", .protocolError, .reset(0)),
        Case(
            "RST_STREAM of three octets", .frameSizeError, .post(1), Frame(kind: .reset, stream: 1, payload: [0, 0, 0])),
        // 6.5
        Case(
            "SETTINGS acknowledged with a payload", .frameSizeError,
            Frame(kind: .settings, flags: Frame.acknowledgement, payload: [0, 3, 0, 0, 0, 1])),
        Case("SETTINGS on a stream", .protocolError, Frame(kind: .settings, stream: 1)),
        Case("SETTINGS of five octets", .frameSizeError, Frame(kind: .settings, payload: [0, 3, 0, 0, 0])),
        Case("ENABLE_PUSH 2", .protocolError, .settings([(2, 2)])),
        Case("INITIAL_WINDOW_SIZE beyond 2^31 - 1", .flowControlError, .settings([(4, 0x8000_0000)])),
        Case("MAX_FRAME_SIZE below 16,384", .protocolError, .settings([(5, 16_383)])),
        Case("MAX_FRAME_SIZE above 2^24 - 1", .protocolError, .settings([(5, 0x100_0000)])),
        // 6.6, 8.4
        Case(
            "PUSH_PROMISE of a client", .protocolError, .post(1),
            Frame(kind: .pushPromise, flags: Frame.endHeaders, stream: 1, payload: [0, 0, 0, 2] + fields)),
        // 6.8
        Case("GOAWAY on a stream", .protocolError, Frame(kind: .goAway, stream: 1, payload: [0, 0, 0, 0, 0, 0, 0, 0])),
        // 6.9
        Case("WINDOW_UPDATE of nothing", .protocolError, .windowUpdate(0, 0)),
        // Of the stream by RFC 9113; nghttp2 takes it for one of the connection, as section 5.4 allows.
        Case("WINDOW_UPDATE of nothing on a stream", .protocolError, .post(1), .windowUpdate(1, 0)),
        Case("WINDOW_UPDATE of three octets", .frameSizeError, Frame(kind: .windowUpdate, payload: [0, 0, 1])),
        Case(
            "a window beyond 2^31 - 1", .flowControlError, .windowUpdate(0, 0x7fff_ffff), .windowUpdate(0, 0x7fff_ffff)),
        // 6.10
        Case(
            "CONTINUATION on stream 0", .protocolError, begun,
            Frame(kind: .continuation, flags: Frame.endHeaders, payload: HPACK.literals([("x", "y")]))),
        Case("CONTINUATION behind an ended block", .protocolError, .post(1), rest),
        Case("CONTINUATION behind another that ended the block", .protocolError, begun, rest, rest),
        Case("CONTINUATION behind DATA", .protocolError, .post(1), .data(1, "x"), rest),
        // RFC 7541
        Case("HPACK: index 0", .compressionError, block([0x80])),
        Case("HPACK: an index beyond the tables", .compressionError, block(fields + [0xff, 0x80, 0x01])),
        Case(
            "HPACK: a literal whose name is beyond the tables", .compressionError,
            block(fields + [0x7f, 0x80, 0x01] + HPACK.string("x"))),
        Case("HPACK: a table size at the end of the block", .compressionError, block(fields + [0x20])),
        Case(
            "HPACK: Huffman padding of more than seven bits", .compressionError,
            block(fields + [0, 1, 0x78, 0x82, 0x1f, 0xff])),
        Case("HPACK: Huffman padding of zeros", .compressionError, block(fields + [0, 1, 0x78, 0x81, 0x18])),
        Case(
            "HPACK: the end-of-string symbol", .compressionError,
            block(fields + [0, 1, 0x78, 0x84, 0xff, 0xff, 0xff, 0xff])),
        Case("HPACK: a string longer than the block", .compressionError, block(fields + [0, 5, 0x78])),
    ]

    @Test("a connection error ends the connection with GOAWAY and its code", arguments: violations)
    func violation(_ violation: Case) {
        let peer = HTTP2Peer()
        peer.send(violation.frames.flatMap(\.bytes))
        let goAway = peer.frames().last { $0.kind == .goAway }
        #expect(goAway?.number(at: 4) == violation.code.rawValue)
        #expect(peer.fault == .violation(violation.code))
        #expect(peer.session.isFinished)
        let events = peer.record.events
        peer.send(.get(99))
        #expect(peer.record.events == events, "nothing is served after it")
    }

    static let streamErrors: [Case] = [
        Case("a window beyond 2^31 - 1", .flowControlError, .post(1), .windowUpdate(1, 0x7fff_ffff))
    ]

    @Test("a stream error resets the stream and leaves the others alone", arguments: streamErrors)
    func streamError(_ error: Case) {
        let peer = HTTP2Peer()
        peer.send(error.frames.flatMap(\.bytes))
        let frames = peer.frames()
        #expect(frames.map(\.kind) == [.reset])
        #expect(frames.first?.number() == error.code.rawValue)
        peer.send(.get(3))
        #expect(peer.record.events.suffix(2) == ["3 GET health.example / none", "3 end"])
        #expect(peer.fault == nil)
    }

    @Test("a frame behind the client's END_STREAM ends the connection when the stream is closed", arguments: [1, 64])
    func framesBehindTheEnd(streams: UInt32) {
        for frame in [Frame.data(1, "x"), .data(1), .get(1), .headers(1, [("x", "y")])] {
            let peer = HTTP2Peer()
            peer.record.onEnd = { $0.answer(200) }
            for number in 0..<streams {
                peer.send(.get(2 * number + 1))
                _ = peer.frames()
            }
            #expect(peer.session.openStreams == 0)
            peer.send(frame)
            #expect(peer.fault == .violation(.streamClosed))
            #expect(peer.frames().last.map { $0.kind == .goAway && $0.number(at: 4) == 5 } == true)
        }
    }

    @Test("frames behind the client's RST_STREAM are answered with STREAM_CLOSED, once for each read")
    func framesBehindTheReset() {
        let peer = HTTP2Peer()
        peer.send(.post(1), .reset(1), .get(3), .reset(3))
        #expect(peer.frames().isEmpty)
        for _ in 0..<2 {
            peer.send(.data(1, "x"), .data(3), .headers(3, [("x", "y")]), .data(1, "x", end: true), .data(1, "x"))
            #expect(
                peer.frames().map { [UInt32($0.kind.rawValue), $0.stream, $0.number()] } == [[3, 1, 5], [3, 3, 5]])
        }
        #expect(peer.fault == nil)
    }

    @Test("frames that were in flight when we ended the stream are dropped")
    func framesInFlight() {
        let peer = HTTP2Peer()
        peer.record.onHead = { if $0.number == 1 { $0.answer(413) } else { $0.reset(.cancel) } }
        peer.send(.post(1), .post(3))
        _ = peer.frames()
        peer.send(.data(1, "x"), .headers(1, [("x", "y")]), .data(3, "x"), .data(3, end: true), .get(5))
        #expect(peer.frames().map(\.kind) == [.reset])
        #expect(peer.record.events.contains("5 GET health.example / none"))
        #expect(peer.fault == nil)
    }

    static let tolerated: [Case] = [
        Case("an undefined flag", .noError, Frame(kind: .ping, flags: 0x16, payload: Array("12345678".utf8))),
        Case("a frame of unknown type", .noError, Frame(kind: .unknown, flags: 0xff, stream: 3, payload: [1, 2])),
        Case(
            "the reserved bit of a stream", .noError,
            Frame(kind: .ping, stream: 0x8000_0000, payload: Array("12345678".utf8))),
        Case("an unknown setting", .noError, .settings([(0xff, 1)])),
        Case("PRIORITY on an idle stream", .noError, Frame(kind: .priority, stream: 5, payload: [0, 0, 0, 0, 255])),
        Case(
            "PRIORITY that depends on another stream, exclusively", .noError,
            Frame(kind: .priority, stream: 1, payload: [0x80, 0, 0, 3, 1])),
        Case(
            "PING acknowledged unasked", .noError,
            Frame(kind: .ping, flags: Frame.acknowledgement, payload: Array("12345678".utf8))),
        Case(
            "WINDOW_UPDATE, PRIORITY and RST_STREAM behind the end of a request", .noError, .get(1),
            .windowUpdate(1, 10), Frame(kind: .priority, stream: 1, payload: [0, 0, 0, 0, 1]), .reset(1, 0xff)),
        Case("a table size update at the start of a block", .noError, block([0x3e, 0x20] + fields)),
    ]

    @Test("what RFC 9113 tolerates ends nothing", arguments: tolerated)
    func tolerance(_ tolerated: Case) {
        let peer = HTTP2Peer()
        peer.send(tolerated.frames.flatMap(\.bytes))
        peer.send(.get(7))
        #expect(!peer.frames().contains { $0.kind == .goAway })
        #expect(peer.record.events.suffix(2) == ["7 GET health.example / none", "7 end"])
        #expect(peer.fault == nil)
    }

    @Test("a connection that does not begin with the preface ends at once")
    func preface() {
        for bytes in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "PRI * HTTP/1.1\r\n"] {
            let peer = HTTP2Peer(greets: false)
            peer.send(Array(bytes.utf8))
            #expect(peer.fault == .prefaceMissing)
            #expect(peer.session.isFinished)
        }
    }

    @Test("SETTINGS must follow the preface")
    func settingsFirst() {
        let peer = HTTP2Peer(greets: false)
        peer.send(HTTP2Peer.preface + Frame.get(1).bytes)
        _ = peer.frames()
        #expect(peer.fault == .violation(.protocolError))
        #expect(peer.record.events.isEmpty)
    }

    @Test("SETTINGS and PING are acknowledged, and the acknowledgement of ours is noticed")
    func acknowledgements() {
        let peer = HTTP2Peer(greets: false)
        peer.send(HTTP2Peer.preface + Frame.settings([(3, 1)]).bytes)
        #expect(!peer.session.isAcknowledged)
        #expect(peer.frames().contains(.settingsAcknowledgement))
        peer.send(.settingsAcknowledgement, .ping)
        #expect(peer.session.isAcknowledged)
        #expect(
            peer.frames() == [
                Frame(kind: .ping, flags: Frame.acknowledgement, payload: Array("12345678".utf8))
            ])
    }

    @Test("every HPACK representation gives the same fields, Huffman coded and indexed")
    func representations() {
        let peer = HTTP2Peer()
        var fields: [[String]] = []
        peer.record.onHead = { fields.append($0.fields) }
        // RFC 7541, C.4.1 to C.4.3 with https: Huffman codes, the dynamic table, one request behind the other.
        let authority: [UInt8] = [0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]
        peer.send(Self.block([0x82, 0x87, 0x84] + authority, 1))
        peer.send(Self.block([0x82, 0x87, 0x84, 0xbe, 0x58, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], 3))
        // Never indexed, by name and by index.
        peer.send(Self.block([0x82, 0x87, 0x84, 0xbf, 0x10] + HPACK.string("x") + HPACK.string("y"), 5))
        #expect(fields == [[], ["cache-control: no-cache"], ["x: y"]])
        #expect(peer.record.events.first == "1 GET www.example.com / none")
        #expect(peer.record.events.filter { $0.contains("GET www.example.com") }.count == 3)
    }

    @Test("a head in several frames is read, with padding and priority, in any pieces", arguments: [1000, 1])
    func pieces(step: Int) {
        let peer = HTTP2Peer()
        let fields = HPACK.literals(HPACK.request("GET", "/a"))
        let frames = [
            Frame(
                kind: .headers, flags: Frame.endStream | Frame.padded | Frame.priorities, stream: 1,
                payload: [2, 0, 0, 0, 0, 10] + fields[..<9] + [0, 0]),
            Frame(kind: .continuation, stream: 1, payload: Array(fields[9..<20])),
            Frame(kind: .continuation, flags: Frame.endHeaders, stream: 1, payload: Array(fields[20...])),
        ]
        let bytes = frames.flatMap(\.bytes)
        for start in stride(from: 0, to: bytes.count, by: step) {
            peer.send(Array(bytes[start..<min(start + step, bytes.count)]))
        }
        #expect(peer.record.events == ["1 GET health.example /a none", "1 end"])
        #expect(peer.fault == nil)
    }
}
