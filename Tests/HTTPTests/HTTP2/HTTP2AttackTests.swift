import EventLoop
import HTTP
import Testing

/// Each known way to make a server of HTTP/2 work or remember for nothing: after a bounded count the connection ends with
/// GOAWAY and ENHANCE_YOUR_CALM, and what the limits let through goes on for ever.
@Suite("Attacks on HTTP/2")
struct HTTP2AttackTests {
    /// Sends what `frames` makes until the connection ends. - Returns: how often it did so.
    private func attack(
        _ peer: HTTP2Peer, most: Int = 5000, reads: Bool = true, _ frames: (Int) -> [Frame]
    ) -> Int {
        for round in 0..<most {
            peer.send(frames(round).flatMap(\.bytes))
            if peer.fault == nil, reads { _ = peer.frames() }
            if peer.fault != nil { return round }
        }
        return most
    }

    private func expectCalm(_ peer: HTTP2Peer, _ excess: HTTP2Excess) {
        #expect(peer.fault == .excess(excess))
        _ = peer.frames()
        #expect(peer.goAways == [HTTP2ErrorCode.enhanceYourCalm.rawValue])
        #expect(peer.session.isFinished)
        // Nothing is read after it.
        let events = peer.record.events
        peer.send(.get(0x7fff_fff1))
        #expect(peer.record.events == events)
        peer.session.close()
        #expect(peer.session.openStreams == 0)
        #expect(peer.pool.outstanding == 0)
    }

    private func id(_ round: Int) -> UInt32 { UInt32(2 * round + 1) }

    @Test("rapid reset (CVE-2023-44487): streams that the client resets before they are answered")
    func rapidReset() {
        let peer = HTTP2Peer()
        #expect(attack(peer) { [.get(id($0)), .reset(id($0))] } == 200)
        #expect(peer.record.streams.count == 1)
        expectCalm(peer, .resets)
    }

    @Test("rapid reset in one read: no more requests are begun than the burst")
    func rapidResetAtOnce() {
        let peer = HTTP2Peer()
        peer.send((0..<3000).flatMap { Frame.get(id($0)).bytes + Frame.reset(id($0)).bytes })
        #expect(peer.record.events.filter { $0.contains("GET") }.count == 201)
        expectCalm(peer, .resets)
    }

    @Test("resets at the admitted rate are a client that changes its mind")
    func slowResets() {
        let peer = HTTP2Peer()
        let rounds = attack(peer, most: 1000) { round in
            peer.now = Instant(nanoseconds: Int64(round) * 50_000_000)
            return [.get(id(round)), .reset(id(round))]
        }
        #expect(rounds == 1000)
        #expect(peer.fault == nil)
    }

    @Test(
        "made you reset (CVE-2025-8671): streams that the client makes us reset",
        arguments: [
            // A window beyond all bounds; content beyond what was stated.
            [Frame.windowUpdate(1, 0x7fff_ffff)], [Frame.data(1, "too long")],
        ])
    func madeYouReset(_ provocation: [Frame]) {
        let peer = HTTP2Peer()
        peer.record.onFault = { $0.reset(.protocolError) }
        let rounds = attack(peer) { round in
            [.post(id(round), [("content-length", "1")])]
                + provocation.map { Frame(kind: $0.kind, flags: $0.flags, stream: id(round), payload: $0.payload) }
        }
        #expect(rounds == 40)
        expectCalm(peer, .provokedResets)
    }

    @Test("malformed requests without end")
    func malformed() {
        let peer = HTTP2Peer()
        peer.record.onFault = { $0.answer(400) }
        #expect(attack(peer) { [.get(id($0), "//")] } == 40)
        expectCalm(peer, .provokedResets)
    }

    @Test("a flood of PING", arguments: [true, false])
    func pings(reads: Bool) {
        let peer = HTTP2Peer()
        #expect(attack(peer, reads: reads) { _ in [.ping] } == 100)
        expectCalm(peer, .pings)
    }

    @Test("a flood of SETTINGS")
    func settings() {
        let peer = HTTP2Peer()
        // Two were the greeting.
        #expect(attack(peer) { _ in [.settings()] } == 18)
        expectCalm(peer, .settings)
    }

    @Test("SETTINGS of many entries")
    func settingsEntries() {
        let peer = HTTP2Peer()
        peer.send(.settings(Array(repeating: (4, 65_535), count: 32)))
        #expect(peer.fault == nil)
        peer.send(.settings(Array(repeating: (4, 65_535), count: 33)))
        _ = peer.frames()
        #expect(peer.fault == .violation(.enhanceYourCalm))
    }

    @Test("acknowledgements that the client does not read")
    func acknowledgements() {
        var limits = HTTP2Limits()
        limits.pings = Rate(1_000_000, per: .seconds(1), burst: 1_000_000)
        limits.outboundFrames = 50
        let peer = HTTP2Peer(limits)
        let rounds = attack(peer, reads: false) { _ in [.ping] }
        #expect((50...52).contains(rounds))
        #expect(peer.fault == .excess(.outboundFrames))
    }

    @Test("resets that the client provokes and does not read")
    func unreadResets() {
        var limits = HTTP2Limits()
        limits.provokedResets = Rate(1_000_000, per: .seconds(1), burst: 1_000_000)
        limits.outboundFrames = 50
        let peer = HTTP2Peer(limits)
        peer.record.onFault = { $0.reset(.protocolError) }
        #expect(attack(peer, reads: false) { [.get(id($0), "//")] } <= 101)
        #expect(peer.fault != nil)
        #expect(peer.record.streams.count <= 100)
    }

    @Test("a flood of DATA without content, with and without padding", arguments: [0, 9])
    func emptyData(padding: Int) {
        let peer = HTTP2Peer()
        peer.send(.post(1))
        let frame =
            padding == 0
            ? Frame.data(1)
            : Frame(
                kind: .data, flags: Frame.padded, stream: 1,
                payload: [UInt8(padding)] + [UInt8](repeating: 0, count: padding))
        #expect(attack(peer) { _ in [frame] } == 100)
        expectCalm(peer, .emptyFrames)
    }

    @Test("a flood of CONTINUATION (CVE-2024-28182), empty ones and full ones", arguments: [0, 1, 12_000])
    func continuations(size: Int) {
        let peer = HTTP2Peer()
        peer.send(Frame(kind: .headers, stream: 1, payload: HPACK.literals(HPACK.request("GET", "/"))))
        let piece = HPACK.literals([("x", String(repeating: "a", count: size))])
        let rounds = attack(peer) { _ in
            [Frame(kind: .continuation, stream: 1, payload: size == 0 ? [] : piece)]
        }
        #expect(rounds <= 8)
        #expect(peer.record.events.isEmpty)
        expectCalm(peer, size == 12_000 ? .headerBlock : .continuations)
    }

    @Test("a header block larger than any head that is admitted")
    func headerBlock() {
        var limits = HTTP2Limits()
        limits.headerBlock = 20_000
        let peer = HTTP2Peer(limits)
        peer.send(
            Frame(kind: .headers, stream: 1, payload: HPACK.literals([("x", String(repeating: "a", count: 16_000))])),
            Frame(
                kind: .continuation, stream: 1, payload: HPACK.literals([("x", String(repeating: "a", count: 4_000))])))
        expectCalm(peer, .headerBlock)
    }

    @Test("an HPACK bomb: octets that each decode to a large field")
    func bomb() {
        let peer = HTTP2Peer()
        // One field of 4,000 octets into the table, then 60 references to it, of one octet each.
        let bomb =
            HPACK.literals(HPACK.request("GET", "/")) + [0x40] + HPACK.string("x")
            + HPACK.string(String(repeating: "a", count: 4000)) + [UInt8](repeating: 0xbe, count: 60)
        peer.send(Frame(kind: .headers, flags: Frame.endHeaders | Frame.endStream, stream: 1, payload: bomb))
        #expect(peer.record.events.isEmpty)
        expectCalm(peer, .headerList)
    }

    @Test("a dynamic table beyond what we offered")
    func table() {
        let peer = HTTP2Peer()
        let payload = HPACK.integer(65_536, prefix: 5, pattern: 0x20) + HPACK.literals(HPACK.request("GET", "/"))
        peer.send(Frame(kind: .headers, flags: Frame.endHeaders | Frame.endStream, stream: 1, payload: payload))
        _ = peer.frames()
        #expect(peer.fault == .violation(.compressionError))
    }

    @Test("a flood of PRIORITY")
    func priorities() {
        let peer = HTTP2Peer()
        let rounds = attack(peer) {
            [Frame(kind: .priority, stream: id($0), payload: Frame.octets(0) + [1])]
        }
        #expect(rounds == 200)
        #expect(peer.session.openStreams == 0)
        expectCalm(peer, .priorities)
    }

    @Test("a flood of WINDOW_UPDATE", arguments: [UInt32(0), 1])
    func windowUpdates(stream: UInt32) {
        let peer = HTTP2Peer()
        peer.send(.post(1))
        #expect(attack(peer) { _ in [.windowUpdate(stream, 1)] } == 500)
        expectCalm(peer, .windowUpdates)
    }

    @Test("a client that takes a large response octet by octet may give back its window as often")
    func entitledWindowUpdates() {
        let peer = HTTP2Peer()
        peer.record.onEnd = { $0.answer(200, String(repeating: "a", count: 3000)) }
        peer.send(.settings([(4, 1)]), .get(1))
        var taken = 0
        for _ in 0..<3000 {
            taken += peer.frames().filter { $0.kind == .data }.map(\.payload.count).reduce(0, +)
            peer.send(.windowUpdate(1, 1))
        }
        #expect(taken == 3000)
        #expect(peer.fault == nil)
    }

    @Test("a flood of frames of unknown types")
    func unknownFrames() {
        let peer = HTTP2Peer()
        #expect(attack(peer) { _ in [Frame(kind: .unknown, payload: [1])] } == 100)
        expectCalm(peer, .otherFrames)
    }

    @Test("fields for streams that are gone: each is decoded, and leads to nothing")
    func lateFields() {
        let peer = HTTP2Peer()
        peer.record.onHead = { $0.reset(.cancel) }
        peer.send(.post(1))
        _ = peer.frames()
        let rounds = attack(peer) { _ in [.headers(1, [("x", "y")])] }
        #expect(rounds <= 102)
        #expect(peer.fault != nil)
        #expect(peer.record.events == ["1 POST health.example / chunked", "1 ended"])
    }

    @Test("a stream below one that was begun is not served (section 5.1.1)")
    func lowerStream() {
        let peer = HTTP2Peer()
        peer.send(.get(5), .get(3), .get(7))
        #expect(peer.record.events.filter { $0.contains("GET") }.map { $0.prefix(1) } == ["5", "7"])
    }

    @Test("more streams at once than are admitted are refused, then an error")
    func concurrency() {
        var limits = HTTP2Limits()
        limits.concurrentStreams = 10
        let peer = HTTP2Peer(limits)
        #expect(attack(peer) { [.get(id($0))] } == 10)
        #expect(peer.fault == .violation(.protocolError))
        #expect(peer.record.streams.count == 10)
        // Before the client has acknowledged the limit it may not know of it.
        let early = HTTP2Peer(limits, greets: false)
        early.send(HTTP2Peer.preface + Frame.settings().bytes)
        early.send((0..<15).flatMap { Frame.get(id($0)).bytes })
        let resets = early.frames().filter { $0.kind == .reset }
        #expect(resets.map { $0.number() } == Array(repeating: HTTP2ErrorCode.refusedStream.rawValue, count: 5))
        #expect(early.record.streams.count == 10)
        #expect(early.fault == nil)
    }

    @Test("memory of a session is bounded, whatever clients leave lying about")
    func memory() {
        let peer = HTTP2Peer()
        peer.record.appetite = 0
        let content = String(repeating: "a", count: 16_000)
        for round in 0..<100 {
            peer.send(.post(id(round), [("x", String(repeating: "b", count: 10_000))]), .data(id(round), content))
            if peer.fault != nil { break }
            _ = peer.frames()
        }
        // A head for each stream, and the connection's window, of which each stream may hold a block it has just begun.
        #expect(peer.pool.outstanding <= 100 + 100 + 256 / 32)
    }
}
