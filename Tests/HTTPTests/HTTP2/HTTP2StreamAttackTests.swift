import EventLoop
import HTTP
import Testing

/// Streams that cost a client nothing. After a limited number the connection ends with GOAWAY and ENHANCE_YOUR_CALM,
/// and what the limits allow can continue for ever.
@Suite("HTTP/2 server: stream attacks")
struct HTTP2StreamAttackTests {
    private func id(_ round: Int) -> UInt32 { UInt32(2 * round + 1) }

    @Test("rapid reset ends the connection (CVE-2023-44487)")
    func rapidReset() {
        let peer = HTTP2Peer()
        #expect(peer.attack { [.get(id($0)), .reset(id($0))] } == 200)
        #expect(peer.record.streams.count == 1)
        peer.expectCalm(.resets)
    }

    @Test("rapid reset in one read begins no more requests than the burst")
    func rapidResetAtOnce() {
        let peer = HTTP2Peer()
        peer.send((0..<3000).flatMap { Frame.get(id($0)).bytes + Frame.reset(id($0)).bytes })
        #expect(peer.record.events.filter { $0.contains("GET") }.count == 201)
        peer.expectCalm(.resets)
    }

    @Test("rapid reset in pieces of any size gives the same result", arguments: [1, 7, 1000])
    func rapidResetInPieces(step: Int) {
        let bytes = (0..<300).flatMap { Frame.get(id($0)).bytes + Frame.reset(id($0)).bytes }
        let peer = HTTP2Peer()
        for start in stride(from: 0, to: bytes.count, by: step) {
            peer.send(Array(bytes[start..<min(start + step, bytes.count)]))
        }
        #expect(peer.record.events.filter { $0.contains("GET") }.count == 201)
        peer.expectCalm(.resets)
    }

    @Test("resets at the admitted rate are tolerated")
    func slowResets() {
        let peer = HTTP2Peer()
        let rounds = peer.attack(most: 1000) { round in
            peer.now = Instant(nanoseconds: Int64(round) * 50_000_000)
            return [.get(id(round)), .reset(id(round))]
        }
        #expect(rounds == 1000)
        #expect(peer.fault == nil)
    }

    @Test(
        "MadeYouReset ends the connection: resets that the client provokes (CVE-2025-8671)",
        arguments: [
            // A window beyond all limits; content beyond the stated length.
            [Frame.windowUpdate(1, 0x7fff_ffff)], [Frame.data(1, "too long")],
        ])
    func madeYouReset(_ provocation: [Frame]) {
        let peer = HTTP2Peer()
        peer.record.onFault = { $0.reset(.protocolError) }
        let rounds = peer.attack { round in
            [.post(id(round), [("content-length", "1")])]
                + provocation.map {
                    Frame(kind: $0.kind, flags: $0.flags, stream: id(round), payload: $0.payload)
                }
        }
        #expect(rounds == 40)
        peer.expectCalm(.provokedResets)
    }

    @Test("endless malformed requests end the connection")
    func malformed() {
        let peer = HTTP2Peer()
        peer.record.onFault = { $0.answer(400) }
        #expect(peer.attack { [.get(id($0), "//")] } == 40)
        peer.expectCalm(.provokedResets)
    }

    @Test("provoked resets that the client does not read end the connection")
    func unreadResets() {
        var limits = HTTP2Limits()
        limits.provokedResets = Rate(1_000_000, per: .seconds(1), burst: 1_000_000)
        limits.outboundFrames = 50
        let peer = HTTP2Peer(limits)
        peer.record.onFault = { $0.reset(.protocolError) }
        #expect(peer.attack(reads: false) { [.get(id($0), "//")] } <= 101)
        #expect(peer.fault != nil)
        #expect(peer.record.streams.count <= 100)
    }

    @Test("fields for closed streams are decoded and dropped, and too many end the connection")
    func lateFields() {
        let peer = HTTP2Peer()
        peer.record.onHead = { $0.reset(.cancel) }
        peer.send(.post(1))
        _ = peer.frames()
        let rounds = peer.attack { _ in [.headers(1, [("x", "y")])] }
        #expect(rounds <= 102)
        #expect(peer.fault != nil)
        #expect(peer.record.events == ["1 POST health.example / chunked", "1 ended"])
    }

    @Test(
        "a stream below one that has begun ends the connection (section 5.1.1)",
        arguments: [1, 3, 64])
    func lowerStream(places: UInt32) {
        let peer = HTTP2Peer()
        peer.send(.get(1), .get(131), .get(131 - 2 * places), .get(133))
        #expect(peer.record.events.filter { $0.contains("GET") }.map { $0.prefix { $0 != " " } } == ["1", "131"])
        #expect(peer.fault == .violation(.protocolError))
        #expect(peer.frames().last.map { $0.kind == .goAway && $0.number(at: 4) == 1 } == true)
    }

    @Test("fields for closed streams are skipped, in whatever order the streams began")
    func overStreams() {
        let peer = HTTP2Peer()
        peer.record.onHead = { $0.reset(.cancel) }
        let begun: [UInt32] = [1, 3, 9, 11, 17, 129, 135]
        for stream in begun { peer.send(.post(stream)) }
        _ = peer.frames()
        for stream in begun { peer.send(.headers(stream, [("x", "y")])) }
        // So far below that its state is forgotten.
        peer.send(.get(5))
        #expect(peer.fault == nil)
        #expect(peer.record.events.filter { $0.contains("/") }.count == begun.count)
    }

    @Test("streams above the limit are refused, then end the connection")
    func concurrency() {
        var limits = HTTP2Limits()
        limits.concurrentStreams = 10
        let peer = HTTP2Peer(limits)
        #expect(peer.attack { [.get(id($0))] } == 10)
        #expect(peer.fault == .violation(.protocolError))
        #expect(peer.record.streams.count == 10)
        // A client may not know the limit before it has acknowledged it.
        let early = HTTP2Peer(limits, greets: false)
        early.send(HTTP2Peer.preface + Frame.settings().bytes)
        early.send((0..<15).flatMap { Frame.get(id($0)).bytes })
        let resets = early.frames().filter { $0.kind == .reset }
        #expect(
            resets.map { $0.number() }
                == Array(repeating: HTTP2ErrorCode.refusedStream.rawValue, count: 5))
        #expect(early.record.streams.count == 10)
        #expect(early.fault == nil)
    }

    @Test("memory of a session is bounded, whatever the client leaves unfinished")
    func memory() {
        let peer = HTTP2Peer()
        peer.record.appetite = 0
        let content = String(repeating: "a", count: 16_000)
        for round in 0..<100 {
            peer.send(
                .post(id(round), [("x", String(repeating: "b", count: 10_000))]), .data(id(round), content))
            if peer.fault != nil { break }
            _ = peer.frames()
        }
        // A head for each stream, and the connection's window, of which each stream may hold a block it has just begun.
        #expect(peer.pool.outstanding <= 100 + 100 + 256 / 32)
    }
}
