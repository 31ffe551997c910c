import Bytes
import HTTP
import Testing

@Suite("HTTP/2 server: responses")
struct HTTP2ResponseTests {
    private func text(_ frames: [Frame]) -> String {
        String(decoding: frames.filter { $0.kind == .data }.flatMap(\.payload), as: UTF8.self)
    }

    @Test("a head becomes lower-case fields without hop-by-hop fields")
    func head() {
        let peer = HTTP2Peer()
        peer.record.onEnd = { stream in
            let isSent = stream.sendHead(204, endsStream: true) {
                $0.appendField("ETag", "\"a\"")
                $0.appendField("Connection", "close")
                $0.appendField("Transfer-Encoding", "chunked")
                $0.appendField("X-Empty", "")
                $0.appendField("Set-Cookie", "a=1; Path=/")
                $0.appendField("Set-Cookie", "b=2")
            }
            #expect(isSent)
        }
        peer.send(.get(1))
        let frames = peer.frames()
        #expect(frames.map(\.kind) == [.headers])
        #expect(frames[0].endsStream)
        #expect(
            peer.fields(frames[0]) == [
                ":status: 204", "etag: \"a\"", "x-empty: ", "set-cookie: a=1; Path=/", "set-cookie: b=2",
            ])
        #expect(peer.record.events.last == "1 ended")
        #expect(peer.session.openStreams == 0)
    }

    @Test("a head that fits no buffer is not sent, and another may follow")
    func largeHead() {
        let peer = HTTP2Peer()
        let large = [UInt8](repeating: UInt8(ascii: "a"), count: 40_000)
        peer.record.onEnd = { stream in
            #expect(!stream.sendHead(200, endsStream: true) { $0.appendField("X", large.span) })
            stream.answer(502)
        }
        peer.send(.get(1))
        #expect(peer.frames().first.map(peer.fields)?.first == ":status: 502")
    }

    @Test("clients of one loop that read piece by piece in turn get their own heads and contents")
    func inTurn() {
        let pool = BufferPool(blockSize: 32 * 1024)
        let peers = [HTTP2Peer(pool: pool), HTTP2Peer(pool: pool)]
        // A head of several frames, and content of several frames.
        let texts = ["X", "Z"].map { String(repeating: $0, count: 25_000) }
        for (peer, text) in zip(peers, texts) {
            peer.record.onEnd = { stream in
                #expect(stream.sendHead(200, endsStream: false) { $0.appendField("X-Large", Array(text.utf8).span) })
                #expect(stream.sendContent(Array(text.utf8).span) == text.utf8.count)
                stream.sendEnd()
            }
            peer.send(.get(1))
        }
        while peers.map({ $0.readPiece(room: 1024) }).contains(true) {}
        for (peer, text) in zip(peers, texts) {
            let frames = peer.frames()
            #expect(Set(frames.map(\.kind)) == [.headers, .continuation, .data])
            let head = frames.filter { $0.kind != .data }.flatMap(\.payload)
            let fields = peer.fields(Frame(kind: .headers, flags: 0, stream: 1, payload: head))
            #expect(fields == [":status: 200", "x-large: \(text)"])
            #expect(frames.filter { $0.kind == .data }.count > 1)
            #expect(self.text(frames) == text)
            #expect(peer.record.events.last == "1 ended")
            peer.session.close()
        }
        #expect(pool.outstanding == 0)
    }

    @Test("an interim response precedes the final one")
    func interim() {
        let peer = HTTP2Peer()
        peer.record.onHead = { $0.sendInterim(100) }
        peer.record.onEnd = { $0.answer(200, "done") }
        peer.send(.post(1, [("expect", "100-continue")]))
        let interim = peer.frames()
        #expect(interim.map(peer.fields) == [[":status: 100"]])
        #expect(!interim[0].endsStream)
        peer.send(.data(1, "x", end: true))
        let frames = peer.frames()
        #expect(peer.fields(frames[0]).first == ":status: 200")
        #expect(text(frames) == "done")
    }

    @Test("content larger than every buffer is pulled piece by piece, and ends with trailers")
    func streaming() throws {
        let peer = HTTP2Peer()
        let content = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 * 7) }
        var sent = 0
        func pump(_ stream: RecordingStream) {
            while sent < content.count {
                let taken = stream.sendContent(content.span.extracting(sent..<content.count))
                sent += taken
                guard taken > 0 else { return }
            }
            stream.sendEnd { $0.appendField("X-Sum", "1") }
        }
        peer.record.onEnd = { stream in
            _ = stream.sendHead(200, endsStream: false) { _ in }
            pump(stream)
            // One block, however much content there is.
            #expect(sent == peer.pool.blockSize)
        }
        peer.record.onRoom = pump
        peer.send(.get(1))
        var received: [UInt8] = []
        var frames = peer.frames(room: 1024)
        // The client's window is 65,535 bytes: no more before it returns some.
        #expect(frames.filter { $0.kind == .data }.map(\.payload.count).reduce(0, +) == 65_535)
        #expect(sent <= 65_535 + peer.pool.blockSize)
        peer.send(.windowUpdate(0, 1 << 20), .windowUpdate(1, 1 << 20))
        frames += peer.frames(room: 1024)
        for frame in frames where frame.kind == .data { received += frame.payload }
        #expect(received == content)
        let last = try #require(frames.last)
        #expect(last.kind == .headers && last.endsStream)
        _ = peer.fields(frames[0])
        #expect(peer.fields(last) == ["x-sum: 1"])
        #expect(peer.record.events.last == "1 ended")
        #expect(peer.pool.outstanding == 0)
    }

    @Test("one-byte windows and changed settings are respected (h2spec 6.9.1 and 6.9.2)")
    func smallWindows() {
        let peer = HTTP2Peer()
        peer.record.onEnd = { $0.answer(200, "hello") }
        peer.send(.settings([(4, 1)]), .get(1))
        #expect(text(peer.frames()) == "h")
        peer.send(.settings([(4, 3)]))
        #expect(text(peer.frames()) == "el")
        peer.send(.settings([(4, 2)]))
        #expect(text(peer.frames()) == "")
        // The stream's window is -1 now.
        peer.send(.windowUpdate(1, 2))
        #expect(text(peer.frames()) == "l")
        peer.send(.windowUpdate(1, 1))
        #expect(text(peer.frames()) == "o")
        #expect(peer.fault == nil)
    }

    @Test("a response that is not ready does not delay other streams")
    func deferred() throws {
        let peer = HTTP2Peer()
        peer.record.onEnd = { if $0.number == 3 { $0.answer(200, "three") } }
        peer.send(.get(1), .get(3))
        let first = peer.record.streams[0]
        #expect(first.sendHead(200, endsStream: false) { _ in })
        #expect(text(peer.frames()) == "three")
        let late = Array("one".utf8)
        #expect(first.sendContent(late.span) == 3)
        #expect(text(peer.frames()) == "one")
        first.sendEnd()
        let last = peer.frames()
        #expect(last.count == 1 && last[0].endsStream && last[0].payload.isEmpty)
    }

    @Test("an early response resets the rest of the request with NO_ERROR (section 8.1)")
    func early() {
        let peer = HTTP2Peer()
        peer.record.onHead = { $0.answer(413) }
        peer.send(.post(1), .data(1, "a"))
        let frames = peer.frames()
        #expect(frames.map(\.kind) == [.headers, .reset])
        #expect(frames[1].number() == HTTP2ErrorCode.noError.rawValue)
        peer.send(.data(1, "late"), .get(3))
        #expect(peer.record.events.contains("1 ended"))
        #expect(!peer.record.events.contains("1 abandoned noError"))
        #expect(peer.fault == nil)
    }

    @Test("an early response precedes its reset, and an ended request is not reset")
    func answerBeforeReset() {
        let peer = HTTP2Peer()
        peer.record.onHead = { $0.answer(413) }
        peer.send(.post(1), .post(3))
        #expect(peer.oneWrite() == [.headers, .headers])
        peer.send(.data(3, "a", end: true))
        #expect(peer.session.hasOutput)
        #expect(peer.oneWrite() == [.reset])
        #expect(peer.record.events.contains("1 ended") && peer.record.events.contains("3 ended"))
        #expect(peer.oneWrite().isEmpty && !peer.session.hasOutput)
    }

    @Test("a reset stream ends once, and later output for it is dropped")
    func reset() {
        let peer = HTTP2Peer()
        peer.record.onHead = { stream in
            _ = stream.sendHead(200, endsStream: false) { _ in }
            stream.reset(.internalError)
            stream.reset(.cancel)
            let more = Array("more".utf8)
            #expect(stream.sendContent(more.span) == 4)
            stream.sendEnd()
        }
        peer.send(.get(1))
        let frames = peer.frames()
        #expect(frames.map(\.kind).last == .reset)
        #expect(frames.last?.number() == HTTP2ErrorCode.internalError.rawValue)
        #expect(text(frames) == "")
        #expect(peer.record.events == ["1 GET health.example / none", "1 ended"])
    }

    @Test("a client's reset abandons the stream once")
    func abandoned() {
        let peer = HTTP2Peer()
        peer.send(.post(1), .data(1, "a"), .reset(1))
        #expect(peer.record.events == ["1 POST health.example / chunked", "1 abandoned cancel", "1 ended"])
        #expect(peer.session.openStreams == 0)
        #expect(peer.pool.outstanding == 0)
    }

    @Test("one object serves consecutive streams, and there are no more objects than open streams")
    func reuse() {
        let peer = HTTP2Peer()
        peer.record.onEnd = { $0.answer(200, "x") }
        for id in stride(from: UInt32(1), to: 401, by: 2) {
            peer.send(.get(id, "/\(id)"))
            _ = peer.frames()
        }
        #expect(peer.record.streams.count == 1)
        #expect(peer.record.events.suffix(3) == ["399 GET health.example /399 none", "399 end", "399 ended"])
        #expect(peer.pool.outstanding == 0)
    }

    @Test("output that fits no buffer is written in pieces of any size")
    func narrowOutput() {
        let peer = HTTP2Peer()
        peer.record.onEnd = { $0.answer(200, String(repeating: "abc", count: 5000)) }
        peer.send(.get(1))
        #expect(text(peer.frames(room: 1024)) == String(repeating: "abc", count: 5000))
    }

    @Test("the end of the connection abandons every open stream once")
    func close() {
        let peer = HTTP2Peer()
        peer.send(.post(1), .get(3))
        peer.record.events = []
        peer.session.close()
        peer.session.close()
        #expect(peer.record.events == ["1 abandoned cancel", "1 ended", "3 abandoned cancel", "3 ended"])
        #expect(peer.pool.outstanding == 0)
    }

    @Test("a drain is announced, completes what is in-flight, and then accepts nothing")
    func drain() {
        let peer = HTTP2Peer()
        peer.record.onEnd = { $0.answer(200) }
        peer.send(.post(1))
        peer.session.announceDrain()
        let notice = peer.frames()
        #expect(notice.map(\.kind) == [.goAway])
        #expect(notice[0].number() == 0x7fff_ffff)
        #expect(notice[0].number(at: 4) == 0)
        // Sent before the client received it.
        peer.send(.get(3))
        peer.session.drain()
        let last = peer.frames().filter { $0.kind == .goAway }
        #expect(last.map { $0.number() } == [3])
        peer.send(.get(5), .data(1, "x", end: true))
        _ = peer.frames()
        #expect(peer.record.events.contains("1 end"))
        #expect(!peer.record.events.contains { $0.hasPrefix("5 ") })
        #expect(peer.session.isFinished)
        #expect(peer.fault == nil)
    }

    @Test("a connection that we end is not counted as the client's fault")
    func terminate() {
        let peer = HTTP2Peer()
        peer.send(.get(1))
        peer.session.terminate(.enhanceYourCalm)
        _ = peer.frames()
        #expect(peer.goAways == [HTTP2ErrorCode.enhanceYourCalm.rawValue])
        #expect(peer.fault == nil && peer.session.fault == nil)
        #expect(peer.session.isFinished)
    }

    @Test("a client's GOAWAY is reported")
    func goAway() {
        let peer = HTTP2Peer()
        peer.send(Frame(kind: .goAway, payload: Frame.octets(0) + Frame.octets(0xff)))
        #expect(peer.record.events == ["client goes away: internalError"])
    }
}
