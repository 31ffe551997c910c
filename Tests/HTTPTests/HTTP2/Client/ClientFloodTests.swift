import EventLoop
import HTTP
import Testing

/// Cheap frames, each counted: a compromised server is no better than a client.
@Suite("HTTP/2 client: floods")
struct ClientFloodTests {
    /// Sends the frames of `made` until the connection ends.
    ///
    /// - Returns: the number of repetitions.
    private func attack(
        _ peer: HTTP2ClientPeer, most: Int = 5000, reads: Bool = true, _ made: (Int) -> [Frame]
    ) -> Int {
        for round in 0..<most {
            peer.send(made(round).flatMap(\.bytes))
            if peer.fault == nil, reads { _ = peer.frames() }
            if peer.fault != nil { return round }
        }
        return most
    }

    /// Expects the end of a connection for `excess`: one GOAWAY, no further reads, no memory held, and failed requests.
    private func expectCalm(_ peer: HTTP2ClientPeer, _ excess: HTTP2Excess, open: Bool = true) {
        #expect(peer.fault == .excess(excess))
        _ = peer.frames()
        #expect(peer.goAways == [HTTP2ErrorCode.enhanceYourCalm.rawValue])
        #expect(peer.session.isFinished)
        #expect(peer.session.capacity == 0)
        let events = peer.record.events
        peer.send(.response(1))
        #expect(peer.record.events == events)
        peer.session.close()
        peer.session.finishEvent()
        let failure = "1 failed \(HTTP2StreamFailure.connectionFaulted(.excess(excess)))"
        #expect(peer.record.events.contains(failure) == open)
        #expect(peer.session.openStreams == 0)
        #expect(peer.pool.outstanding == 0)
    }

    private func peer(content: Bool = false) throws -> HTTP2ClientPeer {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest(content ? .post : .get, content: content)
        return peer
    }

    @Test("a flood of PING ends the connection", arguments: [true, false])
    func pings(reads: Bool) throws {
        let peer = try peer()
        // One more than the rate, because of the request's credit.
        #expect(attack(peer, reads: reads) { _ in [.ping] } == 101)
        expectCalm(peer, .pings)
    }

    @Test("a PING for each DATA frame, as gRPC servers send to measure delay, is no flood")
    func entitledPings() throws {
        let peer = try peer(content: true)
        for _ in 0..<1000 {
            let bytes = [UInt8](repeating: 1, count: 10)
            _ = peer.record.streams[0].sendContent(bytes.span)
            #expect(peer.frames().contains { $0.kind == .data })
            peer.send(.ping, .windowUpdate(1, 10), .windowUpdate(0, 10))
        }
        #expect(peer.fault == nil)
    }

    @Test("a flood of SETTINGS ends the connection")
    func settings() throws {
        let peer = try peer()
        // Two were the greeting.
        #expect(attack(peer) { _ in [.settings()] } == 18)
        expectCalm(peer, .settings)
    }

    @Test("SETTINGS with many entries end the connection")
    func settingsEntries() throws {
        let peer = try peer()
        peer.send(.settings(Array(repeating: (4, 65_535), count: 33)))
        _ = peer.frames()
        #expect(peer.fault == .violation(.enhanceYourCalm))
    }

    @Test("acknowledgements that the server does not read end the connection")
    func acknowledgements() throws {
        var limits = HTTP2Limits.client()
        limits.pings = Rate(1_000_000, per: .seconds(1), burst: 1_000_000)
        limits.outboundFrames = 50
        let peer = HTTP2ClientPeer(limits)
        let rounds = attack(peer, reads: false) { _ in [.ping] }
        #expect((50...52).contains(rounds))
        #expect(peer.fault == .excess(.outboundFrames))
    }

    @Test("a flood of empty DATA, with and without padding, ends the connection", arguments: [0, 9])
    func emptyData(padding: Int) throws {
        let peer = try peer()
        peer.send(.response(1))
        let frame =
            padding == 0
            ? Frame.data(1)
            : Frame(
                kind: .data, flags: Frame.padded, stream: 1,
                payload: [UInt8(padding)] + [UInt8](repeating: 0, count: padding))
        #expect(attack(peer) { _ in [frame] } == 100)
        expectCalm(peer, .emptyFrames)
    }

    @Test("a flood of RST_STREAM above the number of streams ends the connection")
    func resets() throws {
        let peer = try peer()
        #expect(attack(peer) { _ in [.reset(1)] } == 201)
        #expect(peer.record.events.contains("1 failed \(HTTP2StreamFailure.reset(.cancel))"))
        expectCalm(peer, .resets, open: false)
    }

    @Test("a server may reset every request: each was ours to send")
    func entitledResets() throws {
        let peer = HTTP2ClientPeer()
        for round in 0..<1000 {
            _ = try peer.sendRequest()
            peer.send(.reset(UInt32(2 * round + 1), HTTP2ErrorCode.refusedStream.rawValue))
        }
        #expect(peer.fault == nil)
        #expect(peer.session.capacity == 100)
    }

    @Test("a flood of malformed responses costs one reset for each request")
    func provoked() throws {
        let peer = HTTP2ClientPeer()
        for round in 0..<1000 {
            let id = UInt32(2 * round + 1)
            _ = try peer.sendRequest()
            peer.send(.response(id, "200", [("X", "y")]))
            #expect(peer.frames().map(\.kind) == [.reset])
        }
        #expect(peer.fault == nil)
        #expect(peer.record.streams.count == 1)
    }

    @Test("a flood of heads for closed streams ends the connection")
    func lateHeads() throws {
        let peer = try peer()
        peer.send(.response(1, end: true))
        // The credit of one request beyond the one head, and the rate.
        #expect(attack(peer) { _ in [.response(1)] } == 17 + 100)
        expectCalm(peer, .emptyFrames, open: false)
    }

    @Test("every stream may have all the admitted interim responses and trailers")
    func entitledHeads() throws {
        let peer = HTTP2ClientPeer()
        for round in 0..<100 {
            let id = UInt32(2 * round + 1)
            _ = try peer.sendRequest()
            for _ in 0..<16 { peer.send(.response(id, "103")) }
            peer.send(.response(id), .headers(id, [("x", "y")]))
        }
        #expect(peer.fault == nil)
        #expect(peer.record.events.filter { $0.hasSuffix(" end") }.count == 100)
    }

    @Test(
        "a server may answer or reset each cancelled request",
        arguments: [true, false])
    func lateAnswers(resets: Bool) throws {
        let peer = HTTP2ClientPeer()
        for _ in 0..<2000 {
            let stream = try peer.sendRequest()
            stream.reset(.cancel)
            _ = peer.frames()
            peer.session.finishEvent()
        }
        for round in 0..<2000 {
            let id = UInt32(2 * round + 1)
            if resets { peer.send(.reset(id)) } else { peer.send(.response(id), .headers(id, [("x", "y")])) }
        }
        #expect(peer.fault == nil)
        // And not without end.
        #expect(attack(peer, most: 50_000) { _ in [resets ? .reset(1) : .response(1)] } < 50_000)
    }

    @Test("a flood of PRIORITY ends the connection")
    func priorities() throws {
        let peer = try peer()
        #expect(attack(peer) { _ in [Frame(kind: .priority, stream: 1, payload: Frame.octets(0) + [1])] } == 200)
        expectCalm(peer, .priorities)
    }

    @Test("a flood of WINDOW_UPDATE ends the connection", arguments: [UInt32(0), 1])
    func windowUpdates(stream: UInt32) throws {
        let peer = try peer(content: true)
        // The request grants eight.
        #expect(attack(peer) { _ in [.windowUpdate(stream, 1)] } == 508)
        expectCalm(peer, .windowUpdates)
    }

    @Test("a flood of frames of unknown types ends the connection")
    func unknownFrames() throws {
        let peer = try peer()
        #expect(attack(peer) { _ in [Frame(kind: .unknown, payload: [1])] } == 100)
        expectCalm(peer, .otherFrames)
    }

    @Test("a flood of GOAWAY ends the connection")
    func goAways() throws {
        let peer = try peer()
        #expect(attack(peer) { _ in [.goAway(last: 1)] } == 100)
        expectCalm(peer, .otherFrames)
    }

    @Test("a flood of CONTINUATION, empty or full, ends the connection (CVE-2024-28182)", arguments: [0, 1, 12_000])
    func continuations(size: Int) throws {
        let peer = try peer()
        peer.send(Frame(kind: .headers, stream: 1, payload: HPACK.literals([(":status", "200")])))
        let piece = HPACK.literals([("x", String(repeating: "a", count: size))])
        let rounds = attack(peer) { _ in [Frame(kind: .continuation, stream: 1, payload: size == 0 ? [] : piece)] }
        #expect(rounds <= 8)
        #expect(peer.record.events.isEmpty)
        expectCalm(peer, size == 12_000 ? .headerBlock : .continuations)
    }

    @Test("an HPACK bomb of bytes that each decode to a large field ends the connection", arguments: [true, false])
    func bomb(isWanted: Bool) throws {
        let peer = try peer()
        peer.send(.response(1))
        if !isWanted { peer.record.streams[0].reset(.cancel) }
        // One field of 4,000 bytes for the table, then 60 references to it, of one byte each.
        let bomb =
            [0x40] + HPACK.string("x") + HPACK.string(String(repeating: "a", count: 4000))
            + [UInt8](repeating: 0xbe, count: 60)
        peer.send(Frame(kind: .headers, flags: Frame.endHeaders | Frame.endStream, stream: 1, payload: bomb))
        if isWanted {
            expectCalm(peer, .headerList)
        } else {
            // nghttp2 decodes it, without keeping any of it.
            #expect(peer.fault == nil)
        }
    }

    @Test("a push is refused, even before our settings are acknowledged", arguments: [true, false])
    func push(isAcknowledged: Bool) throws {
        let peer = HTTP2ClientPeer(greets: isAcknowledged)
        _ = try peer.sendRequest()
        if !isAcknowledged { peer.send(.settings()) }
        peer.send(
            Frame(
                kind: .pushPromise, flags: Frame.endHeaders, stream: 1,
                payload: Frame.octets(2) + HPACK.literals(HPACK.request("GET", "/pushed"))))
        #expect(peer.fault == .violation(.protocolError))
        #expect(peer.session.openStreams == 1)
        _ = peer.frames()
        #expect(peer.goAways == [HTTP2ErrorCode.protocolError.rawValue])
    }
}
