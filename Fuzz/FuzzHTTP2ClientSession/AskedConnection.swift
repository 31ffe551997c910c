import Bytes
import EventLoop
import HTTP

/// What callers do with a response.
struct CallerManners {
    /// Requests have content that is never complete.
    let hasContent: Bool
    let resetsHeads: Bool
    /// A new request follows each that has ended.
    let asksAgain: Bool
    /// Content that each stream takes before it has to be asked again.
    var appetite: Int

    init(_ byte: UInt8) {
        hasContent = byte & 1 != 0
        resetsHeads = byte & 2 != 0
        asksAgain = byte & 4 != 0
        appetite = [0, 1, 100, Int.max][Int(byte >> 3 & 3)]
    }
}

/// A connection from its preface to its end, and the events of its streams.
struct AskedConnection: Equatable {
    var events: [String] = []
    var content: [UInt8] = []
    var fault: HTTP2Fault?
    /// Streams whose response was complete in the end, and those that failed for content beyond their window.
    var completed: Set<Int32> = []
    var overrun: Set<Int32> = []
    /// Whether the server sent GOAWAY and no stream is left.
    var hasEnded = false

    /// Returns whether the connection ends at an earlier point than another, after GOAWAY. nghttp2 reads nothing behind
    /// that point, such as a second GOAWAY, except for what has arrived in the same read.
    func ends(before other: AskedConnection) -> Bool {
        hasEnded && other.events.starts(with: events) && other.content.starts(with: content)
    }

    static func ask(
        _ bytes: [UInt8], inStepsOf step: Int, _ manners: CallerManners, writesBetween: Bool
    ) -> AskedConnection {
        let pool = BufferPool(blockSize: 4096)
        let narrow = BufferPool(blockSize: 1024)
        let asker = AdministrationCaller(manners)
        do {
            var limits = HTTP2Limits.client(concurrentStreams: 20, streamWindow: 2048)
            limits.headerList = 2048
            // Looked at after each piece, so it would tell how the bytes were cut.
            limits.outboundFrames = 1 << 20
            let heads = HeadLimits(bytes: 2_048, target: 512, fields: 32)
            let session = HTTP2ClientSession(limits: limits, heads: heads, pool: pool, handler: asker)
            // 1 asks for a head alone, 3 sends content, 5 is given up at once, 7 is asked and not written.
            asker.ask(session, .head)
            asker.ask(session, .post)
            asker.ask(session, .get)
            write(session, narrow)
            if manners.resetsHeads { asker.streams[2].giveUp() }
            asker.ask(session, .get)
            var start = 0
            while start < bytes.count {
                let end = min(start + step, bytes.count)
                do throws(HTTP2Fault) {
                    try session.receive(bytes.span.extracting(start..<end), now: Instant(nanoseconds: 0))
                } catch {
                    asker.observed.fault = error
                    break
                }
                start = end
                guard writesBetween else { continue }
                session.finishEvent()
                if manners.asksAgain { asker.ask(session, .get) }
                // A frame that does not fit stays where nghttp2 made it while more is received.
                var output = ByteBuffer(pool: narrow)
                do throws(HTTP2Fault) { try session.write(into: &output) } catch {}
                _ = session.reportRoom()
                session.finishEvent()
            }
            asker.observed.hasEnded = session.isServerGoing && asker.streams.allSatisfy { !$0.isOpen }
            let observed = asker.observed
            write(session, pool)
            session.close()
            session.finishEvent()
            // Responses that are whole outlive the connection.
            for stream in asker.streams {
                stream.appetite = .max
                stream.contentWanted()
            }
            session.finishEvent()
            precondition(session.openStreams == 0, "a stream is open after the end")
            precondition(asker.streams.allSatisfy { $0.isOver }, "a stream has not heard of its end")
            let (completed, overrun) = (asker.observed.completed, asker.observed.overrun)
            asker.observed = observed
            asker.observed.completed = completed
            asker.observed.overrun = overrun
        }
        precondition(pool.outstanding == 0, "\(pool.outstanding) blocks were not given back")
        return asker.observed
    }

    private static func write(_ session: HTTP2ClientSession, _ pool: BufferPool) {
        repeat {
            var more = true
            while more {
                var output = ByteBuffer(pool: pool)
                do throws(HTTP2Fault) { try session.write(into: &output) } catch {}
                more = !output.isEmpty
            }
        } while session.reportRoom()
        session.finishEvent()
    }
}

final class AdministrationCaller: HTTP2ClientHandler {
    let manners: CallerManners
    var observed = AskedConnection()
    var streams: [AskedStream] = []

    init(_ manners: CallerManners) { self.manners = manners }

    override func makeStream(_ pool: BufferPool) -> HTTP2ClientStream {
        let stream = AskedStream(self, pool)
        streams.append(stream)
        return stream
    }

    override func serverGoesAway(_ code: HTTP2ErrorCode) { observed.events.append("goes away \(code)") }

    func ask(_ session: HTTP2ClientSession, _ method: Method) {
        let authority = Array("a.example".utf8)
        let hasContent = method == .post && manners.hasContent
        guard
            let stream = try? session.open(
                method, scheme: "https", authority: authority.span, endsStream: !hasContent,
                target: { $0.append("/a") }, fields: { $0.appendField("X-A", "b") }) as? AskedStream
        else { return }
        stream.begin(method)
        if hasContent { stream.push() }
    }
}

final class AskedStream: HTTP2ClientStream {
    private unowned let asker: AdministrationCaller
    private var method = Method.get
    var appetite = 0
    /// Between a beginning and `ended`.
    private var isAsked = false
    private var hasHead = false
    private var hasOutcome = false
    private var isGivenUp = false
    private var isSettled = true

    var isOver: Bool { !isAsked && isSettled }

    init(_ asker: AdministrationCaller, _ pool: BufferPool) {
        self.asker = asker
        super.init(pool: pool)
    }

    func begin(_ method: Method) {
        precondition(isOver, "an object serves two requests")
        self.method = method
        appetite = asker.manners.appetite
        isAsked = true
        hasHead = false
        hasOutcome = false
        isGivenUp = false
    }

    func push() {
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: 3_000)
        _ = sendContent(text.span)
    }

    func giveUp() {
        isGivenUp = true
        reset(.cancel)
    }

    private func say(_ event: String) {
        precondition(isAsked && !isGivenUp, "\(event) for nobody")
        isSettled = false
        asker.observed.events.append("\(number) \(event)")
    }

    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        precondition(!hasHead && !hasOutcome, "two heads")
        hasHead = true
        let response = ReadResponse(head, bytes.indices.map { bytes[$0] })
        precondition(response == response.readAgain(method), "\(response) is not what HTTP/1.1 has")
        precondition(method != .head || head.framing == .none, "content for HEAD")
        say("\(response) \(head.framing)")
        if asker.manners.resetsHeads { giveUp() }
    }

    override func receive(content: Span<UInt8>) -> Int {
        precondition(hasHead && !hasOutcome && !isGivenUp && !content.isEmpty, "content for nobody")
        isSettled = false
        let taken = min(content.count, appetite)
        if appetite != .max { appetite -= taken }
        for index in 0..<taken { asker.observed.content.append(content[index]) }
        return taken
    }

    override func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {
        precondition(hasHead && !hasOutcome, "trailers of nothing")
        for field in trailers.fields { precondition(!field.name.isHopByHop && field.name != .contentLength) }
        say("trailers \(trailers.fields.map(\.nameRange.count))")
    }

    override func responseEnded() {
        precondition(hasHead && !hasOutcome, "an end of nothing")
        hasOutcome = true
        asker.observed.completed.insert(number)
        say("end")
    }

    override func requestSpaceAvailable() { push() }

    override func failed(_ failure: HTTP2StreamFailure) {
        precondition(!hasOutcome, "two ends")
        if case .unprocessed = failure { precondition(!hasHead, "what was answered was processed") }
        hasOutcome = true
        if failure == .reset(.flowControlError) { asker.observed.overrun.insert(number) }
        say("failed \(failure)")
    }

    override func ended() {
        precondition(isAsked && (hasOutcome || isGivenUp), "an end without a reason")
        isAsked = false
    }

    override func finishEvent() { isSettled = true }
}

/// A head as it was understood, and as HTTP/1.1's parser understands it when it is written for it.
struct ReadResponse: Equatable {
    var status: UInt16
    var statedLength: UInt64?
    var fields: [[[UInt8]]]

    init(_ head: ResponseHead, _ bytes: [UInt8]) {
        func text(_ range: ByteRange) -> [UInt8] { Array(bytes[range.start..<range.end]) }
        status = head.status
        statedLength = head.statedLength
        fields = head.fields.map { [text($0.nameRange), text($0.valueRange)] }
    }

    /// Nil if HTTP/1.1's parser refuses it.
    func readAgain(_ method: Method) -> ReadResponse? {
        var made = Array("HTTP/1.1 \(status) X\r\n".utf8)
        for field in fields { made += field[0] + Array(": ".utf8) + field[1] + Array("\r\n".utf8) }
        made += Array("\r\n".utf8)
        var parser = ResponseHeadParser(limits: HeadLimits(bytes: 16_384, target: 512, fields: 33))
        var head = ResponseHead()
        guard case .complete(made.count)? = try? parser.parse(made.span, answering: method, into: &head) else {
            return nil
        }
        return ReadResponse(head, made)
    }
}
