import HTTP
import Testing

@Suite("HTTP/2 client: flow control")
struct ClientFlowControlTests {
    private let content = String(repeating: "a", count: 16_000)

    private func limits(streams: Int = 10, window: Int = 32_000, connection: Int? = nil) -> HTTP2Limits {
        var limits = HTTP2Limits.client(concurrentStreams: streams, streamWindow: window)
        if let connection { limits.connectionWindow = connection }
        return limits
    }

    private func returned(_ frames: [Frame], _ stream: UInt32) -> Int {
        frames.filter { $0.kind == .windowUpdate && $0.stream == stream }.map { Int($0.number()) }.reduce(0, +)
    }

    @Test("consumed content opens the windows by exactly its length")
    func taken() throws {
        let peer = HTTP2ClientPeer(limits(connection: 65_535))
        _ = try peer.sendRequest()
        peer.send(.response(1))
        var back = 0
        for _ in 0..<20 {
            peer.send(.data(1, content))
            back += returned(peer.frames(), 0)
        }
        #expect(peer.record.content.count == 20 * 16_000)
        #expect(back >= 20 * 16_000 - 65_535 / 2 && back <= 20 * 16_000)
        #expect(peer.fault == nil)
    }

    @Test("unread content keeps the windows closed and waits within them")
    func notTaken() throws {
        let peer = HTTP2ClientPeer(limits())
        peer.record.appetite = 10
        _ = try peer.sendRequest()
        peer.send(.response(1), .data(1, content), .data(1, content))
        #expect(peer.frames().isEmpty)
        #expect(peer.record.content.count == 10)
        // The window is used up: more is the server's error, and of this stream alone.
        peer.send(.data(1, "x"))
        #expect(peer.frames() == [.reset(1, HTTP2ErrorCode.flowControlError.rawValue)])
        #expect(peer.record.events.last == "1 ended")
        #expect(peer.record.events.contains("1 failed \(HTTP2StreamFailure.reset(.flowControlError))"))
        #expect(peer.fault == nil)
        #expect(peer.pool.outstanding == 0)
    }

    @Test("waiting content is delivered in order when wanted, then trailers and the end")
    func resumed() throws {
        let peer = HTTP2ClientPeer(limits())
        peer.record.appetite = 0
        let stream = try peer.sendRequest()
        peer.send(.response(1), .data(1, "abc"), .data(1, "defg"), .headers(1, [("x", "y")]))
        #expect(peer.record.events == ["1 200 chunked"])
        for (appetite, expected) in [(2, "ab"), (3, "abcde"), (0, "abcde"), (9, "abcdefg")] {
            peer.record.appetite = appetite
            stream.contentWanted()
            #expect(String(decoding: peer.record.content, as: UTF8.self) == expected)
            #expect(peer.record.events.contains("1 end") == (expected.count == 7))
        }
        #expect(peer.record.events == ["1 200 chunked", #"1 trailers ["x: y"]"#, "1 end", "1 ended"])
    }

    @Test("the last byte of a stated length waits for the end of the stream")
    func lastOctet() throws {
        let peer = HTTP2ClientPeer(limits())
        _ = try peer.sendRequest()
        peer.send(.response(1, "200", [("content-length", "3")]), .data(1, "abc"))
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "ab")
        peer.send(.data(1, end: true))
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "abc")
        #expect(peer.record.events == ["1 200 length(3)", "1 end", "1 ended"])
    }

    @Test("one unread response does not delay the others")
    func noHeadOfLine() throws {
        let peer = HTTP2ClientPeer(limits(streams: 3, window: 32_000))
        peer.record.appetite = 0
        for _ in 0..<3 { _ = try peer.sendRequest() }
        peer.send(
            .response(1), .data(1, content), .data(1, content), .response(3), .data(3, content), .data(3, content))
        peer.record.appetite = .max
        // By now a connection's initial window would have 1,535 bytes left.
        peer.send(.response(5), .data(5, content), .data(5, content))
        #expect(peer.fault == nil)
        #expect(peer.record.content.count == 32_000)
    }

    @Test("the connection's window bounds the waiting content of all streams")
    func bounded() throws {
        let peer = HTTP2ClientPeer(limits(window: 32_000, connection: 65_535))
        peer.record.appetite = 0
        for _ in 0..<10 { _ = try peer.sendRequest() }
        var sent = 0
        for round in 0..<10 where peer.fault == nil {
            let id = UInt32(2 * round + 1)
            peer.send(.response(id), .data(id, content))
            sent += 16_000
            _ = peer.frames()
        }
        #expect(peer.fault == .violation(.flowControlError))
        #expect(sent <= 65_535 + 16_000)
    }

    @Test(
        "a cancelled stream with unread content returns the connection's window", arguments: [true, false])
    func connectionWindow(isComplete: Bool) throws {
        let peer = HTTP2ClientPeer(limits(connection: 65_535))
        peer.record.appetite = 0
        for round in 0..<40 {
            let id = UInt32(2 * round + 1)
            let stream = try peer.sendRequest()
            peer.send(.response(id), .data(id, content), .data(id, content, end: isComplete))
            stream.reset(.cancel)
            let frames = peer.frames().filter { $0.stream == id }
            #expect(frames == (isComplete ? [] : [.reset(id)]))
            #expect(peer.session.openStreams == 0)
        }
        #expect(peer.fault == nil)
        #expect(peer.pool.outstanding == 0)
    }

    @Test("content for a cancelled stream does not consume the connection's window")
    func dropped() throws {
        let peer = HTTP2ClientPeer(limits(connection: 65_535))
        try peer.sendRequest().reset(.cancel)
        var back = 0
        for _ in 0..<10 {
            peer.send(.data(1, content))
            back += returned(peer.frames(), 0)
        }
        #expect(back >= 10 * 16_000 - 65_535 / 2)
        #expect(peer.fault == nil)
    }

    @Test("a stream cancelled within a frame returns the rest of that frame, too")
    func halfFrame() throws {
        let peer = HTTP2ClientPeer(limits(connection: 65_535))
        for round in 0..<40 {
            let id = UInt32(2 * round + 1)
            let stream = try peer.sendRequest()
            let bytes = Frame.response(id).bytes + Frame.data(id, content).bytes
            peer.send(Array(bytes.dropLast(15_000)))
            stream.reset(.cancel)
            peer.send(bytes.suffix(15_000))
            _ = peer.frames()
        }
        #expect(peer.fault == nil)
        #expect(peer.session.openStreams == 0)
        #expect(peer.record.content.count == 40 * 1000)
    }

    @Test("cancelling, reading or sending within a callback is safe")
    func within() throws {
        for step in 0..<6 {
            let peer = HTTP2ClientPeer(limits())
            peer.record.appetite = 2
            let stream = try peer.sendRequest(.post, content: true)
            let giveUp: (RecordingClientStream) -> Void = { $0.reset(.cancel) }
            switch step {
            case 0: peer.record.onHead = giveUp
            case 1: peer.record.onContent = giveUp
            case 2: peer.record.onTrailers = giveUp
            case 3: peer.record.onEnd = giveUp
            case 4: peer.record.onEnded = giveUp
            default:
                peer.record.onContent = {
                    peer.record.appetite = 1
                    $0.contentWanted()
                }
            }
            peer.send(.response(1), .data(1, "ab"), .data(1, "cdef"), .headers(1, [("x", "y")]), .reset(1, 0))
            peer.record.appetite = .max
            stream.contentWanted()
            _ = peer.frames()
            peer.session.finishEvent()
            #expect(peer.session.openStreams == 0, "step \(step)")
            #expect(peer.pool.outstanding == 0, "step \(step)")
            #expect(peer.record.events.filter { $0 == "1 ended" }.count == 1, "step \(step)")
            #expect(peer.record.events.contains("1 end") == (step >= 3), "step \(step)")
            #expect(!peer.record.events.contains { $0.contains("failed") }, "step \(step)")
        }
    }

    @Test("the end is reported after the head, even if the head's callback asks for content")
    func wantedWithinHead() throws {
        for frames in [[Frame.response(1, end: true)], [.response(1, "204"), .data(1, end: true)]] {
            let peer = HTTP2ClientPeer(limits())
            var events: [String] = []
            peer.record.onHead = {
                $0.contentWanted()
                events = peer.record.events
            }
            _ = try peer.sendRequest()
            peer.send(frames.flatMap(\.bytes))
            #expect(events.count == 1)
            #expect(peer.record.events.suffix(2) == ["1 end", "1 ended"])
        }
    }

    @Test("padding returns its window at once")
    func padding() throws {
        let peer = HTTP2ClientPeer(limits(connection: 65_535))
        _ = try peer.sendRequest()
        peer.send(.response(1))
        for _ in 0..<500 {
            peer.send(
                Frame(
                    kind: .data, flags: Frame.padded, stream: 1,
                    payload: [255, 0x61] + [UInt8](repeating: 0, count: 255)))
            _ = peer.frames()
        }
        #expect(peer.record.content.count == 500)
        #expect(peer.fault == nil)
    }

    @Test("windows that the server shrinks become negative and open again")
    func negative() throws {
        let peer = HTTP2ClientPeer(limits())
        let stream = try peer.ask(.post, content: true)
        let bytes = [UInt8](repeating: 1, count: 30_000)
        #expect(stream.sendContent(bytes.span) == 30_000)
        func sent() -> Int { peer.frames().filter { $0.kind == .data }.map(\.payload.count).reduce(0, +) }
        #expect(sent() == 30_000)
        peer.send(.settings([(4, 0)]))
        #expect(stream.sendContent(bytes.span.extracting(first: 10)) == 10)
        #expect(sent() == 0)
        peer.send(.windowUpdate(1, 30_004))
        #expect(sent() == 4)
        peer.send(.settings([(4, 6)]))
        #expect(sent() == 6)
    }
}
