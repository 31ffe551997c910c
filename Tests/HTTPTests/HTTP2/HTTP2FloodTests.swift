import EventLoop
import HTTP
import Testing

/// Frames that cost a client next to nothing, each counted.
@Suite("Floods of HTTP/2")
struct HTTP2FloodTests {
    private func id(_ round: Int) -> UInt32 { UInt32(2 * round + 1) }

    @Test("a flood of PING", arguments: [true, false])
    func pings(reads: Bool) {
        let peer = HTTP2Peer()
        #expect(peer.attack(reads: reads) { _ in [.ping] } == 100)
        peer.expectCalm(.pings)
    }

    @Test("a flood of SETTINGS")
    func settings() {
        let peer = HTTP2Peer()
        // Two were the greeting.
        #expect(peer.attack { _ in [.settings()] } == 18)
        peer.expectCalm(.settings)
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
        let rounds = peer.attack(reads: false) { _ in [.ping] }
        #expect((50...52).contains(rounds))
        #expect(peer.fault == .excess(.outboundFrames))
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
        #expect(peer.attack { _ in [frame] } == 100)
        peer.expectCalm(.emptyFrames)
    }

    @Test("a flood of PRIORITY")
    func priorities() {
        let peer = HTTP2Peer()
        let rounds = peer.attack {
            [Frame(kind: .priority, stream: id($0), payload: Frame.octets(0) + [1])]
        }
        #expect(rounds == 200)
        #expect(peer.session.openStreams == 0)
        peer.expectCalm(.priorities)
    }

    @Test("a flood of WINDOW_UPDATE", arguments: [UInt32(0), 1])
    func windowUpdates(stream: UInt32) {
        let peer = HTTP2Peer()
        peer.send(.post(1))
        #expect(peer.attack { _ in [.windowUpdate(stream, 1)] } == 500)
        peer.expectCalm(.windowUpdates)
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
        #expect(peer.attack { _ in [Frame(kind: .unknown, payload: [1])] } == 100)
        peer.expectCalm(.otherFrames)
    }
}
