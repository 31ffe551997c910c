internal import EventLoop

/// Looks at the header of every frame before the library does, and counts what costs the peer next to nothing.
///
/// The library tells of frames only as far as it takes them seriously: not of those for streams that are closed, of unknown
/// types, or within a block of fields that it skips. What is counted here is everything, and what is beyond a limit
/// the library never sees.
struct FrameWatch {
    /// Types of frames (RFC 9113 section 6).
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
    /// Octets that are no frame header: of a client's preface first, of a payload later.
    private var skip: Int
    /// No frame has come yet.
    private var isFirst = true
    /// The header of a frame as far as it has come, the last octet lowest: 24 bits length, 8 type, 8 flags; and the stream.
    private var header: UInt64 = 0
    private var stream: UInt32 = 0
    private var headerCount = 0
    /// Of the last frame.
    private var type: UInt8 = 0
    /// CONTINUATION has to follow.
    private var isBlockOpen = false

    /// The highest stream the client has opened, and which of those below: bit n is of stream highest - 2(n + 1).
    private var highestStream: UInt32 = 0
    private var openedBelow: UInt64 = 0
    /// Sections of trailers still to be expected: one of each stream.
    private var trailers = 0
    /// In the client role: blocks of fields still to be expected, of all that was asked.
    private var answers = 0
    /// Of requests that were given up: a server may have answered, or reset, each of them before it heard of that.
    private var lateAnswers = 0
    private var lateResets = 0
    private var continuations = 0
    private var blockLength = 0
    private var windowUpdateCredit = 0
    private var pingCredit = 0
    private var resetCredit = 0
    /// In the server role: DATA frames of any length or with END_STREAM, and those of them that were of streams that are over.
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

    static let prefaceLength = 24
    /// More credit than this nobody needs at once.
    private static let creditLimit = 4096

    /// What of a request may well be on its way when it was answered, or reset: a stream's window in frames of half a KiB.
    private static let lateDataPerRequest = 64

    /// More than a head, trailers, and the interim responses that are admitted before them no response has.
    private static let answersPerRequest = 18

    /// - Parameter role: ours.
    init(limits: HTTP2Limits, role: HTTP2Role) {
        self.limits = limits
        self.role = role
        skip = role == .server ? Self.prefaceLength : 0
    }

    /// Looks at bytes of the connection, in their order.
    ///
    /// - Returns: nil if all of them may be read; else how many of them, and what is wrong with the frame behind these.
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

    /// Of the frame whose header is complete.
    private mutating func judge(_ length: Int, _ now: Instant) -> HTTP2Fault? {
        type = UInt8(truncatingIfNeeded: header >> 8)
        let number = stream & 0x7fff_ffff
        if role == .client {
            // A server's preface is its settings (RFC 9113 section 3.4). What speaks HTTP/1.1 begins with other octets.
            let isPreface = type == FrameType.settings && UInt8(truncatingIfNeeded: header) & Self.acknowledgement == 0
            if isFirst, !isPreface { return .prefaceMissing }
            isFirst = false
            // A server that has read our settings, which came before any request, sends no push promise (RFC 9113
            // section 8.4).
            if type == FrameType.pushPromise { return .violation(.protocolError) }
        }
        // RFC 9113 section 6.3; the library does not look at what has no meaning any more.
        if type == FrameType.priority, number == 0 { return .violation(.protocolError) }
        if type == FrameType.headers, isUnexpected(number) { return .violation(.protocolError) }
        return count(type, UInt8(truncatingIfNeeded: header), length, number, now).map { .excess($0) }
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

    /// A new stream, its trailers, or fields for a stream that no longer exists. These are decoded as well, to keep the
    /// compression table correct, and then dropped.
    private mutating func beginBlock(_ length: Int, _ flags: UInt8, _ stream: UInt32, _ now: Instant) -> HTTP2Excess? {
        isBlockOpen = flags & Self.endHeaders == 0
        continuations = 0
        blockLength = length
        guard length <= limits.headerBlock else { return .headerBlock }
        if stream > highestStream {
            let distance = (stream - highestStream + 1) / 2
            openedBelow = openedBelow << distance | 1 << (distance - 1)
            highestStream = stream
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

    /// A stream that was left out when a higher one was opened (RFC 9113 section 5.1.1). The library cannot tell it from one that
    /// was served and is over, whose frames are read over.
    private func isUnexpected(_ stream: UInt32) -> Bool {
        guard stream < highestStream, (highestStream - stream).isMultiple(of: 2) else { return false }
        let place = (highestStream - stream) / 2 - 1
        return place < UInt64.bitWidth && openedBelow >> place & 1 == 0
    }

    /// CVE-2024-28182: a block without an end.
    private mutating func continueBlock(_ length: Int, _ flags: UInt8, _ now: Instant) -> HTTP2Excess? {
        isBlockOpen = flags & Self.endHeaders == 0
        continuations += 1
        blockLength += length
        guard continuations <= limits.continuations else { return .continuations }
        guard blockLength <= limits.headerBlock else { return .headerBlock }
        return length == 0 ? countEmptyFrame(now: now) : nil
    }

    /// In the server role: whether a block of fields has begun, whosever it is, and is not complete.
    var isMidBlock: Bool {
        isBlockOpen || skip > 0 && (type == FrameType.headers || type == FrameType.continuation)
    }

    private mutating func countData(_ length: Int, _ flags: UInt8, _ now: Instant) -> HTTP2Excess? {
        guard length > 0 || flags & Self.endStream != 0 else { return countEmptyFrame(now: now) }
        data += 1
        return nil
    }

    /// In the server role, when the library has read all that was looked at: counts DATA of streams that are over, which it reads
    /// over and does not tell of.
    ///
    /// - Parameter reported: how many of the frames seen here the library has reported so far, except those without content
    ///   or END_STREAM.
    mutating func checkData(reported: UInt64, now: Instant) -> HTTP2Excess? {
        // Of one whose payload is not complete nobody knows yet.
        let open: UInt64 = type == FrameType.data && skip > 0 ? 1 : 0
        guard data > reported + lateData + open else { return nil }
        for _ in 0..<(data - reported - lateData - open) {
            lateData += 1
            guard !spend(&lateDataCredit) else { continue }
            if let excess = countEmptyFrame(now: now) { return excess }
        }
        return nil
    }

    /// In the client role: a head or trailers, or fields for a stream that is no longer there.
    private mutating func beginAnswer(_ length: Int, _ now: Instant) -> HTTP2Excess? {
        continuations = 0
        blockLength = length
        guard length <= limits.headerBlock else { return .headerBlock }
        return spend(&answers) || spend(&lateAnswers) ? nil : countEmptyFrame(now: now)
    }

    /// - Returns: whether there was credit.
    private func spend(_ credit: inout Int) -> Bool {
        guard credit > 0 else { return false }
        credit -= 1
        return true
    }

    /// A DATA frame was sent: the peer may well give its window back, and measure what the way there takes (gRPC does).
    mutating func dataSent() {
        windowUpdateCredit = min(windowUpdateCredit + limits.windowUpdatesPerData, Self.creditLimit)
        pingCredit = min(pingCredit + 1, Self.creditLimit)
    }

    /// A request was made, to which there is an answer, or a reset, and maybe windows for what will follow.
    mutating func requestBegan() {
        answers = min(answers + Self.answersPerRequest, Self.answersPerRequest * limits.concurrentStreams)
        resetCredit = min(resetCredit + 1, limits.concurrentStreams)
        windowUpdateCredit = min(windowUpdateCredit + limits.windowUpdatesPerData, Self.creditLimit)
        pingCredit = min(pingCredit + 1, Self.creditLimit)
    }

    /// A request was given up. What it is owed does not lapse when the next one takes its place among those that are open.
    mutating func requestCancelled() {
        lateAnswers += Self.answersPerRequest
        lateResets += 1
    }

    /// A PING was sent, which is to be answered.
    mutating func pinged() {
        pingCredit = min(pingCredit + 1, Self.creditLimit)
    }

    /// Also for DATA of nothing but padding, which its header does not tell.
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
