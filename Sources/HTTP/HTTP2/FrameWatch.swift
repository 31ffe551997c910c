internal import EventLoop

/// A filter that inspects every frame header before nghttp2, and counts cheap frames.
///
/// nghttp2 reports only frames that it handles: not those for closed streams, of unknown types, or within a skipped
/// block of fields. This type counts all frames, and nghttp2 never sees those beyond a limit.
struct FrameWatch {
    /// The types of frames (RFC 9113 section 6).
    private enum FrameType {
        static let data: UInt8 = 0
        static let headers: UInt8 = 1
        static let priority: UInt8 = 2
        static let reset: UInt8 = 3
        static let settings: UInt8 = 4
        static let pushPromise: UInt8 = 5
        static let ping: UInt8 = 6
        static let windowUpdate: UInt8 = 8
        static let continuation: UInt8 = 9
    }

    private static let endStream: UInt8 = 0x1
    private static let endHeaders: UInt8 = 0x4
    private static let acknowledgement: UInt8 = 0x1
    private static let headerLength = 9

    private let limits: HTTP2Limits
    private let role: HTTP2Role
    /// The number of bytes that are no frame header: of the client's preface first, of a payload later.
    private var skip: Int
    /// Whether no frame has arrived yet.
    private var isFirst = true
    /// The received part of a frame header, the last byte lowest: 24 bits length, 8 type, 8 flags; and the stream.
    private var header: UInt64 = 0
    private var stream: UInt32 = 0
    private var headerCount = 0
    /// The type of the last frame.
    private var type: UInt8 = 0
    /// Whether CONTINUATION must follow.
    private var isBlockOpen = false

    /// The client's half of its streams, in the server role.
    private var streams = ClientStreams()
    /// The number of trailer sections still expected: one of each stream.
    private var trailers = 0
    /// The number of blocks of fields still expected for all requests, in the client role.
    private var answers = 0
    /// The number of blocks expected for cancelled requests: a server may have answered or reset each of them before it
    /// received the cancellation.
    private var lateAnswers = 0
    private var lateResets = 0
    private var continuations = 0
    private var blockLength = 0
    private var windowUpdateCredit = 0
    private var pingCredit = 0
    private var resetCredit = 0
    /// In the server role, the number of DATA frames of any length or with END_STREAM, and of those for ended streams.
    private var data: UInt64 = 0
    private var lateData: UInt64 = 0
    private var lateDataCredit = 0

    private var settings = TokenBucket()
    private var pings = TokenBucket()
    private var resets = TokenBucket()
    private var provokedResets = TokenBucket()
    private var emptyFrames = TokenBucket()
    private var priorities = TokenBucket()
    private var windowUpdates = TokenBucket()
    private var otherFrames = TokenBucket()

    private static let prefaceLength = 24
    /// The maximum credit. Nobody needs more at once.
    private static let creditLimit = 4096

    /// The DATA frames of a request that may be in flight when it is answered or reset: a stream's window in frames of
    /// half a KiB.
    private static let lateDataPerRequest = 64

    /// The blocks of fields of one response: a head, trailers, and the maximum of interim responses before them.
    private static let answersPerRequest = 18

    /// Creates a filter.
    ///
    /// - Parameter role: our role.
    init(limits: HTTP2Limits, role: HTTP2Role) {
        self.limits = limits
        self.role = role
        skip = role == .server ? Self.prefaceLength : 0
    }

    /// Inspects bytes of the connection in their order.
    ///
    /// - Returns: nil if all bytes may be read, otherwise the number of admissible bytes, and the fault of the frame
    ///   behind them.
    mutating func look(at bytes: Span<UInt8>, now: Instant) -> (admitted: Int, fault: HTTP2Fault)? {
        var position = 0
        while position < bytes.count {
            if skip > 0 {
                let skipped = min(skip, bytes.count - position)
                skip -= skipped
                position += skipped
                continue
            }
            let byte = bytes[position]
            if headerCount < 5 { header = header << 8 | UInt64(byte) } else { stream = stream << 8 | UInt32(byte) }
            headerCount += 1
            position += 1
            guard headerCount == Self.headerLength else { continue }
            let length = Int(header >> 16)
            if let fault = judge(length, now) { return (max(0, position - Self.headerLength), fault) }
            skip = length
            header = 0
            stream = 0
            headerCount = 0
        }
        return nil
    }

    /// Checks a frame whose header is complete.
    private mutating func judge(_ length: Int, _ now: Instant) -> HTTP2Fault? {
        type = UInt8(truncatingIfNeeded: header >> 8)
        let number = stream & 0x7fff_ffff
        if role == .client {
            // A server's preface is its settings (RFC 9113 section 3.4). HTTP/1.1 begins with other bytes.
            let isPreface = type == FrameType.settings && UInt8(truncatingIfNeeded: header) & Self.acknowledgement == 0
            if isFirst, !isPreface { return .prefaceMissing }
            isFirst = false
            // A server that has read our settings, which precede any request, sends no push promise (RFC 9113 section
            // 8.4).
            if type == FrameType.pushPromise { return .violation(.protocolError) }
        }
        let flags = UInt8(truncatingIfNeeded: header)
        switch type {
        case FrameType.data, FrameType.headers:
            if let code = streams.frameCame(on: number, isEnded: flags & Self.endStream != 0) {
                return .violation(code)
            }
        // RFC 9113 section 6.3; nghttp2 does not check obsolete frames.
        case FrameType.priority where number == 0: return .violation(.protocolError)
        case FrameType.reset: streams.cancel(number)
        default: break
        }
        return count(type, flags, length, number, now).map { .excess($0) }
    }

    private mutating func count(
        _ type: UInt8, _ flags: UInt8, _ length: Int, _ stream: UInt32, _ now: Instant
    ) -> HTTP2Excess? {
        switch type {
        case FrameType.data: countData(length, flags, now)
        case FrameType.headers: role == .server ? beginBlock(length, flags, stream, now) : beginAnswer(length, now)
        case FrameType.continuation: continueBlock(length, flags, now)
        case FrameType.priority: Self.take(&priorities, limits.priorities, now, .priorities)
        case FrameType.reset:
            spend(&resetCredit) || spend(&lateResets) ? nil : Self.take(&resets, limits.resets, now, .resets)
        case FrameType.settings: Self.take(&settings, limits.settings, now, .settings)
        case FrameType.ping: spend(&pingCredit) ? nil : Self.take(&pings, limits.pings, now, .pings)
        case FrameType.windowUpdate:
            spend(&windowUpdateCredit) ? nil : Self.take(&windowUpdates, limits.windowUpdates, now, .windowUpdates)
        default: Self.take(&otherFrames, limits.otherFrames, now, .otherFrames)
        }
    }

    /// Checks a block of fields: a new stream, its trailers, or fields for an ended stream. The latter are decoded to
    /// keep the compression table correct, and then dropped.
    private mutating func beginBlock(_ length: Int, _ flags: UInt8, _ stream: UInt32, _ now: Instant) -> HTTP2Excess? {
        isBlockOpen = flags & Self.endHeaders == 0
        continuations = 0
        blockLength = length
        guard length <= limits.headerBlock else { return .headerBlock }
        if stream > streams.highest {
            streams.open(stream, isEnded: flags & Self.endStream != 0)
            trailers = min(trailers + 1, limits.concurrentStreams)
            lateDataCredit = min(lateDataCredit + Self.lateDataPerRequest, Self.creditLimit)
            return nil
        }
        guard trailers == 0 else {
            trailers -= 1
            return nil
        }
        return countEmptyFrame(now: now)
    }

    /// Checks a CONTINUATION frame. CVE-2024-28182 is a block without an end.
    private mutating func continueBlock(_ length: Int, _ flags: UInt8, _ now: Instant) -> HTTP2Excess? {
        isBlockOpen = flags & Self.endHeaders == 0
        continuations += 1
        blockLength += length
        guard continuations <= limits.continuations else { return .continuations }
        guard blockLength <= limits.headerBlock else { return .headerBlock }
        return length == 0 ? countEmptyFrame(now: now) : nil
    }

    /// Whether a block of fields of any stream has begun and is not complete, in the server role.
    var isMidBlock: Bool {
        isBlockOpen || skip > 0 && (type == FrameType.headers || type == FrameType.continuation)
    }

    private mutating func countData(_ length: Int, _ flags: UInt8, _ now: Instant) -> HTTP2Excess? {
        guard length > 0 || flags & Self.endStream != 0 else { return countEmptyFrame(now: now) }
        data += 1
        return nil
    }

    /// Counts DATA of ended streams in the server role, which nghttp2 ignores without a report. Call it when nghttp2
    /// has read everything that was inspected. So a request also grants credit for DATA before it in the same read.
    ///
    /// - Parameter reported: the number of these frames that nghttp2 has reported, except those without content or
    ///   END_STREAM.
    mutating func checkData(reported: UInt64, now: Instant) -> HTTP2Excess? {
        // The kind of a frame with an incomplete payload is unknown.
        let open: UInt64 = type == FrameType.data && skip > 0 ? 1 : 0
        guard data > reported + lateData + open else { return nil }
        for _ in 0..<(data - reported - lateData - open) {
            lateData += 1
            guard !spend(&lateDataCredit) else { continue }
            if let excess = countEmptyFrame(now: now) { return excess }
        }
        return nil
    }

    /// Returns the streams with frames behind the client's own reset, each once, and forgets these frames.
    mutating func takeLateStreams() -> [UInt32] { streams.takeLate() }

    /// Checks a head or trailers, or fields for a stream that is gone, in the client role.
    private mutating func beginAnswer(_ length: Int, _ now: Instant) -> HTTP2Excess? {
        continuations = 0
        blockLength = length
        guard length <= limits.headerBlock else { return .headerBlock }
        return spend(&answers) || spend(&lateAnswers) ? nil : countEmptyFrame(now: now)
    }

    /// Spends credit.
    ///
    /// - Returns: whether there was any.
    private func spend(_ credit: inout Int) -> Bool {
        guard credit > 0 else { return false }
        credit -= 1
        return true
    }

    /// Grants credit for a sent DATA frame: the peer may return its window and measure the round trip (as gRPC does).
    mutating func dataSent() {
        windowUpdateCredit = min(windowUpdateCredit + limits.windowUpdatesPerData, Self.creditLimit)
        pingCredit = min(pingCredit + 1, Self.creditLimit)
    }

    /// Grants credit for a request: its response or reset, and window updates for its content.
    mutating func requestBegan() {
        answers = min(answers + Self.answersPerRequest, Self.answersPerRequest * limits.concurrentStreams)
        resetCredit = min(resetCredit + 1, limits.concurrentStreams)
        windowUpdateCredit = min(windowUpdateCredit + limits.windowUpdatesPerData, Self.creditLimit)
        pingCredit = min(pingCredit + 1, Self.creditLimit)
    }

    /// Grants credit for a cancelled request. It does not lapse when the next one takes its place among the open ones.
    mutating func requestCancelled() {
        lateAnswers += Self.answersPerRequest
        lateResets += 1
    }

    /// Grants credit for a sent PING, which is to be answered.
    mutating func pinged() {
        pingCredit = min(pingCredit + 1, Self.creditLimit)
    }

    /// Counts an empty frame. Also for DATA with only padding, which its header does not show.
    mutating func countEmptyFrame(now: Instant) -> HTTP2Excess? {
        Self.take(&emptyFrames, limits.emptyFrames, now, .emptyFrames)
    }

    mutating func countProvokedReset(now: Instant) -> HTTP2Excess? {
        Self.take(&provokedResets, limits.provokedResets, now, .provokedResets)
    }

    private static func take(
        _ bucket: inout TokenBucket, _ rate: Rate, _ now: Instant, _ excess: HTTP2Excess
    ) -> HTTP2Excess? {
        bucket.take(rate, now: now) == nil ? nil : excess
    }
}
