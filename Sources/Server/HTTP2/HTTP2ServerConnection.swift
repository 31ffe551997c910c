internal import Bytes
internal import EventLoop
internal import HTTP

/// HTTP/2 on a client connection: each request is a stream with an exchange of its own.
///
/// `HTTP2Session` reads and makes the frames. Here is what the connection's streams have in common: bytes in and out,
/// time, and the end. `HTTP2ServerConnection+End` announces the end to the client. What one stream does is in
/// `RequestStream`.
final class HTTP2ServerConnection: ConnectionProtocol {
    let session: HTTP2Session
    private let handler: ServerStreamHandler
    /// Every stream object there is, at the places the session knows them by; most of them serve nothing.
    private(set) var streams: [RequestStream] = []
    /// Requests under way.
    private(set) var serving = 0
    var life = ConnectionLife()
    /// How long the client is waited for that takes nothing of all that was written.
    private var outputTime: ClientTime
    /// Places of streams whose response has moved since that was looked at. Kept for its room.
    private var moved: [Int] = []
    /// There are such. Looked at more often than the list, which would cost a check for exclusivity each time.
    private var hasMoved = false
    /// Places of streams that have become tunnels, and whose clients may have sent something before.
    private var openedTunnels: [Int] = []
    private var hasOpenedTunnels = false
    var isFaultReported = false
    /// Octets read over since the connection was to end.
    private var lingered = 0

    /// When the idle time ends, if no request is under way.
    private var idleEnd: Instant
    /// The stream whose head has begun, 0 for one that is over, and when it is overdue.
    private var awaitedHead: (stream: Int32, end: Instant)?
    /// The connection's deadline as it was set last: never later than anything that is waited for.
    private var deadline = Instant(nanoseconds: .max)

    var settings: ServerSettings { connection.acceptor.settings }
    var now: Instant { connection.loop.now }

    override init(on connection: ServerConnection) {
        let settings = connection.acceptor.settings
        handler = ServerStreamHandler()
        session = HTTP2Session(
            limits: settings.http2, heads: settings.head, pool: connection.pool, handler: handler)
        outputTime = ClientTime(idle: settings.contentIdleTimeout, rate: settings.contentRate)
        idleEnd = connection.loop.now + settings.keepAliveTimeout
        super.init(on: connection)
        handler.owner = self
    }

    override func began() {
        outputTime.reset(now: now)
        connection.clearDeadline()
        wait(until: idleEnd)
        if let end = connection.identityEnd { wait(until: end) }
        wait(until: connection.recognitionEnd)
        if connection.acceptor.isDraining { drain() }
        // The server's preface (RFC 9113 section 3.4): there are clients that say nothing before it.
        connection.advance()
    }

    override var isIdle: Bool { serving == 0 }

    override var footprint: Int {
        streams.reduce(session.libraryMemory + streams.count * MemoryCost.stream) {
            $0 + $1.footprint + ($1.exchange?.footprint ?? 0)
        }
    }

    override func inputEnded(isOrderly: Bool) {
        // Also a client that has only ended its sending side: none of ours does.
        connection.close(gracefully: isIdle)
    }

    /// The worker is about to end, or its configuration: no more requests, in two steps, so that none is lost that is on its way
    /// (RFC 9113 section 6.8).
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
        // Exchanges and streams know each other.
        for stream in streams { stream.release() }
        meter.add(-streams.count * MemoryCost.stream)
    }

    private var meter: MemoryMeter { connection.pool.meter }

    // MARK: - In and out

    override func advance() {
        let connection = connection
        if hasOpenedTunnels {
            hasOpenedTunnels = false
            while let place = openedTunnels.popLast() { streams[place].tunnelBegins() }
        }
        guard !connection.input.isEmpty else { return }
        guard life.phase != .lingering else { return readOver() }
        if let fault = Self.fault(of: connection.input.readable, to: session, now: now) { report(fault) }
        connection.input.removeAll()
        awaitHead()
    }

    /// What throws would keep the compiler from seeing through the access to what has come.
    private static func fault(of bytes: Span<UInt8>, to session: HTTP2Session, now: Instant) -> HTTP2Fault? {
        do throws(HTTP2Fault) { try session.receive(bytes, now: now) } catch { return error }
        return nil
    }

    private func readOver() {
        lingered += connection.input.count
        connection.input.removeAll()
        if lingered > settings.lingerBytes { connection.close(gracefully: false) }
    }

    /// Takes frames from the session as far as there is room. - Returns: whether there is something to write.
    private func produce() -> Bool {
        guard life.phase != .lingering else { return false }
        if life.takeFinalNotice() { session.drain() }
        do throws(HTTP2Fault) {
            try session.write(into: &connection.output)
        } catch {
            report(error)
        }
        return !connection.output.isEmpty
    }

    override func outputTaken(_ octets: Int) {
        _ = outputTime.responseTaken(octets, now: now)
        _ = session.reportRoom()
    }

    override func outputBlocked(taken octets: Int) {
        outputTime.responseBlocked(taken: octets, now: now)
        wait(until: outputTime.end)
        measure()
    }

    override func conclude() -> Bool {
        if produce() { return true }
        measure()
        if isOver { linger() }
        return false
    }

    /// Whether all is said. What is left then are streams that nobody serves, since their clients have not completed the head.
    private var isOver: Bool {
        switch life.phase {
        case .lingering: false
        case .ending: session.isFinished || serving == 0 && !session.hasOutput
        case .serving, .announced: session.isFinished
        }
    }

    /// Something of a stream's response was written or framed.
    func responseMoved(on stream: RequestStream) {
        hasMoved = true
        moved.append(stream.place)
    }

    func tunnelOpened(_ stream: RequestStream) {
        hasOpenedTunnels = true
        openedTunnels.append(stream.place)
    }

    /// Looks which responses wait for their client now that nothing more can be framed.
    private func measure() {
        guard hasMoved else { return }
        hasMoved = false
        while let place = moved.popLast() { wait(until: streams[place].measureResponse(now: now)) }
    }

    // MARK: - Streams

    func add(_ stream: RequestStream) {
        streams.append(stream)
        meter.add(MemoryCost.stream)
    }

    /// Streams that a connection may have under way while memory is short.
    private static let streamsUnderPressure = 4

    /// - Returns: false if the stream may not be served: nothing of it has been looked at, so the client may send it again.
    func admits(_ stream: RequestStream) -> Bool {
        if meter.pressure >= .refusesStreams, serving >= Self.streamsUnderPressure {
            meter.budget.count(.streamRefused)
            return false
        }
        guard connection.isClientGood else {
            // The connection lives no longer than its certificate. The next handshake says so with the exact alert.
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
        serving += 1
        connection.acceptor.application.streamBegan(on: connection)
        connection.requestCount += 1
        if connection.requestCount >= settings.requestsPerConnection { life.endNow() }
    }

    func requestEnded() {
        serving -= 1
        connection.acceptor.application.streamEnded(on: connection)
        guard serving == 0 else { return }
        idleEnd = now + settings.keepAliveTimeout
        wait(until: idleEnd)
        // A crowd of requests came once; what served it is not kept for as long as the connection.
        for stream in streams.dropFirst(Self.keptExchanges) { stream.release() }
    }

    /// Of idle connections.
    private static let keptExchanges = 4

    // MARK: - Time

    /// - Parameter instant: nil for nothing to wait for.
    func wait(until instant: Instant?) {
        guard let instant, instant < deadline else { return }
        deadline = instant
        connection.setDeadline(instant)
    }

    /// A head that has begun must be complete in time: it keeps every other frame from coming (RFC 9113 section 4.3).
    private func awaitHead() {
        guard session.isMidBlock else { return awaitedHead = nil }
        let stream = session.incompleteHead?.number ?? 0
        guard awaitedHead?.stream != stream else { return }
        let end = now + settings.headTimeout
        awaitedHead = (stream, end)
        wait(until: end)
    }

    /// - Returns: by when what belongs to a head that has just come has to be there.
    func headEnd(of stream: RequestStream) -> Instant {
        guard let awaitedHead, awaitedHead.stream == stream.number else { return now + settings.headTimeout }
        return awaitedHead.end
    }

    override func deadlinePassed() {
        deadline = Instant(nanoseconds: .max)
        let now = now
        if life.phase == .lingering { return connection.close(gracefully: false) }
        if let end = outputTime.end, end <= now { return cutOff() }
        if let end = connection.identityEnd, end <= now { certificateEnded() }
        guard connection.recognitionEnd > now else { return connection.abort() }
        if let head = awaitedHead, head.end <= now { headOverdue() }
        for stream in streams { wait(until: stream.judge(now: now, isWindowShut: session.isWindowShut)) }
        if serving == 0, idleEnd <= now { life.endNow() }
        life.timePassed(now: now)
        connection.advance()
        guard connection.isOpen else { return }
        awaitNext(now: now)
    }

    /// Everything that is not a stream's.
    private func awaitNext(now: Instant) {
        guard life.phase != .lingering else { return }
        wait(until: outputTime.end)
        if let end = connection.identityEnd, end > now { wait(until: end) }
        wait(until: connection.recognitionEnd)
        wait(until: awaitedHead?.end)
        wait(until: life.noticeEnd)
        if serving == 0, life.takesRequests { wait(until: idleEnd) }
    }

    private func headOverdue() {
        awaitedHead = nil
        (session.incompleteHead as? RequestStream)?.headOverdue()
        // No frame can come but the rest of that head.
        life.endNow()
    }

    /// The client takes nothing of what was written: nothing can be said to it any more.
    private func cutOff() {
        for stream in streams { stream.cutOff(.response) }
        connection.abort()
    }
}

/// Gives the session its streams.
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
