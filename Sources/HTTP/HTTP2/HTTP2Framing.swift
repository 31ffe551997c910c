internal import Bytes
internal import CNghttp2
public import EventLoop

/// An HTTP/2 connection in either role: nghttp2's session, its input and output, and the reason of its end.
///
/// C and raw memory, each use marked `unsafe`. nghttp2 gets two pointers. One is this object with each callback, and
/// all callbacks run within a call of this object's methods. The other is a stream with each of its streams; the
/// session of the role retains them.
@safe public class HTTP2Framing {
    final let limits: HTTP2Limits
    final let pool: BufferPool
    final var watch: FrameWatch
    /// The memory of nghttp2's session.
    private final let memory: FrameMemory
    /// nghttp2's session. Freed in `deinit`, which calls no callbacks.
    private final let session: OpaquePointer
    /// Whether nghttp2 has said that it has no frame to make, and was not used since.
    private final var isSpent = false
    /// nghttp2's session, for any use that may lead to a frame.
    final var library: OpaquePointer {
        isSpent = false
        return unsafe session
    }

    /// The rest of a frame that was not appended yet. nghttp2 owns its memory until the next frame.
    private final var rest: UnsafeBufferPointer<UInt8>
    /// A copy of the rest of a frame that did not fit the caller's buffer, where sessions share nghttp2's memory for
    /// frames.
    private final var kept: BufferChain

    /// open -> terminating -> broken -> closed; each step may be left out.
    private enum Life {
        case open
        /// The next GOAWAY is our own decision.
        case terminating
        /// nghttp2 is in a state in which it may only be freed.
        case broken
        /// The connection is gone.
        case closed
    }

    final var now = Instant(nanoseconds: 0)
    /// The reason why the connection ends, if it is the peer's fault. The streams then receive only their end.
    public internal(set) final var fault: HTTP2Fault?
    private final var life = Life.open
    /// Whether `read` is running, so that nghttp2 and the streams are within an event.
    private(set) final var isReading = false
    /// Whether the peer has acknowledged our settings (RFC 9113 section 6.5.3).
    public internal(set) final var isAcknowledged = false
    /// The number of DATA frames that nghttp2 has reported.
    final var reportedData: UInt64 = 0

    /// Creates nghttp2's session and submits the settings.
    ///
    /// - Parameter pool: a pool whose blocks hold a head of `limits.headerList`.
    init(_ limits: HTTP2Limits, _ role: HTTP2Role, pool: BufferPool) {
        precondition(
            limits.headerList <= min(pool.blockSize, 65_535), "a head fits a block, and ranges are 16 bits wide")
        precondition(limits.connectionWindow >= 65_535, "a connection's window begins with 65,535 octets")
        self.limits = limits
        self.pool = pool
        memory = FrameMemory(pool.meter, pool.pieces, role == .server ? pool.frames : nil)
        kept = BufferChain(pool: pool)
        watch = FrameWatch(limits: limits, role: role)
        unsafe rest = UnsafeBufferPointer(start: nil, count: 0)
        unsafe session = LibrarySetup.makeSession(limits, role, memory)
        unsafe LibrarySetup.attach(self, to: session)
        unsafe LibrarySetup.submitSettings(limits, role, session)
    }

    deinit {
        unsafe nghttp2_session_del(session)
    }

    /// Whether nghttp2 may be used for the connection.
    final var isUsable: Bool { life == .open || life == .terminating }
    final var isClosed: Bool { life == .closed }
    final var isTerminating: Bool { life == .terminating }

    /// Records that the connection is gone.
    final func markClosed() {
        life = .closed
        kept.removeAll()
    }

    /// The bytes of memory that nghttp2 has for the connection, and of a frame that waits for the peer to read.
    public final var libraryMemory: Int { memory.used + kept.footprint }

    // MARK: - Input

    /// Takes bytes from the peer, as far as `watch` admits them. Calls streams.
    final func read(_ bytes: Span<UInt8>) {
        let stop = watch.look(at: bytes, now: now)
        let admitted = bytes.extracting(first: stop?.admitted ?? bytes.count)
        if !admitted.isEmpty, !isClosed {
            isReading = true
            let outcome = unsafe admitted.withUnsafeBufferPointer {
                unsafe nghttp2_session_mem_recv(library, $0.baseAddress, $0.count)
            }
            isReading = false
            if outcome < 0 { broke(Int32(outcome)) }
        }
        if let stop { end(stop.fault) }
    }

    /// Handles an error of nghttp2. All of them are fatal: the session must not be used any more.
    private final func broke(_ error: Int32) {
        life = .broken
        guard fault == nil else { return }
        switch error {
        case NGHTTP2_ERR_BAD_CLIENT_MAGIC.rawValue: fault = .prefaceMissing
        case NGHTTP2_ERR_FLOODED.rawValue: fault = .excess(.outboundFrames)
        default: fault = .failed(error)
        }
    }

    /// Ends the connection if too many frames wait for the peer to read.
    final func boundOutput(_ most: Int) {
        guard isUsable, unsafe nghttp2_session_get_outbound_queue_size(session) > most else { return }
        end(.excess(.outboundFrames))
    }

    // MARK: - Output

    /// The bytes of a frame that wait to be appended.
    final var restCount: Int { unsafe rest.count + kept.count }

    /// Appends frames as far as there is room. For a session that shares its memory for frames.
    final func appendFrames(to output: inout ByteBuffer) {
        guard restCount > 0 || !isSpent else { return }
        memory.makeFrames {
            while output.room > 0 {
                if restCount == 0, makeFrame() == 0 { break }
                appendRest(to: &output)
            }
            keepRest()
        }
    }

    private final func keepRest() {
        guard unsafe !rest.isEmpty else { return }
        unsafe kept.append(rest.span)
        unsafe rest = UnsafeBufferPointer(start: nil, count: 0)
    }

    /// Makes the next frame. Nothing of the previous one may be left.
    ///
    /// - Returns: its length, or 0 if there is none.
    final func makeFrame() -> Int {
        // Most events of a connection lead to no frame, and nghttp2 takes its time to find that out.
        guard isUsable, !isSpent else { return 0 }
        var start: UnsafePointer<UInt8>?
        let length = unsafe nghttp2_session_mem_send(session, &start)
        if length < 0 {
            life = .broken
            fault = fault ?? .failed(Int32(length))
        }
        guard length > 0 else {
            isSpent = true
            return 0
        }
        unsafe rest = UnsafeBufferPointer(start: start, count: length)
        return length
    }

    final func appendRest(to output: inout ByteBuffer) {
        guard kept.isEmpty else { return kept.move(into: &output) }
        let taken = unsafe output.appendPrefix(of: rest.span)
        unsafe rest = UnsafeBufferPointer(rebasing: rest[taken...])
    }

    final func dropRest() { unsafe rest = UnsafeBufferPointer(start: nil, count: 0) }

    /// Whether there are frames to be sent.
    final var hasFrames: Bool {
        unsafe restCount > 0 || (isUsable && !isSpent && nghttp2_session_want_write(session) != 0)
    }

    /// Whether nghttp2 has nothing more to send or to receive.
    final var isSilent: Bool {
        guard restCount == 0 else { return false }
        return unsafe !isUsable
            || (nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0)
    }

    // MARK: - Streams

    /// Returns the object of a stream. Nil if it has none, or its end was reported.
    @inline(__always)
    final func object<Stream: AnyObject>(of id: Int32) -> Stream? {
        guard let object = unsafe nghttp2_session_get_stream_user_data(session, id) else { return nil }
        return unsafe Unmanaged<Stream>.fromOpaque(object).takeUnretainedValue()
    }

    /// Sets the object of a stream, which is not retained.
    final func set(_ object: AnyObject?, of id: Int32) {
        unsafe nghttp2_session_set_stream_user_data(
            library, id, object.map { unsafe Unmanaged.passUnretained($0).toOpaque() })
    }

    // MARK: - Events, for the session of the role

    /// Called when a block of fields begins.
    ///
    /// - Parameter opensStream: whether it is the head of a request.
    func blockBegan(_ id: Int32, opensStream: Bool) {}
    /// Called for each field of the block.
    func fieldCame(_ name: Span<UInt8>, _ value: Span<UInt8>, on id: Int32) {}
    /// Called when the block is complete.
    func blockEnded(_ id: Int32, opensStream: Bool, endsStream: Bool) {}
    func contentCame(_ content: Span<UInt8>, on id: Int32) {}
    /// Called when DATA has ended the peer's half of a stream.
    func peerEnded(_ id: Int32) {}
    func settingsCame() {}
    func pingAnswered() {}
    /// Called for GOAWAY.
    ///
    /// - Parameter last: the highest stream that the peer has processed or will process.
    func peerGoesAway(_ code: HTTP2ErrorCode, last: Int32) {}
    /// Called when nghttp2 has closed a stream.
    func streamClosed(_ id: Int32, _ code: HTTP2ErrorCode) {}
    func headSent(on id: Int32) {}
    func headNotSent(on id: Int32) {}
    /// Called when END_STREAM was sent.
    func endSent(on id: Int32) {}
    func resetSent(_ code: HTTP2ErrorCode, on id: Int32) {}
    /// Fills a frame with content for nghttp2.
    ///
    /// - Returns: the number of bytes written to `room`, or an error of nghttp2.
    func produce(on id: Int32, _ room: UnsafeMutableBufferPointer<UInt8>, _ flags: inout UInt32) -> Int {
        Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
    }

    /// Counts a DATA frame that is all padding, whose header nghttp2 did not report.
    final func countPaddingAlone() {
        if let excess = watch.countEmptyFrame(now: now) { end(.excess(excess)) }
    }

    // MARK: - The end

    /// Ends the connection by our own decision, after GOAWAY with `code`. Open streams are not completed.
    public final func terminate(_ code: HTTP2ErrorCode) {
        guard life == .open else { return }
        life = .terminating
        unsafe nghttp2_session_terminate_session(library, code.rawValue)
    }

    /// Ends the connection with GOAWAY, because the peer broke a rule.
    final func end(_ fault: HTTP2Fault) {
        guard self.fault == nil else { return }
        self.fault = fault
        switch fault {
        case .violation(let code): terminate(code)
        case .prefaceMissing: terminate(.protocolError)
        case .excess, .failed: terminate(.enhanceYourCalm)
        }
    }

    /// Handles a sent GOAWAY. If it was not our decision, nghttp2 has found a fault of the peer.
    final func wentAway(_ code: HTTP2ErrorCode) {
        if code != .noError, !isTerminating, fault == nil { fault = .violation(code) }
    }
}

/// The limits of one HTTP/2 connection: its memory, and the rates of operations that cost us more than the peer.
///
/// They limit the memory of a connection to a head and an output block for each of `concurrentStreams`,
/// `connectionWindow` of content for all of them together, two header tables, and `outboundFrames` small frames.
public struct HTTP2Limits: Sendable {
    /// The maximum number of open streams (SETTINGS_MAX_CONCURRENT_STREAMS).
    public var concurrentStreams = 100
    /// The maximum size of a request's fields in bytes, plus 32 for each field (SETTINGS_MAX_HEADER_LIST_SIZE); at most
    /// 65,535. A larger request is `headTooLarge`; one that decodes to four times as much ends the connection.
    public var headerList = 16 * 1024
    /// The size in bytes of the compression tables of the peer and of ours (SETTINGS_HEADER_TABLE_SIZE).
    public var headerTable = 4096
    /// The maximum number of requests that wait for the end of their stream before their delivery: Content-Length is 0,
    /// and END_STREAM did not come with it.
    public var heldRequests = 16
    /// The bytes of content that a client may send ahead on one stream (SETTINGS_INITIAL_WINDOW_SIZE), and on all of
    /// them. The latter is at least 65,535, with which a connection begins (RFC 9113 section 6.9.2).
    public var streamWindow = 32 * 1024
    public var connectionWindow = 256 * 1024
    /// The maximum number of entries of one SETTINGS frame.
    public var settingsEntries = 32
    /// The maximum number of CONTINUATION frames behind one HEADERS frame, and the maximum size of the encoded block in
    /// bytes.
    public var continuations = 8
    public var headerBlock = 64 * 1024
    /// The maximum number of frames that wait for a client to read: acknowledgements, resets, windows.
    public var outboundFrames = 500
    /// The number of WINDOW_UPDATE frames that each sent DATA frame permits, beyond their rate.
    public var windowUpdatesPerData = 8
    /// Whether a CONNECT may ask for a WebSocket (RFC 8441; SETTINGS_ENABLE_CONNECT_PROTOCOL).
    public var extendedConnect = false

    /// The rate of SETTINGS frames, acknowledgements included.
    public var settings = Rate(1, per: .seconds(1), burst: 20)
    /// The rate of PING frames, acknowledgements included.
    public var pings = Rate(10, per: .seconds(1), burst: 100)
    /// The rate of streams that the client resets: each has cost a request, and the client nothing (CVE-2023-44487).
    public var resets = Rate(20, per: .seconds(1), burst: 200)
    /// The number of streams beyond `concurrentStreams` on one connection that are refused without being counted.
    public var excusedRefusals = 100
    /// The rate of streams that the client makes us reset, malformed requests included (CVE-2025-8671).
    public var provokedResets = Rate(2, per: .seconds(1), burst: 40)
    /// The rate of DATA without content, CONTINUATION without fields, and fields of ended streams.
    public var emptyFrames = Rate(10, per: .seconds(1), burst: 100)
    /// The rate of PRIORITY frames, which are obsolete (RFC 9113 section 5.3.2).
    public var priorities = Rate(10, per: .seconds(1), burst: 200)
    public var windowUpdates = Rate(50, per: .seconds(1), burst: 500)
    /// The rate of frames of unknown types, which are ignored (RFC 9113 section 5.5), and of ALTSVC, ORIGIN and GOAWAY.
    public var otherFrames = Rate(10, per: .seconds(1), burst: 100)

    public init() {}
}

extension HTTP2Limits {
    /// Returns the limits of a connection to a server. All its streams together may send ahead as much as each of them.
    /// So a stream whose content is not taken blocks no other, and the waiting content is limited.
    public static func client(concurrentStreams: Int = 100, streamWindow: Int = 64 * 1024) -> HTTP2Limits {
        var limits = HTTP2Limits()
        limits.concurrentStreams = concurrentStreams
        limits.streamWindow = streamWindow
        limits.connectionWindow = max(65_535, concurrentStreams * streamWindow)
        return limits
    }
}

/// The configuration of nghttp2 for a connection.
enum LibrarySetup {
    /// Creates a session.
    ///
    /// - Parameter memory: the memory, which outlives the session.
    fileprivate static func makeSession(_ limits: HTTP2Limits, _ role: HTTP2Role, _ memory: FrameMemory)
        -> OpaquePointer
    {
        var functions = unsafe memory.functions
        var callbacks: OpaquePointer?
        var options: OpaquePointer?
        var session: OpaquePointer?
        guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0, unsafe nghttp2_option_new(&options) == 0 else {
            fatalError("out of memory: nghttp2")  // as every other allocation in Swift does
        }
        defer {
            unsafe nghttp2_session_callbacks_del(callbacks)
            unsafe nghttp2_option_del(options)
        }
        unsafe LibraryCallbacks.set(callbacks)
        // Windows open when content has been used, not when it has arrived.
        unsafe nghttp2_option_set_no_auto_window_update(options, 1)
        // `RequestBlock` and `ResponseBlock` validate messages.
        unsafe nghttp2_option_set_no_http_messaging(options, 1)
        unsafe nghttp2_option_set_no_closed_streams(options, 1)
        unsafe nghttp2_option_set_max_settings(options, limits.settingsEntries)
        unsafe nghttp2_option_set_max_outbound_ack(options, limits.outboundFrames)
        // `FrameWatch` counts resets by the caller's clock, and CONTINUATION frames. nghttp2 counts the reads in which
        // their headers arrive, so a frame that arrives byte by byte would exceed its limit.
        unsafe nghttp2_option_set_max_continuations(options, 1 << 32)
        unsafe nghttp2_option_set_stream_reset_rate_limit(options, 1 << 32, 1 << 32)
        unsafe nghttp2_option_set_max_deflate_dynamic_table_size(options, limits.headerTable)
        let outcome =
            switch role {
            case .server: unsafe nghttp2_session_server_new3(&session, callbacks, nil, options, &functions)
            case .client: unsafe nghttp2_session_client_new3(&session, callbacks, nil, options, &functions)
            }
        guard outcome == 0, let session = unsafe session else { fatalError("out of memory: nghttp2") }  // likewise
        return unsafe session
    }

    /// Sets the user data of the session to its owner, unretained.
    fileprivate static func attach(_ owner: AnyObject, to session: OpaquePointer) {
        unsafe nghttp2_session_set_user_data(session, Unmanaged.passUnretained(owner).toOpaque())
    }

    /// Submits the settings, which are the first frame that the peer gets (RFC 9113 section 3.4).
    fileprivate static func submitSettings(_ limits: HTTP2Limits, _ role: HTTP2Role, _ session: OpaquePointer) {
        var entries: [nghttp2_settings_entry] = []
        func set(_ id: nghttp2_settings_id, _ value: Int) {
            entries.append(nghttp2_settings_entry(settings_id: Int32(id.rawValue), value: UInt32(value)))
        }
        switch role {
        case .server: set(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.concurrentStreams)
        // No unrequested pushes.
        case .client: set(NGHTTP2_SETTINGS_ENABLE_PUSH, 0)
        }
        set(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.streamWindow)
        set(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.headerList)
        set(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, limits.headerTable)
        // RFC 9218 section 2.1: priorities have no effect here.
        set(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1)
        if limits.extendedConnect { set(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1) }
        unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries, entries.count)
        unsafe nghttp2_session_set_local_window_size(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, Int32(limits.connectionWindow))
    }
}

/// Returns whether a frame has a flag.
func has(_ flag: nghttp2_flag, _ flags: UInt8) -> Bool { UInt32(flags) & flag.rawValue != 0 }

/// Our role on a connection.
enum HTTP2Role {
    case server, client
}

/// The version of nghttp2.
public enum NGHTTP2Version {
    /// The version of the loaded library, such as `1.52.0`.
    public static var text: String {
        // Without a required version it returns a static record.
        guard let record = unsafe nghttp2_version(0) else { return "unknown" }
        return unsafe String(cString: record.pointee.version_str)
    }
}
