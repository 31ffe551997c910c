import EventLoop
import HTTP
import Testing

/// Cheap frames, each counted.
@Suite("HTTP/2 server: floods")
struct HTTP2FloodTests {
    private func id(_ round: Int) -> UInt32 { UInt32(2 * round + 1) }

    @Test("a flood of PING ends the connection", arguments: [true, false])
    func pings(reads: Bool) {
        let peer = HTTP2Peer()
        #expect(peer.attack(reads: reads) { _ in [.ping] } == 100)
        peer.expectCalm(.pings)
    }

    @Test("a flood of SETTINGS ends the connection")
    func settings() {
        let peer = HTTP2Peer()
        // Two were the greeting.
        #expect(peer.attack { _ in [.settings()] } == 18)
        peer.expectCalm(.settings)
    }

    @Test("SETTINGS with many entries end the connection")
    func settingsEntries() {
        let peer = HTTP2Peer()
        peer.send(.settings(Array(repeating: (4, 65_535), count: 32)))
        #expect(peer.fault == nil)
        peer.send(.settings(Array(repeating: (4, 65_535), count: 33)))
        _ = peer.frames()
        #expect(peer.fault == .violation(.enhanceYourCalm))
    }

    @Test("acknowledgements that the client does not read end the connection")
    func acknowledgements() {
        var limits = HTTP2Limits()
        limits.pings = Rate(1_000_000, per: .seconds(1), burst: 1_000_000)
        limits.outboundFrames = 50
        let peer = HTTP2Peer(limits)
        let rounds = peer.attack(reads: false) { _ in [.ping] }
        #expect((50...52).contains(rounds))
        #expect(peer.fault == .excess(.outboundFrames))
    }

    @Test("a flood of empty DATA, with and without padding, ends the connection", arguments: [0, 9])
    func emptyData(padding: Int) {
        let peer = HTTP2Peer()
        peer.send(.post(1))
        let frame =
            padding == 0
            ? Frame.data(1)
            : Frame(
                kind: .data, flags: Frame.padded, stream: 1,
                payload: [UInt8(padding)] + [UInt8](repeating: 0, count: padding))
        #expect(peer.attack { _ in [frame] } == 100)
        peer.expectCalm(.emptyFrames)
    }

    /// The frames of a request that may be in flight when it is answered, which cost the client nothing.
    private static let late = 64

    @Test(
        "a flood of DATA on a closed stream ends the connection", arguments: [true, false],
        [
            Frame(kind: .data, flags: Frame.padded, stream: 1, payload: [0]), .data(1, "x"), .data(1, end: true),
        ])
    func lateData(together: Bool, _ frame: Frame) {
        let peer = HTTP2Peer()
        peer.send(.post(1), .reset(1))
        if together {
            peer.send([Frame](repeating: frame, count: Self.late + 100).flatMap(\.bytes))
            #expect(peer.fault == nil)
            peer.send(frame)
        } else {
            // Frames are cut in two: none of them counts before it is complete, and each counts once.
            for _ in 0..<(Self.late + 100) {
                peer.send(Array(frame.bytes.prefix(9)))
                peer.send(Array(frame.bytes.dropFirst(9)))
            }
            #expect(peer.fault == nil)
            peer.send(frame)
        }
        peer.expectCalm(.emptyFrames)
    }

    @Test("empty DATA on a closed stream counts like any other")
    func lateEmptyData() {
        let peer = HTTP2Peer()
        peer.send(.post(1), .reset(1))
        #expect(peer.attack { _ in [.data(1)] } == 100)
        peer.expectCalm(.emptyFrames)
    }

    @Test("DATA of an open stream may come byte by byte")
    func smallData() {
        let peer = HTTP2Peer()
        peer.send(.post(1))
        for _ in 0..<1000 {
            peer.send(.data(1, "x"))
            _ = peer.frames()
        }
        #expect(peer.fault == nil)
        #expect(peer.record.content.count == 1000)
    }

    @Test("DATA still arriving for refused uploads is no flood")
    func refusedUploads() {
        let peer = HTTP2Peer()
        peer.record.onHead = { $0.answer(403, "no") }
        let half = String(repeating: "a", count: 512)
        for round in 0..<50 {
            let id = id(round)
            peer.send(.post(id))
            _ = peer.frames()
            peer.send((0..<64).flatMap { _ in Frame.data(id, half).bytes })
            _ = peer.frames()
        }
        #expect(peer.fault == nil)
    }

    @Test(
        "requests waiting for their end are limited, and too many end the connection")
    func heldRequests() {
        let peer = HTTP2Peer()
        for round in 0..<16 { peer.send(.post(id(round), [("content-length", "0")])) }
        #expect(peer.frames().isEmpty)
        for round in 16..<56 {
            peer.send(.post(id(round), [("content-length", "0")]))
            #expect(peer.frames().map { [$0.number(), $0.stream] } == [[7, id(round)]])
        }
        #expect(peer.record.events.allSatisfy { $0.hasSuffix("ended") })
        #expect(peer.fault == nil)
        peer.send(.post(id(56), [("content-length", "0")]))
        peer.expectCalm(.provokedResets)
    }

    @Test("requests whose ends follow right after their heads are not limited")
    func endsBehindHeads() {
        let peer = HTTP2Peer()
        let heads = (0..<100).flatMap { Frame.post(id($0), [("content-length", "0")]).bytes }
        peer.send(heads + (0..<100).flatMap { Frame.data(id($0), end: true).bytes })
        #expect(peer.record.events.count == 200)
        #expect(peer.frames().isEmpty)
    }

    @Test("a flood of PRIORITY ends the connection")
    func priorities() {
        let peer = HTTP2Peer()
        let rounds = peer.attack {
            [Frame(kind: .priority, stream: id($0), payload: Frame.octets(0) + [1])]
        }
        #expect(rounds == 200)
        #expect(peer.session.openStreams == 0)
        peer.expectCalm(.priorities)
    }

    @Test("a flood of WINDOW_UPDATE ends the connection", arguments: [UInt32(0), 1])
    func windowUpdates(stream: UInt32) {
        let peer = HTTP2Peer()
        peer.send(.post(1))
        #expect(peer.attack { _ in [.windowUpdate(stream, 1)] } == 500)
        peer.expectCalm(.windowUpdates)
    }

    @Test("a client may update its window for every byte of a large response")
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

    @Test("a flood of frames of unknown types ends the connection")
    func unknownFrames() {
        let peer = HTTP2Peer()
        #expect(peer.attack { _ in [Frame(kind: .unknown, payload: [1])] } == 100)
        peer.expectCalm(.otherFrames)
    }
}
