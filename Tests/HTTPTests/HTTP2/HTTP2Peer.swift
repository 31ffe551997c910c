import Bytes
import EventLoop
import HTTP
import Testing

/// A session, and a client that sends it arbitrary frames.
final class HTTP2Peer {
    /// The events of the session's streams, in order.
    final class Record {
        var events: [String] = []
        var streams: [RecordingStream] = []
        /// The actions in these events.
        var onHead: ((RecordingStream) -> Void)?
        var onContent: ((RecordingStream) -> Void)?
        var onEnd: ((RecordingStream) -> Void)?
        var onFault: ((RecordingStream) -> Void)?
        var onRoom: ((RecordingStream) -> Void)?
        /// The amount of content that a stream takes before it pauses.
        var appetite = Int.max
        var content: [UInt8] = []
    }

    final class Handler: HTTP2Handler {
        let record: Record

        init(_ record: Record) { self.record = record }

        override func makeStream(_ pool: BufferPool) -> HTTP2Stream {
            let stream = RecordingStream(record, pool)
            record.streams.append(stream)
            return stream
        }

        override func clientGoesAway(_ code: HTTP2ErrorCode) { record.events.append("client goes away: \(code)") }
    }

    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    let record = Record()
    let pool: BufferPool
    let handler: Handler
    let session: HTTP2Session
    var now = Instant(nanoseconds: 0)
    /// The reason why the session ended the connection.
    var fault: HTTP2Fault?
    /// The codes of the sent GOAWAY frames.
    private(set) var goAways: [UInt32] = []
    private let reader = FrameReader()

    /// Creates a session.
    ///
    /// - Parameters:
    ///   - greets: whether preface and settings have been exchanged.
    ///   - pool: the pool of the session's loop.
    init(
        _ limits: HTTP2Limits = HTTP2Limits(), heads: HeadLimits = .standard, greets: Bool = true,
        pool: BufferPool = BufferPool(blockSize: 32 * 1024)
    ) {
        self.pool = pool
        handler = Handler(record)
        session = HTTP2Session(limits: limits, heads: heads, pool: pool, handler: handler)
        if greets {
            send(Self.preface + Frame.settings().bytes + Frame.settingsAcknowledgement.bytes)
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
                reader.append(output.copy())
            }
        } while session.reportRoom()
        let found = reader.frames()
        goAways += found.filter { $0.kind == .goAway }.map { $0.number(at: 4) }
        return found
    }

    /// Reads what one call of `write` has room for.
    ///
    /// - Returns: whether there was anything.
    func readPiece(room: Int) -> Bool {
        var output = ByteBuffer(pool: BufferPool(blockSize: room))
        do throws(HTTP2Fault) { try session.write(into: &output) } catch { fault = error }
        reader.append(output.copy())
        return !output.isEmpty
    }

    /// Returns the frames of one call of `write`: one record of TLS, as the client reads it.
    func oneWrite() -> [Frame.Kind] {
        var output = ByteBuffer(pool: BufferPool(blockSize: 32 * 1024))
        do throws(HTTP2Fault) { try session.write(into: &output) } catch { fault = error }
        reader.append(output.copy())
        return reader.frames().map(\.kind)
    }

    /// Returns the fields of a HEADERS frame of the session. All of them must be read, in order.
    func fields(_ frame: Frame) -> [String] { reader.fields(frame) }
}

/// A stream that records its events, and runs the actions of the test.
final class RecordingStream: HTTP2Stream {
    unowned let record: HTTP2Peer.Record

    init(_ record: HTTP2Peer.Record, _ pool: BufferPool) {
        self.record = record
        super.init(pool: pool)
    }

    private func text(_ range: ByteRange) -> String {
        String(decoding: headBytes.copy()[range.start..<range.end], as: UTF8.self)
    }

    private func say(_ event: String) { record.events.append("\(number) \(event)") }

    override func headReceived() {
        let method = head.method.map { String(describing: $0.name) } ?? (head.opensWebSocket ? "websocket" : "?")
        let query = head.query.map { "?" + text($0) } ?? ""
        say("\(method) \(text(head.authority)) \(text(head.path))\(query) \(head.framing)")
        record.onHead?(self)
    }

    var fields: [String] { head.fields.map { "\(text($0.nameRange)): \(text($0.valueRange))" } }

    override func receive(content: Span<UInt8>) -> Int {
        record.onContent?(self)
        let taken = min(content.count, record.appetite)
        if record.appetite != .max { record.appetite -= taken }
        for index in 0..<taken { record.content.append(content[index]) }
        return taken
    }

    override func contentEnded() {
        say("end")
        record.onEnd?(self)
    }

    override func requestFaulted(_ fault: MessageFault) {
        say("fault \(fault)")
        record.onFault?(self)
    }

    override func outputDrained() { record.onRoom?(self) }
    override func abandoned(_ code: HTTP2ErrorCode) { say("abandoned \(code)") }
    override func ended() { say("ended") }

    /// Answers with `status` and `content`.
    func answer(_ status: UInt16, _ content: String = "") {
        _ = sendHead(status, endsStream: content.isEmpty) { $0.appendField("Content-Type", "text/plain") }
        guard !content.isEmpty else { return }
        let bytes = Array(content.utf8)
        _ = sendContent(bytes.span)
        sendEnd()
    }
}

/// Helpers of all attacks.
extension HTTP2Peer {
    /// Sends the frames of `made` until the connection ends.
    ///
    /// - Returns: the number of repetitions.
    func attack(most: Int = 5000, reads: Bool = true, _ made: (Int) -> [Frame]) -> Int {
        for round in 0..<most {
            send(made(round).flatMap(\.bytes))
            if fault == nil, reads { _ = frames() }
            if fault != nil { return round }
        }
        return most
    }

    /// Expects the end of a connection for `excess`: one GOAWAY, no further reads, and no memory held.
    func expectCalm(_ excess: HTTP2Excess) {
        #expect(fault == .excess(excess))
        _ = frames()
        #expect(goAways == [HTTP2ErrorCode.enhanceYourCalm.rawValue])
        #expect(session.isFinished)
        let events = record.events
        send(.get(0x7fff_fff1))
        #expect(record.events == events)
        session.close()
        #expect(session.openStreams == 0)
        #expect(pool.outstanding == 0)
    }
}
