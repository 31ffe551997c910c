internal import Bytes
internal import CNghttp2
internal import EventLoop
internal import HTTP

/// Requests on one connection of HTTP/2, one after the other: HPACK both ways and nghttp2's session, without TLS and sockets.
enum HTTP2Operation {
    private static let times = 300

    static func make(_ sample: AttestedSample) throws -> CountedOperation {
        // Each repetition continues with the next stream ids.
        var frames = try Requests(sample).frames((times / 2) + times + 2 * times)[...]
        let pool = BufferPool(blockSize: 32 * 1024)
        let handler = Answering()
        let session = HTTP2Session(limits: HTTP2Limits(), heads: .standard, pool: pool, handler: handler)
        let preface =
            Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0] + [0, 0, 0, 4, 1, 0, 0, 0, 0]
        try session.receive(preface.span, now: Instant(nanoseconds: 0))
        try write(session, pool)
        return CountedOperation(name: "http2", times: times) { count in
            for frame in frames.prefix(count) {
                try session.receive(frame.span, now: Instant(nanoseconds: 0))
                try write(session, pool)
            }
            frames = frames.dropFirst(count)
            guard handler.answered == session.requestCount, session.openStreams == 0 else {
                throw Refused(description: "\(handler.answered) of \(session.requestCount) requests were answered")
            }
        }
    }

    private static func write(_ session: HTTP2Session, _ pool: BufferPool) throws {
        var more = true
        while more {
            var output = ByteBuffer(pool: pool)
            try session.write(into: &output)
            more = !output.isEmpty
        }
    }
}

/// The HEADERS frames of a client that compresses its fields, and sends the same ones again but for the proof's.
private final class Requests {
    private let sample: AttestedSample
    private let deflater: OpaquePointer

    init(_ sample: AttestedSample) throws {
        self.sample = sample
        var made: OpaquePointer?
        guard nghttp2_hd_deflate_new(&made, 4096) == 0, let made else { throw Refused(description: "no HPACK") }
        deflater = made
    }

    deinit { nghttp2_hd_deflate_del(deflater) }

    func frames(_ count: Int) throws -> [[UInt8]] { try (0..<count).map { try frame(UInt32(2 * $0 + 1)) } }

    private func frame(_ stream: UInt32) throws -> [UInt8] {
        let indexed =
            [
                (":method", "GET"), (":scheme", "https"), (":authority", "health.example"),
                (":path", "\(AttestedSample.path)?\(AttestedSample.query)"),
            ] + AttestedSample.fields.map { ($0.0.lowercased(), $0.1) }
        let proof = [("signature-input", sample.signatureInput), ("signature", sample.signature)]
        let fields =
            indexed.map { (Array($0.0.utf8), Array($0.1.utf8), NGHTTP2_NV_FLAG_NONE) }
            // Another one every time, so no client keeps it in its table.
            + proof.map { (Array($0.0.utf8), $0.1, NGHTTP2_NV_FLAG_NO_INDEX) }
        var bytes = fields.flatMap { $0.0 + $0.1 }
        var block = [UInt8](repeating: 0, count: 4096)
        let length = bytes.withUnsafeMutableBufferPointer { text -> Int in
            var start = 0
            let entries = fields.map { name, value, flag in
                defer { start += name.count + value.count }
                let place = text.baseAddress.map { $0 + start }
                return nghttp2_nv(
                    name: place, value: place.map { $0 + name.count }, namelen: name.count, valuelen: value.count,
                    flags: UInt8(flag.rawValue))
            }
            return nghttp2_hd_deflate_hd(deflater, &block, block.count, entries, entries.count)
        }
        guard length > 0 else { throw Refused(description: "HPACK: \(length)") }
        // HEADERS with END_STREAM and END_HEADERS (RFC 9113 section 6.2).
        let header = [UInt8(length >> 16), UInt8(length >> 8 & 0xff), UInt8(length & 0xff), 1, 5]
        return header + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: stream >> $0) } + block[..<length]
    }
}

private final class Answering: HTTP2Handler {
    var answered = 0

    override func makeStream(_ pool: BufferPool) -> HTTP2Stream { AnsweringStream(self, pool) }
}

private final class AnsweringStream: HTTP2Stream {
    private unowned let handler: Answering

    init(_ handler: Answering, _ pool: BufferPool) {
        self.handler = handler
        super.init(pool: pool)
    }

    override func contentEnded() {
        guard sendHead(204, endsStream: true, fields: { $0.appendField("Server", "health") }) else { return }
        handler.answered += 1
    }
}
