import Bytes
import HTTP
import Testing

/// What can be asked again elsewhere, and what cannot.
@Suite("Failures of HTTP/2, as a client")
struct ClientFailureTests {
    private func failure(_ failure: HTTP2StreamFailure) -> String { "failed \(failure)" }

    @Test("REFUSED_STREAM before any answer: certainly not processed")
    func refused() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest(.post, content: true)
        peer.send(.reset(1, HTTP2ErrorCode.refusedStream.rawValue))
        #expect(peer.record.events(of: 1) == [failure(.unprocessed(.refused)), "ended"])
        #expect(peer.session.mayOpen)
    }

    @Test(
        "REFUSED_STREAM behind the beginning of an answer, an interim one too, is believed by nobody",
        arguments: ["100", "200"])
    func refusedLate(_ status: String) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.response(1, status), .reset(1, HTTP2ErrorCode.refusedStream.rawValue))
        #expect(peer.record.events(of: 1).suffix(2) == [failure(.reset(.refusedStream)), "ended"])
    }

    @Test("no more streams are reset than may be: what others send on them is only not listened to")
    func withheldResets() throws {
        let peer = HTTP2ClientPeer()
        peer.session.resetsLeft = 2
        let streams = try (0..<4).map { _ in try peer.sendRequest() }
        for stream in streams[..<3] { stream.reset(.cancel) }
        #expect(peer.frames().map(\.kind) == [.reset, .reset])
        #expect(!peer.session.mayOpen && peer.session.isWithholdingResets)
        peer.send(.response(5, end: true), .response(7, end: true))
        peer.session.settle()
        #expect(peer.fault == nil)
        #expect(peer.record.events(of: 5) == ["ended"])
        #expect(peer.record.events(of: 7).last == "ended")
        #expect(peer.session.openStreams == 0)
    }

    @Test(
        "other resets leave open what was processed",
        arguments: HTTP2ErrorCode.allCases.filter { $0 != .refusedStream })
    func reset(_ code: HTTP2ErrorCode) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.reset(1, code.rawValue))
        #expect(peer.record.events(of: 1) == [failure(.reset(code)), "ended"])
    }

    @Test(
        "a reset in the middle of a response is a failure, NO_ERROR too", arguments: [HTTP2ErrorCode.noError, .cancel])
    func resetWithin(_ code: HTTP2ErrorCode) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.response(1), .data(1, "half"), .reset(1, code.rawValue))
        #expect(peer.record.events(of: 1) == ["200 chunked", failure(.reset(code)), "ended"])
    }

    @Test("GOAWAY: streams above its last one were not processed, the others go on, and none is begun")
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
        // Nothing is said about streams that the server does not know.
        #expect(peer.frames().isEmpty)
        #expect(!peer.session.isFinished)
        peer.send(.response(1, end: true), .response(3), .data(3, "abc", end: true))
        #expect(peer.record.events(of: 1) == ["200 none", "end", "ended"])
        #expect(peer.record.events(of: 3) == ["200 chunked", "end", "ended"])
        #expect(peer.session.isFinished)
        #expect(peer.session.openStreams == 0)
    }

    @Test("GOAWAY in two steps, as RFC 9113 section 6.8 has it: the last one tells")
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

    @Test("GOAWAY above which the server has begun to answer: it was processed, whatever the server says")
    func goAwayAnswered() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.send(.response(1), .goAway(last: 0))
        #expect(peer.record.events(of: 1) == ["200 chunked", failure(.reset(.refusedStream)), "ended"])
    }

    @Test("GOAWAY and a reset behind a response that is whole and not taken yet take nothing from it")
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

    @Test("a request is begun elsewhere from within its failure")
    func again() throws {
        let peer = HTTP2ClientPeer()
        let other = HTTP2ClientPeer()
        peer.record.onFailure = { _ in _ = try? other.ask() }
        _ = try peer.sendRequest()
        peer.send(.goAway(last: 0))
        #expect(other.frames().map(\.kind) == [.headers])
    }

    @Test("the connection is lost: what was sent may have been processed, what was not certainly was not")
    func lost() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        _ = try peer.ask()
        peer.session.close()
        peer.session.settle()
        #expect(peer.record.events(of: 1) == [failure(.disconnected), "ended"])
        #expect(peer.record.events(of: 3) == [failure(.unprocessed(.unsent)), "ended"])
        #expect(peer.session.openStreams == 0)
        #expect(throws: HTTP2OpenFailure.closing) { try peer.ask() }
        #expect(peer.session.isFinished)
        #expect(!peer.session.hasOutput)
        #expect(peer.frames().isEmpty)
    }

    @Test(
        "of what was written, the octets that did not leave tell which heads did",
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

    @Test("content that did not leave says nothing of the head that did")
    func unsentContent() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.sendRequest(.post, content: true)
        let bytes = Array("hello".utf8)
        _ = stream.sendContent(bytes.span)
        _ = peer.frames()
        peer.session.close(unsent: 9 + 5)
        #expect(peer.record.events(of: 1) == [failure(.disconnected), "ended"])
    }

    @Test("a head whose last frame was not written was not sent")
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

    @Test("a response that has come whole is delivered whole, though the connection is gone")
    func lingering() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.sendRequest()
        peer.record.appetite = 1
        peer.send(.response(1), .data(1, "abc"), .headers(1, [("x", "y")]))
        #expect(peer.record.events == ["1 200 chunked"])
        // The server has its stream back, we have not.
        #expect(peer.session.openStreams == 1)
        peer.send(.goAway(last: 1))
        peer.session.close()
        peer.session.settle()
        #expect(peer.session.openStreams == 1)
        peer.record.appetite = .max
        stream.contentWanted()
        #expect(peer.record.events(of: 1) == ["200 chunked", #"trailers ["x: y"]"#, "end", "ended"])
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "abc")
        #expect(peer.session.openStreams == 0)
        peer.session.settle()
        #expect(peer.pool.outstanding == 0)
    }

    @Test("a fault of the connection is told to those whose response it cut off")
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

    @Test("each stream that was told something is settled once an event, and before it serves another request")
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
