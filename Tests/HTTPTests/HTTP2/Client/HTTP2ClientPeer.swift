import Bytes
import EventLoop
import HTTP
import Testing

/// A session in the client role, and a server that sends it arbitrary frames.
final class HTTP2ClientPeer {
    /// The events of the session's streams, in order.
    final class Record {
        var events: [String] = []
        var streams: [RecordingClientStream] = []
        /// The actions in these events.
        var onHead: ((RecordingClientStream) -> Void)?
        var onContent: ((RecordingClientStream) -> Void)?
        var onTrailers: ((RecordingClientStream) -> Void)?
        var onEnd: ((RecordingClientStream) -> Void)?
        var onFailure: ((RecordingClientStream) -> Void)?
        var onEnded: ((RecordingClientStream) -> Void)?
        var onRoom: ((RecordingClientStream) -> Void)?
        /// The amount of content that a stream takes before it pauses.
        var appetite = Int.max
        var content: [UInt8] = []
        var settled = 0

        /// Returns the events of a stream, without those of the connection.
        func events(_ stream: HTTP2ClientStream) -> [String] { events(of: stream.number) }
        func events(of stream: Int32) -> [String] {
            events.filter { $0.hasPrefix("\(stream) ") }.map { String($0.dropFirst("\(stream) ".count)) }
        }
    }

    final class Handler: HTTP2ClientHandler {
        let record: Record
        var capacityChanges = 0
        var pongs = 0

        init(_ record: Record) { self.record = record }

        override func makeStream(_ pool: BufferPool) -> HTTP2ClientStream {
            let stream = RecordingClientStream(record, pool)
            record.streams.append(stream)
            return stream
        }

        override func serverGoesAway(_ code: HTTP2ErrorCode) { record.events.append("server goes away: \(code)") }
        override func capacityChanged() { capacityChanges += 1 }
        override func pingAnswered() { pongs += 1 }
    }

    let record = Record()
    let pool = BufferPool(blockSize: 32 * 1024)
    let handler: Handler
    let session: HTTP2ClientSession
    let reader = FrameReader()
    var now = Instant(nanoseconds: 0)
    /// The reason why the session ended the connection.
    var fault: HTTP2Fault?
    /// The codes of the sent GOAWAY frames.
    private(set) var goAways: [UInt32] = []
    /// The number of bytes written.
    private(set) var written = 0
    private var hasPreface = false

    /// Creates a session.
    ///
    /// - Parameter greets: whether the prefaces and their acknowledgements have been exchanged.
    init(_ limits: HTTP2Limits = .client(), heads: HeadLimits = .standard, greets: Bool = true) {
        handler = Handler(record)
        session = HTTP2ClientSession(limits: limits, heads: heads, pool: pool, handler: handler)
        if greets {
            _ = frames()
            send(.settings(), .settingsAcknowledgement)
            _ = frames()
        }
    }

    /// Sends frames at once.
    func send(_ frames: Frame...) { send(frames.flatMap(\.bytes)) }

    func send(_ bytes: [UInt8]) {
        do throws(HTTP2Fault) {
            try session.receive(bytes.span, now: now)
        } catch {
            fault = error
        }
        session.finishEvent()
    }

    /// Returns the frames that the session sends.
    func frames(room: Int = 32 * 1024) -> [Frame] {
        let narrow = BufferPool(blockSize: max(1024, room))
        repeat {
            var more = true
            while more {
                var output = ByteBuffer(pool: narrow)
                do throws(HTTP2Fault) { try session.write(into: &output) } catch { fault = error }
                more = !output.isEmpty
                written += output.count
                reader.append(output.copy())
            }
        } while session.reportRoom()
        session.finishEvent()
        if !hasPreface { hasPreface = reader.take(24) == HTTP2Peer.preface }
        let found = reader.frames()
        goAways += found.filter { $0.kind == .goAway }.map { $0.number(at: 4) }
        return found
    }

    /// Begins a request.
    func ask(
        _ method: Method = .get, _ path: String = "/", content: Bool = false, _ fields: [(String, String)] = []
    ) throws(HTTP2OpenFailure) -> RecordingClientStream {
        let authority = Array("health.example".utf8)
        let stream = try session.open(method, scheme: "https", authority: authority.span, endsStream: !content) {
            $0.append(path)
        } fields: {
            for (name, value) in fields { $0.append("\(name): \(value)\r\n") }
        }
        guard let stream = stream as? RecordingClientStream else { preconditionFailure("the handler made it") }
        return stream
    }

    /// Begins a request and sends its frames.
    func sendRequest(_ method: Method = .get, content: Bool = false) throws -> RecordingClientStream {
        let stream = try ask(method, content: content)
        _ = frames()
        return stream
    }
}

/// A stream that records its events, and runs the actions of the test.
final class RecordingClientStream: HTTP2ClientStream {
    unowned let record: HTTP2ClientPeer.Record
    private(set) var head = ResponseHead()
    private(set) var fields: [String] = []

    init(_ record: HTTP2ClientPeer.Record, _ pool: BufferPool) {
        self.record = record
        super.init(pool: pool)
    }

    private func say(_ event: String) { record.events.append("\(number) \(event)") }

    private func text(_ fields: [HeaderField], _ bytes: Span<UInt8>) -> [String] {
        let copy = bytes.indices.map { bytes[$0] }
        func text(_ range: ByteRange) -> String { String(decoding: copy[range.start..<range.end], as: UTF8.self) }
        return fields.map { "\(text($0.nameRange)): \(text($0.valueRange))" }
    }

    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        self.head = head
        fields = text(head.fields, bytes)
        say("\(head.status) \(head.framing)")
        record.onHead?(self)
    }

    override func receive(content: Span<UInt8>) -> Int {
        let taken = min(content.count, record.appetite)
        if record.appetite != .max { record.appetite -= taken }
        for index in 0..<taken { record.content.append(content[index]) }
        record.onContent?(self)
        return taken
    }

    override func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {
        say("trailers \(text(trailers.fields, bytes))")
        record.onTrailers?(self)
    }

    override func responseEnded() {
        say("end")
        record.onEnd?(self)
    }

    override func requestSpaceAvailable() { record.onRoom?(self) }

    override func failed(_ failure: HTTP2StreamFailure) {
        say("failed \(failure)")
        record.onFailure?(self)
    }

    override func ended() {
        say("ended")
        record.onEnded?(self)
    }

    override func finishEvent() { record.settled += 1 }
}

extension Frame {
    /// Returns the head of a response.
    static func response(
        _ stream: UInt32, _ status: String = "200", _ fields: [(String, String)] = [], end: Bool = false
    ) -> Frame {
        headers(stream, [(":status", status)] + fields, end: end)
    }

    /// Returns a GOAWAY frame.
    ///
    /// - Parameter last: the highest stream that may be processed.
    static func goAway(last: UInt32, _ code: UInt32 = 0) -> Frame {
        Frame(kind: .goAway, payload: octets(last) + octets(code))
    }
}
