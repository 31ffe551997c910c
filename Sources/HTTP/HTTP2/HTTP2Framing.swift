internal import Bytes
internal import CNghttp2
internal import EventLoop

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
