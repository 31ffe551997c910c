import HTTP
import Testing

/// Faults of a server in frames and streams, which end the connection. nghttp2 detects most of them; its configuration
/// and the handling of its reports are ours.
@Suite("HTTP/2 client: protocol")
struct ClientProtocolTests {
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

    static let begun = Frame(kind: .headers, stream: 1, payload: HPACK.literals([(":status", "200")]))
    static let violations: [Case] = [
        // RFC 9113 section 4.2, 4.3
        Case(
            "DATA beyond the frame size", .frameSizeError, .response(1),
            .data(1, String(repeating: "a", count: 16_385))),
        Case(
            "a header block that is none", .compressionError,
            Frame(kind: .headers, flags: Frame.endHeaders, stream: 1, payload: [0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
        Case("HEADERS of another stream within a header block", .protocolError, begun, .response(3)),
        Case("PING within a header block", .protocolError, begun, .ping),
        Case(
            "a table beyond what we offered", .compressionError,
            Frame(
                kind: .headers, flags: Frame.endHeaders, stream: 1,
                payload: HPACK.integer(65_536, prefix: 5, pattern: 0x20) + HPACK.literals([(":status", "200")]))),
        // 5.1, 5.1.1
        Case("idle: DATA", .protocolError, .data(5, "x")), Case("idle: HEADERS", .protocolError, .response(5)),
        Case("idle: RST_STREAM", .protocolError, .reset(5)),
        Case("idle: WINDOW_UPDATE", .protocolError, .windowUpdate(5, 1)),
        Case("a stream of the server's", .protocolError, .response(2)),
        Case("DATA of a stream of the server's", .protocolError, .data(2, "x")),
        Case("DATA before any head", .protocolError, .data(1, "x")),
        Case("half closed: DATA", .streamClosed, .response(3, end: true), .data(3, "x")),
        Case("half closed: HEADERS", .streamClosed, .response(3, end: true), .response(3)),
        // 6
        Case("DATA on stream 0", .protocolError, .data(0, "x")),
        Case("HEADERS on stream 0", .protocolError, .response(0)),
        Case("PING of six octets", .frameSizeError, Frame(kind: .ping, payload: [0, 0, 0, 0, 0, 0])),
        Case("SETTINGS on a stream", .protocolError, Frame(kind: .settings, stream: 1)),
        Case("SETTINGS of five octets", .frameSizeError, Frame(kind: .settings, payload: [0, 4, 0, 0, 0])),
        Case("SETTINGS that enable push", .protocolError, .settings([(2, 1)])),
        Case("SETTINGS with a window too large", .flowControlError, .settings([(4, 0x8000_0000)])),
        Case("SETTINGS with frames too small", .protocolError, .settings([(5, 16_383)])),
        Case("WINDOW_UPDATE of 0", .protocolError, .windowUpdate(0, 0)),
        Case("a window beyond all bounds", .flowControlError, .windowUpdate(0, 0x7fff_ffff)),
        Case("CONTINUATION of nothing", .protocolError, Frame(kind: .continuation, stream: 1)),
        Case(
            "GOAWAY on a stream", .protocolError,
            Frame(kind: .goAway, stream: 1, payload: Frame.octets(0) + Frame.octets(0))),
        Case("GOAWAY that takes more than before", .protocolError, .goAway(last: 1), .goAway(last: 3)),
        Case("GOAWAY of a stream of the server's", .protocolError, .goAway(last: 2)),
    ]

    @Test("a connection error ends the connection and fails every request", arguments: violations)
    func violation(_ violation: Case) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        // Its own half stays open, so the stream outlives its response.
        _ = try peer.sendRequest(.post, content: true)
        for frame in violation.frames { peer.send(frame) }
        _ = peer.frames()
        #expect(peer.fault == .violation(violation.code))
        #expect(peer.goAways.last == violation.code.rawValue)
        #expect(peer.session.capacity == 0)
        peer.session.close()
        peer.session.finishEvent()
        #expect(peer.session.openStreams == 0)
        #expect(peer.pool.outstanding == 0)
        let last = peer.record.events(of: 1).suffix(2)
        #expect(last == ["failed \(HTTP2StreamFailure.connectionFaulted(.violation(violation.code)))", "ended"])
    }

    @Test(
        "a server that does not begin with SETTINGS does not speak HTTP/2",
        arguments: [
            Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), Frame.ping.bytes, Frame.settingsAcknowledgement.bytes,
            Frame.goAway(last: 0).bytes, [UInt8](repeating: 0x15, count: 9),
        ])
    func preface(_ bytes: [UInt8]) throws {
        let peer = HTTP2ClientPeer(greets: false)
        _ = try peer.ask()
        for byte in bytes { peer.send([byte]) }
        #expect(peer.fault == .prefaceMissing)
        _ = peer.frames()
        #expect(peer.goAways == [HTTP2ErrorCode.protocolError.rawValue])
        peer.session.close()
        #expect(peer.record.events.first?.hasPrefix("1 failed") == true)
    }

    @Test("frames and settings of unknown types are ignored")
    func unknown() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(
            Frame(kind: .unknown, flags: 0xff, stream: 7, payload: [1, 2]), .settings([(0xaaaa, 1)]), .response(1),
            Frame(kind: .unknown, stream: 1), .data(1, "x", end: true))
        #expect(peer.record.events == ["1 200 chunked", "1 end", "1 ended"])
        #expect(peer.fault == nil)
    }

    @Test("settings are acknowledged in both directions")
    func acknowledgements() {
        let peer = HTTP2ClientPeer(greets: false)
        _ = peer.frames()
        peer.send(.settings())
        #expect(!peer.session.isAcknowledged)
        #expect(peer.frames() == [.settingsAcknowledgement])
        peer.send(.settingsAcknowledgement)
        #expect(peer.session.isAcknowledged)
    }

    @Test("a connection that we end sends the reason once, and nothing after it")
    func terminated() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        _ = try peer.ask()
        peer.session.terminate(.internalError)
        #expect(!peer.session.mayOpen)
        #expect(peer.frames().map(\.kind) == [.goAway])
        #expect(peer.goAways == [HTTP2ErrorCode.internalError.rawValue])
        #expect(peer.session.isFinished)
        peer.session.close()
        #expect(peer.record.events(of: 1) == ["failed \(HTTP2StreamFailure.disconnected)", "ended"])
        #expect(peer.record.events(of: 3) == ["failed \(HTTP2StreamFailure.unprocessed(.unsent))", "ended"])
    }
}
