import Bytes
import Chance
import EventLoop
import HTTP
import Testing

/// Both roles of HTTP/2 against each other.
@Suite("The HTTP/2 client against the server")
struct ClientAndServerTests {
    /// A stream that returns its content as it arrives, and trailers with its length.
    final class Echo: HTTP2Stream {
        private var kept: [UInt8] = []
        private var sent = 0
        private var isComplete = false

        override func headReceived() {
            kept = []
            sent = 0
            isComplete = false
            let fields = "\(head.fields.count)"
            let text = Array(fields.utf8)
            _ = sendHead(200, endsStream: false) { $0.appendField("X-Fields", text.span) }
        }

        override func receive(content: Span<UInt8>) -> Int {
            let taken = min(content.count, 10_000)
            for index in 0..<taken { kept.append(content[index]) }
            flush()
            return taken
        }

        override func contentPaused() { flush() }

        override func contentEnded() {
            isComplete = true
            flush()
        }

        override func outputDrained() {
            flush()
            if !isComplete { contentWanted() }
        }

        private func flush() {
            while sent < kept.count {
                let taken = sendContent(kept.span.extracting(sent...))
                guard taken > 0 else { return }
                sent += taken
            }
            guard isComplete else { return }
            let count = sent
            sendEnd { $0.appendField("X-Count", decimal: UInt64(count)) }
        }
    }

    final class Server: HTTP2Handler {
        override func makeStream(_ pool: BufferPool) -> HTTP2Stream { Echo(pool: pool) }
    }

    /// A stream that sends content as there is room, and takes a limited part of the response at once.
    final class Caller: HTTP2ClientStream {
        var content: [UInt8] = []
        var sent = 0
        var received: [UInt8] = []
        var appetite = Int.max
        var events: [String] = []

        func push() {
            while sent < content.count {
                let taken = sendContent(content.span.extracting(sent...))
                guard taken > 0 else { return }
                sent += taken
            }
            sendEnd()
        }

        override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) { events.append("\(head.status)") }

        override func receive(content: Span<UInt8>) -> Int {
            let taken = min(content.count, appetite)
            for index in 0..<taken { received.append(content[index]) }
            return taken
        }

        override func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {
            for field in trailers.fields {
                let value = field.valueRange.of(bytes)
                events.append(String(decoding: value.indices.map { value[$0] }, as: UTF8.self))
            }
        }

        override func responseEnded() { events.append("end") }
        override func requestSpaceAvailable() { push() }
        override func failed(_ failure: HTTP2StreamFailure) { events.append("\(failure)") }
    }

    final class Client: HTTP2ClientHandler {
        override func makeStream(_ pool: BufferPool) -> HTTP2ClientStream { Caller(pool: pool) }
    }

    private let pool = BufferPool()
    private let serverHandler = Server()
    private let clientHandler = Client()
    private let server: HTTP2Session
    private let client: HTTP2ClientSession

    init() {
        server = HTTP2Session(limits: HTTP2Limits(), heads: .standard, pool: pool, handler: serverHandler)
        client = HTTP2ClientSession(limits: .client(), heads: .standard, pool: pool, handler: clientHandler)
    }

    /// Carries bytes in both directions until both sides are silent.
    private func talk(room: Int) throws { try talk(room: room, client) }

    private func talk(room: Int, _ client: HTTP2ClientSession, rounds: Int = .max) throws {
        let narrow = BufferPool(blockSize: room)
        let now = Instant(nanoseconds: 0)
        var isBusy = true
        var rounds = rounds
        while isBusy, rounds > 0 {
            isBusy = false
            rounds -= 1
            var request = ByteBuffer(pool: narrow)
            try client.write(into: &request)
            if !request.isEmpty {
                isBusy = true
                try server.receive(request.readable, now: now)
            }
            if client.reportRoom() { isBusy = true }
            var response = ByteBuffer(pool: narrow)
            try server.write(into: &response)
            if !response.isEmpty {
                isBusy = true
                try client.receive(response.readable, now: now)
            }
            if server.reportRoom() { isBusy = true }
            client.finishEvent()
        }
    }

    private func ask(_ content: [UInt8]) throws -> Caller { try ask(content, client) }

    private func ask(_ content: [UInt8], _ client: HTTP2ClientSession) throws -> Caller {
        let authority = Array("health.example".utf8)
        let stream = try client.open(.post, scheme: "https", authority: authority.span, endsStream: false) {
            $0.append("/echo?a=b")
        } fields: {
            $0.appendField("Content-Length", decimal: UInt64(content.count))
            $0.appendField("X-A", "b")
        }
        let caller = try #require(stream as? Caller)
        caller.content = content
        caller.sent = 0
        caller.received = []
        caller.events = []
        caller.appetite = .max
        caller.push()
        return caller
    }

    @Test(
        "any amount of content goes both ways at once through the windows, with trailers",
        arguments: [1, 16_384, 65_535, 65_536, 1_000_000], [1024, 32_768])
    func echo(size: Int, room: Int) throws {
        let content = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
        let caller = try ask(content)
        try talk(room: room)
        #expect(caller.events == ["200", "\(size)", "end"])
        #expect(caller.received == content)
        #expect(client.openStreams == 0)
        #expect(server.openStreams == 0)
        #expect(pool.outstanding == 0)
    }

    @Test("many requests are served concurrently and in sequence")
    func many() throws {
        for round in 0..<5 {
            let callers = try (0..<100).map { try ask([UInt8](repeating: UInt8(round), count: 100 * $0 + 1)) }
            #expect(client.capacity == 0)
            try talk(room: 16_384)
            for (index, caller) in callers.enumerated() {
                #expect(caller.events == ["200", "\(100 * index + 1)", "end"])
                #expect(caller.received.count == 100 * index + 1)
            }
        }
        #expect(server.requestCount == 500)
        #expect(client.capacity == 100)
        #expect(pool.outstanding == 0)
    }

    @Test("a client that reads nothing stops only its own stream, and receives everything later")
    func slow() throws {
        let slow = try ask([UInt8](repeating: 1, count: 500_000))
        slow.appetite = 0
        let quick = try ask([UInt8](repeating: 2, count: 500_000))
        try talk(room: 16_384)
        #expect(quick.events == ["200", "500000", "end"])
        #expect(slow.events == ["200"])
        // The bytes that the server may have sent ahead, and no more.
        #expect(pool.outstanding * pool.blockSize < 64 * 1024 + 32 * 1024 * 6)
        slow.appetite = .max
        slow.contentWanted()
        try talk(room: 16_384)
        #expect(slow.events == ["200", "500000", "end"])
        #expect(slow.received.count == 500_000)
    }

    @Test(
        "no window is lost, whatever is cancelled: the last request is served like the first", arguments: 0..<10
    )
    func windows(number: UInt64) throws {
        let seed = RunSeed.tell() &+ number
        var random = SeededGenerator(seed: seed)
        var limits = HTTP2Limits.client(concurrentStreams: 20, streamWindow: 65_535)
        // A few lost responses would close such a small window.
        limits.connectionWindow = 65_535
        let client = HTTP2ClientSession(limits: limits, heads: .standard, pool: pool, handler: clientHandler)
        var callers: [Caller] = []
        for _ in 0..<200 {
            if client.capacity > 0 {
                callers.append(
                    try ask([UInt8](repeating: 1, count: Int.random(in: 1...40_000, using: &random)), client))
                callers[callers.count - 1].appetite = [0, 100, .max].randomElement(using: &random) ?? 0
            }
            try talk(room: 4096, client, rounds: Int.random(in: 0...6, using: &random))
            guard let caller = callers.randomElement(using: &random) else { continue }
            if Bool.random(using: &random) {
                caller.reset(.cancel)
            } else {
                caller.appetite = .max
                caller.contentWanted()
            }
            client.finishEvent()
        }
        for caller in callers { caller.reset(.cancel) }
        try talk(room: 4096, client)
        #expect(client.openStreams == 0, "seed \(seed)")
        let last = try ask([UInt8](repeating: 1, count: 200_000), client)
        try talk(room: 4096, client)
        #expect(last.events == ["200", "200000", "end"], "seed \(seed)")
        #expect(pool.outstanding == 0, "seed \(seed)")
    }

    @Test("a draining server serves what has begun, and the client begins nothing more on it")
    func drain() throws {
        let caller = try ask([UInt8](repeating: 1, count: 100_000))
        server.announceDrain()
        server.drain()
        try talk(room: 16_384)
        #expect(!client.mayOpen)
        // The request was sent before or after the GOAWAY: it was served, or certainly not.
        #expect(
            caller.events == ["200", "100000", "end"]
                || caller.events == ["\(HTTP2StreamFailure.unprocessed(.goingAway))"])
        #expect(client.openStreams == 0)
        #expect(client.isFinished)
    }
}
