import Bytes
import EventLoop
import HTTP

/// What streams do with a request.
struct Manners {
    let answersHeads: Bool
    let answersEnds: Bool
    let resetsFaults: Bool
    /// Whether a CONNECT may ask for a tunnel.
    let admitsTunnels: Bool
    /// Content that each stream takes before it has to be asked again.
    let appetite: Int

    init(_ byte: UInt8) {
        answersHeads = byte & 1 != 0
        answersEnds = byte & 2 != 0
        resetsFaults = byte & 4 != 0
        admitsTunnels = byte & 32 != 0
        appetite = [0, 1, 100, Int.max][Int(byte >> 3 & 3)]
    }
}

/// A connection from its preface to its end, and the events of its streams.
struct ServedConnection: Equatable {
    var events: [String] = []
    var content: [UInt8] = []
    var fault: HTTP2Fault?

    /// Returns whether the connection ends at an earlier point than another, for too many empty frames. The session counts
    /// DATA of ended streams after each read: a cut may count it before the request that grants credit for it.
    func exceeds(before other: ServedConnection) -> Bool {
        fault == .excess(.emptyFrames) && other.events.starts(with: events) && other.content.starts(with: content)
    }

    static func serve(
        _ bytes: [UInt8], inStepsOf step: Int, _ manners: Manners, writesBetween: Bool
    ) -> ServedConnection {
        let pool = BufferPool(blockSize: 4096)
        let narrow = BufferPool(blockSize: 1024)
        let listener = Listener(manners)
        do {
            var limits = HTTP2Limits()
            limits.concurrentStreams = 20
            limits.headerList = 2048
            limits.extendedConnect = manners.admitsTunnels
            limits.connectionWindow = 65_535
            // Looked at after each piece, so it would tell how the bytes were cut.
            limits.outboundFrames = 1 << 20
            let heads = HeadLimits(bytes: 2_048, target: 512, fields: 32)
            let session = HTTP2Session(limits: limits, heads: heads, pool: pool, handler: listener)
            var start = 0
            while start < bytes.count {
                let end = min(start + step, bytes.count)
                do throws(HTTP2Fault) {
                    try session.receive(bytes.span.extracting(start..<end), now: Instant(nanoseconds: 0))
                } catch {
                    if !listener.isOver { listener.observed.fault = error }
                    break
                }
                start = end
                // A frame that does not fit stays where nghttp2 made it while more is received.
                if writesBetween {
                    var output = ByteBuffer(pool: narrow)
                    do throws(HTTP2Fault) { try session.write(into: &output) } catch {}
                    _ = session.reportRoom()
                }
            }
            let observed = listener.observed
            write(session, pool)
            session.close()
            precondition(session.openStreams == 0, "a stream is open after the end")
            listener.observed = observed
        }
        precondition(pool.outstanding == 0, "\(pool.outstanding) blocks were not given back")
        return listener.observed
    }

    private static func write(_ session: HTTP2Session, _ pool: BufferPool) {
        repeat {
            var more = true
            while more {
                var output = ByteBuffer(pool: pool)
                do throws(HTTP2Fault) { try session.write(into: &output) } catch {}
                more = !output.isEmpty
            }
        } while session.reportRoom()
    }
}

final class Listener: HTTP2Handler {
    let manners: Manners
    var observed = ServedConnection()
    /// The client has said its last word. What it begins all the same nghttp2 serves if it came in the same read, or if another
    /// stream is open: either is good.
    var isOver = false

    init(_ manners: Manners) { self.manners = manners }

    override func makeStream(_ pool: BufferPool) -> HTTP2Stream { ServedStream(self, pool) }
    override func clientGoesAway(_ code: HTTP2ErrorCode) {
        if !isOver { observed.events.append("goes away \(code)") }
        isOver = true
    }
}

final class ServedStream: HTTP2Stream {
    private unowned let listener: Listener
    private var appetite = 0

    init(_ listener: Listener, _ pool: BufferPool) {
        self.listener = listener
        super.init(pool: pool)
    }

    private func say(_ event: String) {
        guard !listener.isOver else { return }
        listener.observed.events.append("\(number) \(event)")
    }

    override func headReceived() {
        appetite = listener.manners.appetite
        let request = ReadHead(head, headBytes.copy())
        precondition(request == request.readAgain, "\(request) is \(String(describing: request.readAgain)) in HTTP/1.1")
        say("\(request) \(head.framing)\(head.opensWebSocket ? " tunnel" : "")")
        if listener.manners.answersHeads { answer(413) }
    }

    override func receive(content: Span<UInt8>) -> Int {
        let taken = min(content.count, appetite)
        appetite -= taken
        for index in 0..<taken where !listener.isOver { listener.observed.content.append(content[index]) }
        return taken
    }

    override func contentEnded() {
        say("end")
        if listener.manners.answersEnds, !isAnswered { answer(200) }
    }

    override func requestFaulted(_ fault: MessageFault) {
        say("fault \(fault)")
        if listener.manners.resetsFaults || isAnswered { reset(.protocolError) } else { answer(400) }
    }

    override func abandoned(_ code: HTTP2ErrorCode) { say("abandoned \(code)") }
    override func ended() { say("ended") }

    private func answer(_ status: UInt16) {
        _ = sendHead(status, endsStream: false) { $0.appendField("Content-Type", "text/plain") }
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: 3_000)
        _ = sendContent(text.span)
        sendEnd { $0.appendField("X-Sum", "1") }
    }
}

/// A head as it was understood, and as HTTP/1.1's parser understands it when it is written for it.
struct ReadHead: Equatable {
    var method: Method?
    var target: [UInt8]
    var authority: [UInt8]
    var host: [UInt8]
    /// Without those of framing and connection, and Host.
    var fields: [[[UInt8]]]

    init(_ head: RequestHead, _ bytes: [UInt8]) {
        func text(_ range: ByteRange) -> [UInt8] { Array(bytes[range.start..<range.end]) }
        method = head.method
        target = text(head.path) + (head.query.map { Array("?".utf8) + text($0) } ?? [])
        authority = text(head.authority)
        host = text(head.host)
        fields = head.fields.compactMap { field in
            switch field.name {
            case .host, .contentLength, .expect: nil
            default: [text(field.nameRange), text(field.valueRange)]
            }
        }
    }

    /// Nil if HTTP/1.1's parser refuses it.
    var readAgain: ReadHead? {
        let name = method.map { String(describing: $0.name) } ?? "UNKNOWN"
        var made = Array("\(name) ".utf8) + target + Array(" HTTP/1.1\r\nHost: ".utf8) + authority + Array("\r\n".utf8)
        for field in fields { made += field[0] + Array(": ".utf8) + field[1] + Array("\r\n".utf8) }
        made += Array("\r\n".utf8)
        var parser = RequestHeadParser(limits: HeadLimits(bytes: 16_384, target: 512, fields: 33))
        var head = RequestHead()
        guard case .complete(made.count)? = try? parser.parse(made.span, into: &head) else { return nil }
        return ReadHead(head, made)
    }
}
