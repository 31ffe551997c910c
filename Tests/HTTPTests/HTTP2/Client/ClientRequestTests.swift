import Bytes
import HTTP
import Testing

@Suite("HTTP/2 client: requests")
struct ClientRequestTests {
    @Test("a connection begins with the preface and settings that forbid push")
    func preface() throws {
        let peer = HTTP2ClientPeer(.client(concurrentStreams: 10, streamWindow: 20_000), greets: false)
        let frames = peer.frames()
        // The reader would find no frames behind another preface.
        let settings = try #require(frames.first { $0.kind == .settings }).payload
        let entries = stride(from: 0, to: settings.count, by: 6).map { start in
            [Int(settings[start + 1])] + [settings[(start + 2)..<(start + 6)].reduce(0) { $0 << 8 | Int($1) }]
        }
        #expect(entries == [[2, 0], [4, 20_000], [6, 16_384], [1, 4096], [9, 1]])
        #expect(frames.filter { $0.kind == .windowUpdate }.map { Int($0.number()) } == [200_000 - 65_535])
    }

    @Test("a head becomes lower-case fields without Host and hop-by-hop fields")
    func head() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.ask(
            .delete, "/a?b=c",
            fields([
                ("Host", "other.example"), ("X-Empty", ""), ("Connection", "close"), ("Transfer-Encoding", "chunked"),
                ("Upgrade", "h2c"), ("HTTP2-Settings", "x"), ("TE", "gzip"), ("Accept", "*/*"),
            ]))
        let frames = peer.frames()
        #expect(frames.map(\.kind) == [.headers])
        #expect(frames[0].endsStream)
        #expect(frames[0].stream == 1)
        #expect(
            peer.reader.fields(frames[0]) == [
                ":method: DELETE", ":scheme: https", ":authority: health.example", ":path: /a?b=c", "x-empty: ",
                "accept: */*",
            ])
    }

    private func fields(_ fields: [(String, String)]) -> [(String, String)] { fields }

    @Test("TE is sent only as `trailers`")
    func trailersAdmitted() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.ask(.post, "/", [("TE", "trailers")])
        #expect(peer.reader.fields(peer.frames()[0]).last == "te: trailers")
    }

    @Test("client fields never enter the compression table (RFC 7541 section 7.1)")
    func uncompressed() throws {
        let peer = HTTP2ClientPeer()
        var lengths: Set<Int> = []
        for _ in 0..<3 {
            _ = try peer.ask(.get, "/secret/a", [("cookie", "session=1"), ("x-device", "12345678")])
            let frame = peer.frames()[0]
            _ = peer.reader.fields(frame)
            lengths.insert(frame.payload.count)
        }
        // Nothing becomes shorter by repetition.
        #expect(lengths.count == 1)
        #expect(peer.reader.tableSize == 0)
    }

    @Test("content is sent as it comes, then the end")
    func content() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.ask(.post, content: true)
        let head = peer.frames()
        #expect(head.map(\.kind) == [.headers])
        #expect(!head[0].endsStream)
        #expect(stream.isHeadSent && !stream.isRequestSent)
        for text in ["hel", "lo"] {
            let bytes = Array(text.utf8)
            #expect(stream.sendContent(bytes.span) == bytes.count)
            #expect(peer.frames() == [.data(1, text)])
        }
        stream.sendEnd()
        #expect(!stream.isRequestSent)
        #expect(peer.frames() == [.data(1, end: true)])
        #expect(stream.isRequestSent)
    }

    @Test("complete content is sent in one frame with the end")
    func contentAtOnce() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.ask(.post, content: true)
        let bytes = Array("hello".utf8)
        _ = stream.sendContent(bytes.span)
        stream.sendEnd()
        #expect(peer.frames().dropFirst() == [.data(1, "hello", end: true)])
    }

    @Test("content without a window waits, up to one block, and continues when there is one")
    func windows() throws {
        let peer = HTTP2ClientPeer()
        peer.send(.settings([(4, 10)]))
        let stream = try peer.ask(.post, content: true)
        let bytes = [UInt8](repeating: UInt8(ascii: "a"), count: 100_000)
        var sent = stream.sendContent(bytes.span)
        #expect(sent == peer.pool.blockSize)
        peer.record.onRoom = { sent += $0.sendContent(bytes.span.extracting(sent...)) }
        #expect(length(peer.frames()) == 10)
        #expect(stream.unframed == peer.pool.blockSize)
        peer.send(.windowUpdate(1, 5))
        #expect(length(peer.frames()) == 5)
        peer.send(.windowUpdate(1, 200_000), .windowUpdate(0, 200_000))
        #expect(length(peer.frames()) == 100_000 - 15)
        #expect(sent == 100_000)
    }

    private func length(_ frames: [Frame]) -> Int {
        frames.filter { $0.kind == .data }.map(\.payload.count).reduce(0, +)
    }

    @Test("at most 100 requests begin before the server's limit is known, then up to that limit")
    func capacity() throws {
        let peer = HTTP2ClientPeer(.client(concurrentStreams: 200), greets: false)
        #expect(peer.session.capacity == 100)
        #expect(!peer.session.isGreeted)
        for _ in 0..<100 { _ = try peer.ask() }
        #expect(throws: HTTP2OpenFailure.noRoom) { try peer.ask() }
        _ = peer.frames()
        peer.send(.settings([(3, 102)]))
        #expect(peer.session.isGreeted)
        #expect(peer.session.capacity == 2)
        peer.send(.settings([(3, 50)]))
        #expect(peer.session.capacity == 0)
        #expect(peer.session.mayOpen)
        for id in 0..<51 { peer.send(.response(UInt32(2 * id + 1), end: true)) }
        #expect(peer.session.capacity == 1)
        _ = try peer.ask()
        #expect(throws: HTTP2OpenFailure.noRoom) { try peer.ask() }
        peer.send(.settings([(3, 1000)]))
        // Our own limit.
        #expect(peer.session.capacity == 150)
        #expect(peer.handler.capacityChanges == 3 + 51 + 1 - 1)
    }

    @Test("a server without a limit receives up to our own limit")
    func unlimited() {
        let peer = HTTP2ClientPeer(.client(concurrentStreams: 250))
        #expect(peer.session.capacity == 250)
    }

    @Test("objects of ended streams serve the next requests")
    func reused() throws {
        let peer = HTTP2ClientPeer()
        for round in 0..<5 {
            let stream = try peer.sendRequest()
            #expect(stream.number == Int32(2 * round + 1))
            peer.send(.response(UInt32(stream.number), end: true))
        }
        #expect(peer.record.streams.count == 1)
        #expect(peer.session.requestCount == 5)
        #expect(peer.session.openStreams == 0)
        #expect(peer.pool.outstanding == 0)
    }

    @Test("a request begun while another one ends is a stream of its own")
    func begunWithin() throws {
        let peer = HTTP2ClientPeer()
        var next: RecordingClientStream?
        peer.record.onEnd = { _ in if next == nil { next = try? peer.ask() } }
        let first = try peer.sendRequest()
        peer.send(.response(1, end: true))
        let second = try #require(next)
        #expect(first !== second)
        #expect(peer.frames().map(\.stream) == [3])
        peer.send(.response(3, end: true))
        #expect(peer.record.events(of: 3) == ["200 none", "end", "ended"])
        #expect(peer.session.openStreams == 0)
    }

    @Test("a head that fits no block is not sent, and another may follow")
    func largeHead() throws {
        let peer = HTTP2ClientPeer()
        #expect(throws: HTTP2OpenFailure.headTooLarge) {
            try peer.ask(.get, "/", [("x", String(repeating: "a", count: 40_000))])
        }
        #expect(peer.session.openStreams == 0)
        _ = try peer.ask()
        #expect(peer.frames().map(\.stream) == [1])
    }

    @Test("a large head is sent in several frames")
    func continuation() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.ask(.get, "/", [("x", String(repeating: "a", count: 30_000))])
        #expect(!stream.isHeadSent)
        #expect(peer.frames().map(\.kind) == [.headers, .continuation])
        #expect(stream.isHeadSent)
    }

    @Test("a cancelled request is reset, and its response is ignored")
    func reset() throws {
        let peer = HTTP2ClientPeer()
        let stream = try peer.sendRequest(.post, content: true)
        stream.reset(.cancel)
        #expect(!stream.isOpen)
        let bytes = Array("x".utf8)
        #expect(stream.sendContent(bytes.span) == 1)
        let frames = peer.frames()
        #expect(frames == [.reset(1, HTTP2ErrorCode.cancel.rawValue)])
        peer.send(.response(1), .data(1, "late"), .headers(1, [("x", "y")]))
        #expect(peer.record.events == ["1 ended"])
        #expect(peer.record.content.isEmpty)
        #expect(peer.fault == nil)
        #expect(peer.session.openStreams == 0)
    }

    @Test("a request cancelled before it was sent is never sent")
    func resetUnsent() throws {
        let peer = HTTP2ClientPeer()
        try peer.ask().reset(.cancel)
        _ = try peer.ask()
        #expect(peer.frames().map(\.stream) == [3])
        #expect(peer.record.events == ["1 ended"])
    }

    @Test("requests above the server's limit wait and are sent when one ends")
    func lowered() throws {
        let peer = HTTP2ClientPeer(greets: false)
        let streams = try (0..<3).map { _ in try peer.ask() }
        peer.send(.settings([(3, 1)]))
        #expect(peer.frames().filter { $0.kind == .headers }.map(\.stream) == [1])
        #expect(streams.map(\.isHeadSent) == [true, false, false])
        peer.send(.response(1, end: true))
        #expect(peer.frames().map(\.stream) == [3])
    }

    @Test("PING is answered, and our own PING is acknowledged")
    func ping() {
        let peer = HTTP2ClientPeer()
        peer.send(.ping)
        let frames = peer.frames()
        #expect(frames.map(\.kind) == [.ping])
        #expect(frames[0].flags == Frame.acknowledgement)
        peer.session.ping()
        let asked = peer.frames()
        #expect(asked.map(\.kind) == [.ping])
        #expect(peer.handler.pongs == 0)
        peer.send(Frame(kind: .ping, flags: Frame.acknowledgement, payload: asked[0].payload))
        #expect(peer.handler.pongs == 1)
    }

    @Test("after a drain no request begins, and the last end finishes the connection")
    func drain() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        peer.session.drain()
        #expect(peer.session.capacity == 0)
        #expect(throws: HTTP2OpenFailure.closing) { try peer.ask() }
        #expect(peer.frames().map(\.kind) == [.goAway])
        #expect(!peer.session.isFinished)
        peer.send(.response(1), .data(1, "abc", end: true))
        #expect(peer.record.events == ["1 200 chunked", "1 end", "1 ended"])
        _ = peer.frames()
        #expect(peer.session.isFinished)
        #expect(peer.goAways == [0])
        #expect(peer.fault == nil)
    }

    @Test("a stream used after its session was freed does nothing")
    func outlived() throws {
        let stream: RecordingClientStream
        do {
            let peer = HTTP2ClientPeer()
            stream = try peer.sendRequest(.post, content: true)
        }
        #expect(!stream.isOpen)
        let bytes = Array("x".utf8)
        #expect(stream.sendContent(bytes.span) == 1)
        stream.sendEnd()
        stream.contentWanted()
        stream.reset(.cancel)
    }

    @Test("a freed session leaves nothing in memory")
    func freed() throws {
        weak var session: HTTP2ClientSession?
        weak var stream: HTTP2ClientStream?
        let pool: BufferPool
        do {
            let peer = HTTP2ClientPeer()
            peer.record.appetite = 0
            pool = peer.pool
            stream = try peer.sendRequest()
            peer.send(.response(1), .data(1, "abc"))
            session = peer.session
            #expect(pool.outstanding > 0)
        }
        #expect(session == nil)
        #expect(stream == nil)
        #expect(pool.outstanding == 0)
    }
}
