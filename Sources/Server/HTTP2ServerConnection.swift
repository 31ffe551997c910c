internal import Bytes
internal import EventLoop
internal import HTTP

/// HTTP/2 on a client connection: each request is a stream with an exchange of its own.
///
/// `HTTP2Session` reads and writes the frames. This class has what the streams of a connection share: input and
/// output, deadlines, and the end. `RequestStream` serves one stream.
final class HTTP2ServerConnection: ConnectionProtocol {
    private let session: HTTP2Session
    private let handler: ServerStreamHandler
    /// Every stream object, at the index by which the session knows it; most of them serve nothing.
    private(set) var streams: [RequestStream] = []
    private var work: Work
    var life = ConnectionLife()
    /// The deadline of a client that reads nothing of what was written.
    private var outputTime: ClientTime
    /// Indices of streams whose response has moved since the last measurement. Kept for its capacity.
    private var moved: [Int] = []
    /// Indices of streams that have become tunnels, whose clients may have sent bytes before.
    private var openedTunnels: [Int] = []
    private var isFaultReported = false

    private enum Work {
        /// No request is in flight. The connection then ends at a time.
        case none(until: Instant)
        case requests(Int)
    }

    /// The stream whose head has begun, 0 for one that is over, and the deadline of the head.
    private var awaitedHead: (stream: Int32, end: Instant)?
    /// The connection's deadline as it was last set: never later than any wait.
    private var deadline = Instant(nanoseconds: .max)

    var settings: ServerSettings { connection.acceptor.settings }
    var now: Instant { connection.loop.now }

    override init(on connection: ServerConnection) {
        let settings = connection.acceptor.settings
        handler = ServerStreamHandler()
        session = HTTP2Session(
            limits: settings.http2, heads: settings.head, pool: connection.pool, handler: handler)
        outputTime = ClientTime(idle: settings.contentIdleTimeout, rate: settings.contentRate)
        work = .none(until: connection.loop.now + settings.keepAliveTimeout)
        super.init(on: connection)
        handler.owner = self
    }

    override func began() {
        outputTime.reset(now: now)
        connection.clearDeadline()
        awaitNext(now: now)
        if connection.endsWithResponse { drain() }
        // The server's preface (RFC 9113 section 3.4): some clients send nothing before it.
        connection.advance()
    }

    override var isIdle: Bool { if case .none = work { true } else { false } }
    private var requestsInFlight: Int { if case .requests(let count) = work { count } else { 0 } }

    override var footprint: Int {
        streams.reduce(session.libraryMemory + streams.count * MemoryCost.stream) {
            $0 + $1.footprint + ($1.exchange?.footprint ?? 0)
        }
    }

    override func inputEnded(isOrderly: Bool) {
        // Also if a client has only ended its sending side: none of ours does.
        connection.close(gracefully: isIdle)
    }

    /// Takes no more requests, in two steps, so that none on its way is lost (RFC 9113 section 6.8).
    override func drain() {
        guard life.announce(now: now) else { return }
        session.announceDrain()
        wait(until: life.noticeEnd)
        connection.advance()
    }

    override var isDecided: Bool {
        !life.takesRequests && streams.allSatisfy { !$0.isServing || $0.exchange?.isDecided ?? true }
    }

    override func closed() {
        session.close()
        // Exchanges and streams refer to each other.
        for stream in streams { stream.release() }
        meter.add(-streams.count * MemoryCost.stream)
    }

    private var meter: MemoryMeter { connection.pool.meter }

    // MARK: - In and out

    override func advance() {
        let connection = connection
        while let place = openedTunnels.popLast() { streams[place].tunnelBegins() }
        guard !connection.input.isEmpty else { return }
        guard !life.isLingering else { return readOver() }
        if let fault = Self.fault(of: connection.input.readable, to: session, now: now) { report(fault) }
        connection.input.removeAll()
        awaitHead()
    }

    /// Returns the error: a throwing call would prevent the compiler from inlining the access to the input.
    private static func fault(of bytes: Span<UInt8>, to session: HTTP2Session, now: Instant) -> HTTP2Fault? {
        do throws(HTTP2Fault) { try session.receive(bytes, now: now) } catch { return error }
        return nil
    }

    private func readOver() {
        let discarded = life.discarded(connection.input.count)
        connection.input.removeAll()
        if discarded > settings.lingerBytes { connection.close(gracefully: false) }
    }

    /// Writes frames of the session as far as there is room.
    ///
    /// - Returns: Whether there is something to send.
    private func produce() -> Bool {
        guard !life.isLingering else { return false }
        if life.takeFinalNotice() { session.drain() }
        do throws(HTTP2Fault) {
            try session.write(into: &connection.output)
        } catch {
            report(error)
        }
        return !connection.output.isEmpty
    }

    override func outputTaken(_ bytes: Int) {
        _ = outputTime.responseTaken(bytes, now: now)
        _ = session.reportRoom()
    }

    override func outputBlocked(taken bytes: Int) {
        outputTime.responseBlocked(taken: bytes, now: now)
        wait(until: outputTime.end)
        measure()
    }

    override func conclude() -> Bool {
        if produce() { return true }
        measure()
        if isOver { linger() }
        return false
    }

    /// Whether everything is sent. Streams that are left have incomplete heads, and no exchange serves them.
    private var isOver: Bool {
        switch life.phase {
        case .lingering: false
        case .ending: session.isFinished || isIdle && !session.hasOutput
        case .serving, .announced: session.isFinished
        }
    }

    /// Records that some of a stream's response was written or framed.
    func responseMoved(on stream: RequestStream) {
        moved.append(stream.place)
    }

    func tunnelOpened(_ stream: RequestStream) {
        openedTunnels.append(stream.place)
    }

    /// Measures which responses wait for their client, when nothing more can be framed.
    private func measure() {
        while let place = moved.popLast() { wait(until: streams[place].measureResponse(now: now)) }
    }

    // MARK: - Streams

    func add(_ stream: RequestStream) {
        streams.append(stream)
        meter.add(MemoryCost.stream)
    }

    /// The maximum of streams in flight of a connection while memory is short.
    private static let streamsUnderPressure = 4

    /// Returns whether the stream may be served. If not, nothing of it was processed, so the client may send it
    /// again.
    func admits(_ stream: RequestStream) -> Bool {
        if meter.pressure >= .refusesStreams, requestsInFlight >= Self.streamsUnderPressure {
            meter.budget.count(.streamRefused)
            return false
        }
        guard connection.isClientGood else {
            // A connection does not outlive its certificate. The next handshake fails with the exact alert.
            certificateEnded()
            return false
        }
        // A client that reads the last GOAWAY repeats the requests after the stream that it names.
        guard life.takesRequests else { return false }
        guard connection.acceptor.application.admitsStream(on: connection) else {
            session.countProvokedReset()
            return false
        }
        return true
    }

    func requestBegan() {
        work = .requests(requestsInFlight + 1)
        connection.acceptor.application.streamBegan(on: connection)
        connection.requests += 1
        if connection.requests >= settings.requestsPerConnection { life.endNow() }
    }

    func requestEnded() {
        connection.acceptor.application.streamEnded(on: connection)
        guard requestsInFlight == 1 else { return work = .requests(requestsInFlight - 1) }
        let end = now + settings.keepAliveTimeout
        work = .none(until: end)
        wait(until: end)
        // What served a burst of requests is not kept for the life of the connection.
        for stream in streams.dropFirst(Self.keptExchanges) { stream.release() }
    }

    /// Exchanges that an idle connection keeps.
    private static let keptExchanges = 4

    // MARK: - Time

    /// Moves the deadline forward.
    ///
    /// - Parameter instant: Nil if there is nothing to wait for.
    func wait(until instant: Instant?) {
        guard let instant, instant < deadline else { return }
        deadline = instant
        connection.setDeadline(instant)
    }

    /// A head that has begun must be complete in time: it keeps every other frame from arriving (RFC 9113 section
    /// 4.3).
    private func awaitHead() {
        guard session.isMidBlock else { return awaitedHead = nil }
        let stream = session.incompleteHead?.number ?? 0
        guard awaitedHead?.stream != stream else { return }
        let end = now + settings.headTimeout
        awaitedHead = (stream, end)
        wait(until: end)
    }

    /// Returns the deadline for what completes a head that has just arrived.
    func headEnd(of stream: RequestStream) -> Instant {
        guard let awaitedHead, awaitedHead.stream == stream.number else { return now + settings.headTimeout }
        return awaitedHead.end
    }

    override func deadlinePassed() {
        deadline = Instant(nanoseconds: .max)
        let now = now
        if life.isLingering { return connection.close(gracefully: false) }
        if let end = outputTime.end, end <= now { return cutOff() }
        if let end = connection.identityEnd, end <= now { certificateEnded() }
        guard connection.recognitionEnd > now else { return connection.abort() }
        if let head = awaitedHead, head.end <= now { headOverdue() }
        for stream in streams { wait(until: stream.judge(now: now, isWindowShut: session.isWindowShut)) }
        if case .none(let end) = work, end <= now { life.endNow() }
        life.timePassed(now: now)
        connection.advance()
        guard connection.isOpen else { return }
        awaitNext(now: now)
    }

    /// Sets the deadline of everything except streams.
    private func awaitNext(now: Instant) {
        guard !life.isLingering else { return }
        wait(until: outputTime.end)
        if let end = connection.identityEnd, end > now { wait(until: end) }
        wait(until: connection.recognitionEnd)
        wait(until: awaitedHead?.end)
        wait(until: life.noticeEnd)
        if case .none(let end) = work, life.takesRequests { wait(until: end) }
    }

    private func headOverdue() {
        awaitedHead = nil
        (session.incompleteHead as? RequestStream)?.headOverdue()
        // No other frame can arrive before the rest of that head.
        life.endNow()
    }

    /// Cuts off a client that reads nothing: no other answer can reach it.
    private func cutOff() {
        for stream in streams { stream.cutOff(.response) }
        connection.abort()
    }
}

/// Makes the session's streams.
private final class ServerStreamHandler: HTTP2Handler {
    /// Owns the session, and this.
    unowned var owner: HTTP2ServerConnection?

    override func makeStream(_ pool: BufferPool) -> HTTP2Stream {
        guard let owner else { preconditionFailure("a stream without its connection") }
        let stream = RequestStream(of: owner, pool: pool)
        owner.add(stream)
        return stream
    }
}

/// The end of a connection of HTTP/2.
///
/// The client always knows what happened to its requests: a stream that the last GOAWAY does not cover, or that is
/// refused, was not processed. One that it covers is completed, or ends with another code.
extension HTTP2ServerConnection {
    private func certificateEnded() {
        guard life.takesRequests else { return }
        connection.acceptor.application.connectionRefused(connection, .certificateExpired)
        life.endNow()
    }

    /// Reports that the client broke a rule of the connection; the session notifies it with GOAWAY.
    private func report(_ fault: HTTP2Fault) {
        guard !isFaultReported else { return }
        isFaultReported = true
        connection.acceptor.application.connectionRefused(connection, .http2(fault))
    }

    /// Ends the output. Closing immediately over unread input would reset the connection, and GOAWAY might not
    /// arrive.
    private func linger() {
        life.linger()
        connection.endSending()
        connection.setDeadline(now + settings.lingerTimeout)
    }
}
