import Bytes
import HTTP
import Testing

/// Failures after which a request may or may not be repeated elsewhere.
@Suite("HTTP/2 client: failures")
struct ClientFailureTests {
    private func failure(_ failure: HTTP2StreamFailure) -> String { "failed \(failure)" }

    @Test("REFUSED_STREAM before any response means not processed")
    func refused() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest(.post, content: true)
        peer.send(.reset(1, HTTP2ErrorCode.refusedStream.rawValue))
        #expect(peer.record.events(of: 1) == [failure(.unprocessed(.refused)), "ended"])
        #expect(peer.session.mayOpen)
    }

    @Test(
        "REFUSED_STREAM after a response began, even an interim one, does not mean unprocessed",
        arguments: ["100", "200"])
    func refusedLate(_ status: String) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.response(1, status), .reset(1, HTTP2ErrorCode.refusedStream.rawValue))
        #expect(peer.record.events(of: 1).suffix(2) == [failure(.reset(.refusedStream)), "ended"])
    }

    @Test("resets are limited: further cancelled streams are only ignored")
    func withheldResets() throws {
        let peer = HTTP2ClientPeer()
        peer.session.limitResets(to: 2)
        let streams = try (0..<4).map { _ in try peer.sendRequest() }
        for stream in streams[..<3] { stream.reset(.cancel) }
        #expect(peer.frames().map(\.kind) == [.reset, .reset])
        #expect(!peer.session.mayOpen && peer.session.isWithholdingResets)
        peer.send(.response(5, end: true), .response(7, end: true))
        peer.session.finishEvent()
        #expect(peer.fault == nil)
        #expect(peer.record.events(of: 5) == ["ended"])
        #expect(peer.record.events(of: 7).last == "ended")
        #expect(peer.session.openStreams == 0)
    }

    @Test(
        "other resets leave open whether the request was processed",
        arguments: HTTP2ErrorCode.allCases.filter { $0 != .refusedStream })
    func reset(_ code: HTTP2ErrorCode) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.reset(1, code.rawValue))
        #expect(peer.record.events(of: 1) == [failure(.reset(code)), "ended"])
    }

    @Test(
        "a reset within a response is a failure, also with NO_ERROR", arguments: [HTTP2ErrorCode.noError, .cancel])
    func resetWithin(_ code: HTTP2ErrorCode) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.response(1), .data(1, "half"), .reset(1, code.rawValue))
        #expect(peer.record.events(of: 1) == ["200 chunked", failure(.reset(code)), "ended"])
    }

    @Test("GOAWAY: streams above its last one are unprocessed, others continue, and none begins")
    func goAway() throws {
        let peer = HTTP2ClientPeer()
        for _ in 0..<3 { _ = try peer.sendRequest() }
        let unsent = try peer.ask()
        peer.send(.goAway(last: 3))
        #expect(peer.record.events(of: 5) == [failure(.unprocessed(.goingAway)), "ended"])
        #expect(peer.record.events(of: 7) == [failure(.unprocessed(.goingAway))])
        #expect(!unsent.isHeadSent)
        #expect(peer.record.events.contains("server goes away: noError"))
        #expect(peer.session.capacity == 0)
        #expect(!peer.session.mayOpen)
        #expect(throws: HTTP2OpenFailure.closing) { try peer.ask() }
        // No frame concerns streams that the server does not know.
        #expect(peer.frames().isEmpty)
        #expect(!peer.session.isFinished)
        peer.send(.response(1, end: true), .response(3), .data(3, "abc", end: true))
        #expect(peer.record.events(of: 1) == ["200 none", "end", "ended"])
        #expect(peer.record.events(of: 3) == ["200 chunked", "end", "ended"])
        #expect(peer.session.isFinished)
        #expect(peer.session.openStreams == 0)
    }

    @Test("GOAWAY in two steps: the second one decides (RFC 9113 section 6.8)")
    func goAwayTwice() throws {
        let peer = HTTP2ClientPeer()
        for _ in 0..<2 { _ = try peer.sendRequest() }
        peer.send(.goAway(last: 0x7fff_ffff))
        #expect(peer.record.events == ["server goes away: noError"])
        #expect(!peer.session.mayOpen)
        peer.send(.goAway(last: 1))
        #expect(peer.record.events(of: 3) == [failure(.unprocessed(.goingAway)), "ended"])
        #expect(peer.record.events(of: 1).isEmpty)
    }

    @Test("GOAWAY below a stream with a response: that request counts as processed")
    func goAwayAnswered() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.response(1), .goAway(last: 0))
        #expect(peer.record.events(of: 1) == ["200 chunked", failure(.reset(.refusedStream)), "ended"])
    }

    @Test("GOAWAY and a reset after a complete response do not affect it")
    func goAwayComplete() throws {
        let peer = HTTP2ClientPeer()
        peer.record.appetite = 0
        let stream = try peer.sendRequest(.post, content: true)
        peer.send(.response(1), .data(1, "whole", end: true), .goAway(last: 0), .reset(1, 0))
        #expect(peer.record.events(of: 1) == ["200 chunked"])
        peer.record.appetite = .max
        stream.contentWanted()
        #expect(peer.record.events(of: 1) == ["200 chunked", "end", "ended"])
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "whole")
    }

    @Test("a failure callback may begin a request on another connection")
    func again() throws {
        let peer = HTTP2ClientPeer()
        let other = HTTP2ClientPeer()
        peer.record.onFailure = { _ in _ = try? other.ask() }
        _ = try peer.sendRequest()
        peer.send(.goAway(last: 0))
        #expect(other.frames().map(\.kind) == [.headers])
    }

    @Test("after a lost connection only unsent requests count as unprocessed")
    func lost() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        _ = try peer.ask()
        peer.session.close()
        peer.session.finishEvent()
        #expect(peer.record.events(of: 1) == [failure(.disconnected), "ended"])
        #expect(peer.record.events(of: 3) == [failure(.unprocessed(.unsent)), "ended"])
        #expect(peer.session.openStreams == 0)
        #expect(throws: HTTP2OpenFailure.closing) { try peer.ask() }
        #expect(peer.session.isFinished)
        #expect(!peer.session.hasOutput)
        #expect(peer.frames().isEmpty)
    }

    @Test(
        "the count of unsent bytes decides which heads were sent",
        arguments: [(0, [true, true]), (1, [true, false]), (20, [true, false]), (1000, [false, false])])
    func unsent(_ octets: Int, _ sent: [Bool]) throws {
        let peer = HTTP2ClientPeer()
        let length = peer.written
        _ = try peer.ask()
        _ = try peer.ask()
        _ = peer.frames()
        #expect(peer.written - length < 1000)
        #expect(peer.written - length > 40)
        peer.session.close(unsent: min(octets, peer.written - length))
        for (id, isSent) in zip([Int32(1), 3], sent) {
            #expect(peer.record.events(of: id).first == failure(isSent ? .disconnected : .unprocessed(.unsent)))
        }
    }

    @Test("unsent content does not decide whether the head was sent")
    func unsentContent() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.sendRequest(.post, content: true)
        let bytes = Array("hello".utf8)
        _ = stream.sendContent(bytes.span)
        _ = peer.frames()
        peer.session.close(unsent: 9 + 5)
        #expect(peer.record.events(of: 1) == [failure(.disconnected), "ended"])
    }

    @Test("a head whose last frame was not written counts as unsent")
    func halfHead() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.ask(.get, "/", [("x", String(repeating: "~", count: 30_000))])
        var output = ByteBuffer(pool: BufferPool(blockSize: 20_000))
        try peer.session.write(into: &output)
        #expect(output.count == 20_000)
        peer.session.close()
        #expect(peer.record.events.first == "1 \(failure(.unprocessed(.unsent)))")
        #expect(stream.number == 0)
    }

    @Test("a complete response is delivered although the connection is lost")
    func lingering() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.sendRequest()
        peer.record.appetite = 1
        peer.send(.response(1), .data(1, "abc"), .headers(1, [("x", "y")]))
        #expect(peer.record.events == ["1 200 chunked"])
        // The server has released its stream, we have not.
        #expect(peer.session.openStreams == 1)
        peer.send(.goAway(last: 1))
        peer.session.close()
        peer.session.finishEvent()
        #expect(peer.session.openStreams == 1)
        peer.record.appetite = .max
        stream.contentWanted()
        #expect(peer.record.events(of: 1) == ["200 chunked", #"trailers ["x: y"]"#, "end", "ended"])
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "abc")
        #expect(peer.session.openStreams == 0)
        peer.session.finishEvent()
        #expect(peer.pool.outstanding == 0)
    }

    @Test("a connection error is reported to the streams whose response it interrupted")
    func faulted() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.response(1), Frame(kind: .pushPromise, flags: Frame.endHeaders, stream: 1, payload: Frame.octets(2)))
        #expect(peer.fault == .violation(.protocolError))
        _ = peer.frames()
        peer.session.close()
        #expect(
            peer.record.events(of: 1) == [
                "200 chunked", failure(.connectionFaulted(.violation(.protocolError))), "ended",
            ])
    }

    @Test("a stream with callbacks is settled once per event, and before its object is used again")
    func settled() throws {
        let peer = HTTP2ClientPeer()
        for _ in 0..<2 { _ = try peer.sendRequest() }
        peer.record.settled = 0
        peer.send(.response(1), .data(1, "a"), .data(1, "b", end: true), .response(3))
        #expect(peer.record.settled == 2)
        peer.send(.data(3, "c"))
        #expect(peer.record.settled == 3)
        peer.send(.ping)
        #expect(peer.record.settled == 3)
    }
}
