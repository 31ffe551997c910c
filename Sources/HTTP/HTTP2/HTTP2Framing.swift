internal import Bytes
internal import CNghttp2
public import EventLoop

/// What a connection of HTTP/2 is in either role: nghttp2's session, the bytes that go in and out of it, and why it ends.
///
/// C and raw memory, each use marked `unsafe`. nghttp2 is handed two pointers: this object, with each callback, all of which
/// happen within a call of this object's methods; and a stream with each of its streams, all of which the role's own session keeps.
@safe public class HTTP2Framing {
    final let limits: HTTP2Limits
    final let pool: BufferPool
    final var watch: FrameWatch
    /// Where nghttp2's session lies.
    private final let memory: FrameMemory
    /// nghttp2's session. Freed in `deinit`, where it calls nobody.
    final let library: OpaquePointer

    /// A frame made by nghttp2 that did not fit the caller's buffer: its memory, until it is asked for the next.
    private final var rest: UnsafeBufferPointer<UInt8>

    final var now = Instant(nanoseconds: 0)
    /// Why the connection ends, if that is for what the other side did; the streams hear nothing after it but their end.
    public final var fault: HTTP2Fault? { reason }
    /// Not seen by other modules: each look at it would be checked for exclusivity, and it is looked at for every field.
    final var reason: HTTP2Fault?
    /// nghttp2 is in a state in which it may only be freed.
    private(set) final var isBroken = false
    /// Within `read`: nghttp2 and the streams are in the middle of something.
    private(set) final var isReading = false
    /// The connection is gone.
    final var isClosed = false
    /// GOAWAY that is sent from now on is our own word.
    private(set) final var isTerminating = false

    /// - Parameter pool: its blocks hold a head of `limits.headerList`.
    init(_ limits: HTTP2Limits, _ role: HTTP2Role, pool: BufferPool) {
        precondition(
            limits.headerList <= min(pool.blockSize, 65_535), "a head fits a block, and ranges are 16 bits wide")
        precondition(limits.connectionWindow >= 65_535, "a connection's window begins with 65,535 octets")
        self.limits = limits
        self.pool = pool
        memory = FrameMemory(pool.meter)
        watch = FrameWatch(limits: limits, role: role)
        unsafe rest = UnsafeBufferPointer(start: nil, count: 0)
        unsafe library = LibrarySetup.makeSession(limits, role, memory)
        unsafe LibrarySetup.attach(self, to: library)
        unsafe LibrarySetup.submitSettings(limits, role, library)
    }

    deinit {
        unsafe nghttp2_session_del(library)
    }

    /// Bytes of memory that nghttp2 has for the connection.
    public final var libraryMemory: Int { memory.used }

    // MARK: - In

    /// Takes bytes of the other side, as far as `watch` admits them. Streams are called within.
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

    /// All that nghttp2 returns of this kind is fatal: the session is not to be used any more.
    private final func broke(_ error: Int32) {
        isBroken = true
        guard reason == nil else { return }
        switch error {
        case NGHTTP2_ERR_BAD_CLIENT_MAGIC.rawValue: reason = .prefaceMissing
        case NGHTTP2_ERR_FLOODED.rawValue: reason = .excess(.outboundFrames)
        default: reason = .failed(error)
        }
    }

    /// What the other side makes us say waits until it reads.
    final func boundOutput(_ most: Int) {
        guard !isBroken, unsafe nghttp2_session_get_outbound_queue_size(library) > most else { return }
        end(.excess(.outboundFrames))
    }

    // MARK: - Out

    /// Octets of a frame that wait to be appended.
    final var restCount: Int { unsafe rest.count }

    /// Has nghttp2 make a frame. - Precondition: nothing is left of the one before. - Returns: its length; 0 if there is none.
    final func makeFrame() -> Int {
        guard !isBroken, !isClosed else { return 0 }
        var start: UnsafePointer<UInt8>?
        let length = unsafe nghttp2_session_mem_send(library, &start)
        if length < 0 {
            isBroken = true
            reason = reason ?? .failed(Int32(length))
        }
        guard length > 0 else { return 0 }
        unsafe rest = UnsafeBufferPointer(start: start, count: length)
        return length
    }

    final func appendRest(to output: inout ByteBuffer) {
        let taken = unsafe output.appendPrefix(of: rest.span)
        unsafe rest = UnsafeBufferPointer(rebasing: rest[taken...])
    }

    final func dropRest() { unsafe rest = UnsafeBufferPointer(start: nil, count: 0) }

    /// Whether there are frames to be sent.
    final var hasFrames: Bool {
        unsafe restCount > 0 || (!isBroken && !isClosed && nghttp2_session_want_write(library) != 0)
    }

    /// Whether nghttp2 has nothing more to say or to hear.
    final var isSilent: Bool {
        guard restCount == 0 else { return false }
        return unsafe isBroken || isClosed
            || (nghttp2_session_want_read(library) == 0 && nghttp2_session_want_write(library) == 0)
    }

    // MARK: - The end

    /// Ends the connection on our account, after GOAWAY with `code`; what is open is not completed.
    public final func terminate(_ code: HTTP2ErrorCode) {
        guard !isBroken, !isClosed, !isTerminating else { return }
        isTerminating = true
        unsafe nghttp2_session_terminate_session(library, code.rawValue)
    }

    /// The other side broke a rule of the connection: GOAWAY.
    final func end(_ fault: HTTP2Fault) {
        guard reason == nil else { return }
        reason = fault
        switch fault {
        case .violation(let code): terminate(code)
        case .prefaceMissing: terminate(.protocolError)
        case .excess, .failed: terminate(.enhanceYourCalm)
        }
    }

    /// GOAWAY was sent. That we did not ask for it: nghttp2 found what the other side did wrong.
    final func wentAway(_ code: HTTP2ErrorCode) {
        if code != .noError, !isTerminating, reason == nil { reason = .violation(code) }
    }
}

/// What one connection of HTTP/2 may take up, and how often a client may do what costs us more than it.
///
/// The memory of a connection is bounded by them: for each of `concurrentStreams` a head and an output block, for all of
/// them together `connectionWindow` of content, two header tables, and `outboundFrames` small frames.
public struct HTTP2Limits: Sendable {
    /// Streams that are open at once (SETTINGS_MAX_CONCURRENT_STREAMS).
    public var concurrentStreams = 100
    /// Octets of a request's fields, 32 more for each field (SETTINGS_MAX_HEADER_LIST_SIZE); at most 65,535. A request
    /// beyond it is `headTooLarge`; one that decodes to four times as much ends the connection.
    public var headerList = 16 * 1024
    /// Octets of the table that a client compresses its fields with, and of ours (SETTINGS_HEADER_TABLE_SIZE).
    public var headerTable = 4096
    /// Requests that wait for the end of their stream before anybody sees them: Content-Length is 0, and END_STREAM did not come with it.
    public var heldRequests = 16
    /// Octets of content that a client may send ahead on one stream (SETTINGS_INITIAL_WINDOW_SIZE), and on all of them;
    /// the latter at least 65,535, with which a connection begins (RFC 9113 section 6.9.2).
    public var streamWindow = 32 * 1024
    public var connectionWindow = 256 * 1024
    /// Entries of one SETTINGS frame.
    public var settingsEntries = 32
    /// CONTINUATION frames behind one HEADERS frame, and octets of the block before it is decoded.
    public var continuations = 8
    public var headerBlock = 64 * 1024
    /// Frames that wait for a client to read: acknowledgements, resets, windows.
    public var outboundFrames = 500
    /// WINDOW_UPDATE frames that each DATA frame sent entitles to, beyond their rate.
    public var windowUpdatesPerData = 8
    /// Whether a CONNECT may ask for a WebSocket (RFC 8441; SETTINGS_ENABLE_CONNECT_PROTOCOL).
    public var extendedConnect = false

    /// SETTINGS frames, acknowledgements included.
    public var settings = Rate(1, per: .seconds(1), burst: 20)
    /// PING frames, acknowledgements included.
    public var pings = Rate(10, per: .seconds(1), burst: 100)
    /// Streams that the client resets: each has cost a request, and the client nothing (CVE-2023-44487).
    public var resets = Rate(20, per: .seconds(1), burst: 200)
    /// Streams beyond `concurrentStreams` on one connection that are refused and no more.
    public var excusedRefusals = 100
    /// Streams that the client makes us reset, malformed requests included (CVE-2025-8671).
    public var provokedResets = Rate(2, per: .seconds(1), burst: 40)
    /// DATA without content, CONTINUATION without fields, fields of streams that are no longer there.
    public var emptyFrames = Rate(10, per: .seconds(1), burst: 100)
    /// PRIORITY frames. They mean nothing (RFC 9113 section 5.3.2).
    public var priorities = Rate(10, per: .seconds(1), burst: 200)
    public var windowUpdates = Rate(50, per: .seconds(1), burst: 500)
    /// Frames of unknown types, which are read over (RFC 9113 section 5.5); ALTSVC, ORIGIN and GOAWAY as well.
    public var otherFrames = Rate(10, per: .seconds(1), burst: 100)

    public init() {}
}

extension HTTP2Limits {
    /// Of a connection to a server. All its streams together may send ahead as much as each of them: so one whose content nobody takes
    /// keeps no other waiting, and what waits is bounded all the same.
    public static func client(concurrentStreams: Int = 100, streamWindow: Int = 64 * 1024) -> HTTP2Limits {
        var limits = HTTP2Limits()
        limits.concurrentStreams = concurrentStreams
        limits.streamWindow = streamWindow
        limits.connectionWindow = max(65_535, concurrentStreams * streamWindow)
        return limits
    }
}

/// How nghttp2 is set up for a connection.
enum LibrarySetup {
    /// - Parameter memory: outlives the session.
    static func makeSession(_ limits: HTTP2Limits, _ role: HTTP2Role, _ memory: FrameMemory) -> OpaquePointer {
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
        switch role {
        case .server: unsafe setCallbacks(callbacks)
        case .client: unsafe setClientCallbacks(callbacks)
        }
        // Windows open when content has been used, not when it has come.
        unsafe nghttp2_option_set_no_auto_window_update(options, 1)
        // Messages are judged by `RequestBlock` and `ResponseBlock`.
        unsafe nghttp2_option_set_no_http_messaging(options, 1)
        unsafe nghttp2_option_set_no_closed_streams(options, 1)
        unsafe nghttp2_option_set_max_settings(options, limits.settingsEntries)
        unsafe nghttp2_option_set_max_outbound_ack(options, limits.outboundFrames)
        // `FrameWatch` counts resets, by the caller's clock, and CONTINUATION frames: nghttp2 counts the reads that their
        // headers come in, so one that comes octet by octet would be too many.
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

    /// The session refers to `owner`, which owns it.
    static func attach(_ owner: AnyObject, to session: OpaquePointer) {
        unsafe nghttp2_session_set_user_data(session, Unmanaged.passUnretained(owner).toOpaque())
    }

    /// The settings are the first that the peer gets (RFC 9113 section 3.4).
    static func submitSettings(_ limits: HTTP2Limits, _ role: HTTP2Role, _ session: OpaquePointer) {
        var entries: [nghttp2_settings_entry] = []
        func set(_ id: nghttp2_settings_id, _ value: Int) {
            entries.append(nghttp2_settings_entry(settings_id: Int32(id.rawValue), value: UInt32(value)))
        }
        switch role {
        case .server: set(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.concurrentStreams)
        // Nobody is to send what was not asked for.
        case .client: set(NGHTTP2_SETTINGS_ENABLE_PUSH, 0)
        }
        set(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.streamWindow)
        set(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.headerList)
        set(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, limits.headerTable)
        // RFC 9218 section 2.1: priorities mean nothing here.
        set(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1)
        if limits.extendedConnect { set(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1) }
        unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries, entries.count)
        unsafe nghttp2_session_set_local_window_size(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, Int32(limits.connectionWindow))
    }
}

/// Whether a frame has a flag.
func has(_ flag: nghttp2_flag, _ flags: UInt8) -> Bool { UInt32(flags) & flag.rawValue != 0 }

/// Which end of a connection we are.
enum HTTP2Role {
    case server, client
}

/// Which nghttp2 this process runs with.
public enum NGHTTP2Version {
    /// As nghttp2 says it, `1.52.0`: of the library that was loaded.
    public static var text: String {
        // Asked for no least version, it answers with a record of its own that lives as long as the process.
        guard let record = unsafe nghttp2_version(0) else { return "unknown" }
        return unsafe String(cString: record.pointee.version_str)
    }
}
