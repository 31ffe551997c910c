import Bytes
import CNghttp2
import EventLoop
@testable import HTTP
import Testing

/// A client by other authors: both sides understand each other.
@Suite("A client of nghttp2")
struct HTTP2ClientTests {
    /// The events that the client received. nghttp2's callbacks get its address, and each test keeps it alive.
    final class Client {
        var session: OpaquePointer?
        var fields: [Int32: [String]] = [:]
        var content: [Int32: [UInt8]] = [:]
        var closed: [Int32: UInt32] = [:]
        var upload: [UInt8] = []
        var uploaded = 0

        init() {
            var callbacks: OpaquePointer?
            nghttp2_session_callbacks_new(&callbacks)
            nghttp2_session_callbacks_set_on_header_callback(callbacks) {
                _, frame, name, nameLength, value, length, _, user in
                let text = [(name, nameLength), (value, length)].map {
                    String(decoding: UnsafeBufferPointer(start: $0.0, count: $0.1), as: UTF8.self)
                }
                guard let id = frame?.pointee.hd.stream_id else { return 0 }
                Client.from(user).fields[id, default: []].append("\(text[0]): \(text[1])")
                return 0
            }
            nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { _, _, id, data, length, user in
                Client.from(user).content[id, default: []] += UnsafeBufferPointer(start: data, count: length)
                return 0
            }
            nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, id, code, user in
                Client.from(user).closed[id] = code
                return 0
            }
            nghttp2_session_client_new(&session, callbacks, Unmanaged.passUnretained(self).toOpaque())
            nghttp2_session_callbacks_del(callbacks)
            nghttp2_submit_settings(session, 0, nil, 0)
        }

        deinit { nghttp2_session_del(session) }

        static func from(_ user: UnsafeMutableRawPointer?) -> Client {
            guard let user else { preconditionFailure("the session was given its client") }
            return Unmanaged<Client>.fromOpaque(user).takeUnretainedValue()
        }

        func request(_ method: String, _ path: String, _ fields: [(String, String)] = [], upload: [UInt8]? = nil)
            -> Int32
        {
            let all = HPACK.request(method, path) + fields
            var texts = all.flatMap { [Array($0.0.utf8), Array($0.1.utf8)] }
            for index in texts.indices { texts[index].append(0) }
            let pointers = texts.map { text in
                let copy = UnsafeMutablePointer<UInt8>.allocate(capacity: text.count)
                copy.initialize(from: text, count: text.count)
                return copy
            }
            defer { for pointer in pointers { pointer.deallocate() } }
            let list = all.indices.map { index in
                nghttp2_nv(
                    name: pointers[2 * index], value: pointers[2 * index + 1], namelen: all[index].0.utf8.count,
                    valuelen: all[index].1.utf8.count, flags: 0)
            }
            guard let upload else { return nghttp2_submit_request(session, nil, list, list.count, nil, nil) }
            self.upload = upload
            uploaded = 0
            var provider = nghttp2_data_provider()
            provider.read_callback = { _, _, room, length, flags, _, user in
                let client = Client.from(user)
                let count = min(length, client.upload.count - client.uploaded)
                UnsafeMutableRawBufferPointer(start: room, count: count)
                    .copyBytes(from: client.upload[client.uploaded..<(client.uploaded + count)])
                client.uploaded += count
                if client.uploaded == client.upload.count { flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
                return count
            }
            return nghttp2_submit_request(session, nil, list, list.count, &provider, nil)
        }

        /// Carries bytes in both directions until both sides are silent.
        func talk(to server: HTTP2Session, room: Int = 4096) throws {
            let pool = BufferPool(blockSize: room)
            var isBusy = true
            while isBusy {
                isBusy = false
                var start: UnsafePointer<UInt8>?
                let length = nghttp2_session_mem_send(session, &start)
                if length > 0 {
                    isBusy = true
                    let bytes = Array(UnsafeBufferPointer(start: start, count: length))
                    try server.receive(bytes.span, now: Instant(nanoseconds: 0))
                }
                var output = ByteBuffer(pool: pool)
                try server.write(into: &output)
                let bytes = output.copy()
                if !bytes.isEmpty {
                    isBusy = true
                    #expect(nghttp2_session_mem_recv(session, bytes, bytes.count) == bytes.count)
                }
                if server.reportRoom() { isBusy = true }
            }
        }
    }

    /// A stream that returns its content.
    final class Echo: HTTP2Stream {
        private var kept: [UInt8] = []
        private var sent = 0
        private var isComplete = false

        override func headReceived() {
            kept = []
            sent = 0
            isComplete = false
        }

        override func receive(content: Span<UInt8>) -> Int {
            for index in content.indices { kept.append(content[index]) }
            return content.count
        }

        override func contentEnded() {
            isComplete = true
            let text = "\(head.fields.count) fields"
            _ = sendHead(200, endsStream: false) { $0.appendField("X-Seen", Array(text.utf8).span) }
            outputDrained()
        }

        override func outputDrained() {
            guard isComplete else { return }
            while sent < kept.count {
                let taken = sendContent(kept.span.extracting(sent...))
                guard taken > 0 else { return }
                sent += taken
            }
            sendEnd()
        }
    }

    final class Handler: HTTP2Handler {
        override func makeStream(_ pool: BufferPool) -> HTTP2Stream { Echo(pool: pool) }
    }

    private let handler = Handler()
    private let pool = BufferPool()

    @Test(
        "any amount of content is echoed through the windows both ways",
        arguments: [0, 1, 16_384, 65_535, 65_536, 1_000_000])
    func echo(size: Int) throws {
        let server = HTTP2Session(limits: HTTP2Limits(), heads: .standard, pool: pool, handler: handler)
        let client = Client()
        let content = (0..<size).map { UInt8(truncatingIfNeeded: $0 * 31 + $0 >> 8) }
        let id = client.request("POST", "/echo", [("content-length", "\(size)"), ("x-a", "b")], upload: content)
        try client.talk(to: server)
        #expect(client.fields[id] == [":status: 200", "x-seen: 2 fields"])
        #expect(client.content[id, default: []] == content)
        #expect(client.closed[id] == 0)
        #expect(server.openStreams == 0)
        #expect(pool.outstanding == 0)
    }

    @Test("many requests are served concurrently and in sequence")
    func many() throws {
        let server = HTTP2Session(limits: HTTP2Limits(), heads: .standard, pool: pool, handler: handler)
        let client = Client()
        var ids: [Int32] = []
        for _ in 0..<5 {
            ids += (0..<60).map { client.request("GET", "/\($0)", [("accept", "*/*")]) }
            try client.talk(to: server)
        }
        #expect(ids.allSatisfy { client.closed[$0] == 0 })
        #expect(client.fields.values.allSatisfy { $0 == [":status: 200", "x-seen: 1 fields"] })
        #expect(server.requestCount == 300)
    }

    @Test("a freed session leaves nothing in memory")
    func freed() throws {
        weak var session: HTTP2Session?
        weak var stream: HTTP2Stream?
        do {
            let server = HTTP2Session(limits: HTTP2Limits(), heads: .standard, pool: pool, handler: handler)
            let client = Client()
            _ = client.request("GET", "/")
            try client.talk(to: server)
            session = server
            stream = server.streams.first
            #expect(stream != nil)
        }
        #expect(session == nil)
        #expect(stream == nil)
        #expect(pool.outstanding == 0)
    }
}
