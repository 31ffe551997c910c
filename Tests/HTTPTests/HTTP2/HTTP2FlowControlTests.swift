import Bytes
import HTTP
import Testing

@Suite("HTTP/2 server: flow control")
struct HTTP2FlowControlTests {
    private let content = String(repeating: "a", count: 16_000)

    private func limits(stream: Int = 32_000, connection: Int = 65_535) -> HTTP2Limits {
        var limits = HTTP2Limits()
        limits.streamWindow = stream
        limits.connectionWindow = connection
        return limits
    }

    private func returned(_ frames: [Frame], _ stream: UInt32) -> Int {
        frames.filter { $0.kind == .windowUpdate && $0.stream == stream }.map { Int($0.number()) }.reduce(0, +)
    }

    @Test("the settings announce the limits")
    func settings() throws {
        var limits = self.limits(stream: 20_000, connection: 100_000)
        limits.concurrentStreams = 7
        limits.extendedConnect = true
        let frames = HTTP2Peer(limits, greets: false).frames()
        let settings = try #require(frames.first { $0.kind == .settings }).payload
        let entries = stride(from: 0, to: settings.count, by: 6).map { start in
            [Int(settings[start + 1])] + [settings[(start + 2)..<(start + 6)].reduce(0) { $0 << 8 | Int($1) }]
        }
        #expect(entries == [[3, 7], [4, 20_000], [6, 16_384], [1, 4096], [9, 1], [8, 1]])
        #expect(returned(frames, 0) == 100_000 - 65_535)
    }

    @Test("consumed content opens the windows again")
    func taken() {
        let peer = HTTP2Peer(limits())
        peer.send(.post(1))
        for _ in 0..<20 {
            peer.send(.data(1, content))
            let frames = peer.frames()
            #expect(returned(frames, 1) <= 32_000)
        }
        #expect(peer.record.content.count == 20 * 16_000)
        #expect(peer.fault == nil)
    }

    @Test("unread content keeps the windows closed and waits within them")
    func notTaken() {
        let peer = HTTP2Peer(limits())
        peer.record.appetite = 10
        peer.send(.post(1), .data(1, content), .data(1, content))
        #expect(peer.frames().filter { $0.kind == .windowUpdate }.isEmpty)
        #expect(peer.record.content.count == 10)
        // The window is used up: more is an error of the client's, and of this stream alone.
        peer.send(.data(1, "x"))
        let reset = peer.frames().filter { $0.stream == 1 }
        #expect(reset.map(\.kind) == [.reset])
        #expect(reset.first?.number() == HTTP2ErrorCode.flowControlError.rawValue)
        #expect(peer.record.events.suffix(2) == ["1 abandoned flowControlError", "1 ended"])
    }

    @Test("waiting content is delivered in order when wanted, then the end")
    func resumed() {
        let peer = HTTP2Peer(limits())
        peer.record.appetite = 0
        peer.send(.post(1), .data(1, "abc"), .data(1, "defg", end: true))
        #expect(peer.record.events == ["1 POST health.example / chunked"])
        for (appetite, expected) in [(2, "ab"), (3, "abcde"), (0, "abcde"), (9, "abcdefg")] {
            peer.record.appetite = appetite
            peer.record.streams[0].contentWanted()
            #expect(String(decoding: peer.record.content, as: UTF8.self) == expected)
            #expect(peer.record.events.contains("1 end") == (expected.count == 7))
        }
    }

    @Test(
        "a request disregarded while its content arrives: these bytes stay valid, and nothing follows them",
        arguments: [false, true], [0, 100, Int.max])
    func disregardedWithin(hasWaited: Bool, appetite: Int) {
        let peer = HTTP2Peer(limits())
        for round in 0..<20 {
            let id = UInt32(2 * round + 1)
            peer.record.content = []
            peer.record.appetite = hasWaited ? 0 : appetite
            let disregard: (RecordingStream) -> Void = { stream in
                stream.disregardRequest()
                // A block that was given back would belong to this buffer, and change.
                var buffer = ByteBuffer(pool: peer.pool)
                buffer.append([UInt8](repeating: 0, count: 16_000))
            }
            peer.record.onContent = hasWaited ? nil : disregard
            peer.send(.post(id), .data(id, content))
            peer.record.onContent = disregard
            peer.record.appetite = appetite
            peer.record.streams[0].contentWanted()
            peer.send(.data(id, content))
            #expect(peer.record.content == Array(content.utf8.prefix(appetite)))
            peer.send(.data(id, end: true))
            peer.record.streams[0].contentWanted()
            peer.record.streams[0].answer(413)
            _ = peer.frames()
            #expect(peer.pool.outstanding == 0)
        }
        #expect(peer.record.events.filter { $0.hasSuffix("end") }.isEmpty)
        #expect(peer.session.openStreams == 0)
        #expect(peer.fault == nil)
    }

    @Test("windows are returned for exactly the consumed bytes")
    func exact() {
        let peer = HTTP2Peer(limits())
        peer.record.appetite = 0
        peer.send(.post(1), .data(1, content), .data(1, content))
        peer.record.appetite = 15_999
        peer.record.streams[0].contentWanted()
        // nghttp2 returns credit from half a window on.
        #expect(returned(peer.frames(), 1) == 0)
        peer.record.appetite = 1
        peer.record.streams[0].contentWanted()
        #expect(returned(peer.frames(), 1) == 16_000)
    }

    @Test("a stream that ends with unread content returns the connection's window")
    func connectionWindow() {
        let peer = HTTP2Peer(limits())
        peer.record.appetite = 0
        for round in 0..<40 {
            let id = UInt32(2 * round + 1)
            peer.send(.post(id), .data(id, content), .data(id, content), .reset(id))
            _ = peer.frames()
        }
        #expect(peer.fault == nil)
        #expect(peer.pool.outstanding == 0)
    }

    @Test("content of a malformed request or reset stream does not consume the connection's window")
    func dropped() {
        let peer = HTTP2Peer(limits())
        peer.send(.headers(1, HPACK.request("POST", "//"), end: false))
        var back = 0
        for _ in 0..<2 {
            peer.send(.data(1, content))
            back += returned(peer.frames(), 0)
        }
        peer.send(.post(3), .reset(3))
        for _ in 0..<8 {
            peer.send(.data(3, content))
            back += returned(peer.frames(), 0)
        }
        #expect(back >= 10 * 16_000 - 65_535 / 2)
        #expect(peer.fault == nil)
        #expect(peer.record.content.isEmpty)
    }

    @Test("the connection's window bounds the waiting content of all streams")
    func bounded() {
        let peer = HTTP2Peer(limits(stream: 32_000, connection: 65_535))
        peer.record.appetite = 0
        var sent = 0
        for round in 0..<10 where peer.fault == nil {
            let id = UInt32(2 * round + 1)
            peer.send(.post(id), .data(id, content))
            sent += 16_000
            _ = peer.frames()
        }
        #expect(peer.fault == .violation(.flowControlError))
        #expect(sent <= 65_535 + 16_000)
    }

    @Test("padding returns its window at once")
    func padding() {
        let peer = HTTP2Peer(limits())
        peer.record.appetite = 0
        peer.send(.post(1))
        for _ in 0..<50 {
            peer.send(
                Frame(
                    kind: .data, flags: Frame.padded, stream: 1,
                    payload: [255, 0x61] + [UInt8](repeating: 0, count: 255)))
            _ = peer.frames()
        }
        peer.record.appetite = .max
        peer.record.streams[0].contentWanted()
        #expect(peer.record.content.count == 50)
        for _ in 0..<500 {
            peer.send(
                Frame(
                    kind: .data, flags: Frame.padded, stream: 1,
                    payload: [255, 0x61] + [UInt8](repeating: 0, count: 255)))
            _ = peer.frames()
        }
        #expect(peer.fault == nil)
    }
}
