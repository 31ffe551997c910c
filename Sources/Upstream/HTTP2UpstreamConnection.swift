internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// A connection that speaks HTTP/2 and carries many calls at once, each an `UpstreamStream`.
///
/// `HTTP2ClientSession` reads and writes the frames. This class has what the connection's streams share: its beginning,
/// its bytes, its timeouts, and its end.
///
/// No call begins before the server has sent its SETTINGS (RFC 9113 section 3.4). So a server that speaks another
/// protocol gets no byte of a request, and a server that admits few streams gets no more.
final class HTTP2UpstreamConnection: UpstreamConnection {
    /// The session on the present socket. Nil until it is connected.
    private(set) var session: HTTP2ClientSession?
    private let handler = UpstreamStreamHandler()
    var input: ByteBuffer
    /// The calls that wait for the server's SETTINGS.
    private var waiting: [UpstreamCall] = []
    /// The streams in flight, followed by objects for the next ones.
    private(set) var active: [UpstreamStream] = []
    private var spare: [UpstreamStream] = []
    /// The streams whose client takes content again.
    private var resumed: [UpstreamStream] = []
    /// Whether calls begin at once.
    private var hasBegun = false
    /// Whether no call uses the connection.
    var isIdle = false
    /// Whether the connection gets no more calls.
    private(set) var isRetired = false
    /// Whether an event is being handled. The connection is closed at its end if necessary.
    private var isWorking = false
    private var isWorkDue = false
    /// The reason to close the connection at the end of the event.
    private(set) var loss: UpstreamFailure?
    /// Whether the end has already been counted for or against the server.
    private var isEndJudged = false
    /// The time of the last received bytes. 0 if there were none.
    var lastReceived = Instant(nanoseconds: 0)
    /// The deadline for the server to accept some of the output.
    private var outputEnd: Instant?
    private var idleEnd: Instant?
    /// The time from which the connection gets no more calls, because the server has long accepted no content on it.
    /// Nil while its window is open.
    private var shutEnd: Instant?
    /// The deadline set last, which is never later than any event that is awaited.
    private var deadline = Instant(nanoseconds: .max)

    override init(pool: UpstreamPool, server: Int, addressesLeft: Int, socket: consuming Socket, isCheck: Bool) {
        input = ByteBuffer(pool: pool.buffers)
        super.init(pool: pool, server: server, addressesLeft: addressesLeft, socket: socket, isCheck: isCheck)
        handler.owner = self
    }

    // MARK: - The beginning

    override func established() {
        if case .tls(let stream) = transport, !stream.hasAgreedOnHTTP2 {
            return notSent(tlsFailure("the server did not select HTTP/2 (ALPN h2)"))
        }
        var limits = HTTP2Limits.client(concurrentStreams: pool.settings.streams)
        limits.headerList = min(pool.settings.head.bytes, pool.buffers.blockSize, 65_535)
        session = HTTP2ClientSession(
            limits: limits, heads: pool.settings.head, pool: pool.buffers, handler: handler)
        session?.resetsLeft = Self.mostResets
        shutEnd = nil
        lastReceived = Instant(nanoseconds: 0)
        wantRead(true)
        deadline = connectDeadline
        if transport.hasBufferedInput { readAgain() }
    }

    /// Whether the server has shown that it speaks HTTP/2.
    private var isGreeted: Bool { session?.isGreeted == true }

    /// Continues after a failure before the first byte: with the next address, or for each call with the next server.
    override func notSent(_ failure: UpstreamFailure) {
        session = nil
        hasBegun = false
        outputEnd = nil
        deadline = Instant(nanoseconds: .max)
        output.removeAll()
        input.removeAll()
        do throws(UpstreamFailure) {
            try reconnect(for: nil, after: failure, isExtended: false)
        } catch {
            discard()
            let calls = waiting
            waiting = []
            // One call may have ended another that waited.
            for call in calls where call.awaited === self { leaveWaiting(call, after: error) }
        }
    }

    private func leaveWaiting(_ call: UpstreamCall, after failure: UpstreamFailure) {
        call.awaited = nil
        guard isCheck else { return pool.move(call, from: self, after: failure) }
        call.failed(failure, again: .never)
        call.finishEvent()
    }

    /// Handles the server's SETTINGS, the first or later ones.
    fileprivate func capacityChanged() { pool.capacityChanged(on: self) }

    /// Begins the waiting calls once the server has sent its SETTINGS.
    private func beginWaiting() {
        guard isGreeted, !hasBegun else { return }
        guard loss == nil, session?.mayOpen == true else { return notAdmitted() }
        hasBegun = true
        endSearch()
        // A check concerns its server alone.
        if session?.capacity == 0, !isCheck { pool.admitsNone(server) }
        clearDeadline()
        deadline = Instant(nanoseconds: .max)
        wait(until: outputEnd)
        let calls = waiting
        waiting = []
        for call in calls {
            guard call.awaited === self else { continue }
            call.awaited = nil
            guard hasRoom else {
                if isCheck { leaveWaiting(call, after: .refused) } else { pool.reassign(call, from: self) }
                continue
            }
            call.began(on: .http2(carry(call)))
            call.finishEvent()
        }
    }

    /// Handles a server that has greeted and at once admits no request, or disconnects. It counts as a refused
    /// connection.
    private func notAdmitted() {
        // Sends GOAWAY if the server has broken a rule; the rule is known only when the frame is made.
        flush()
        let failure = loss ?? .refused
        loss = nil
        isRetired = false
        notSent(failure)
    }

    // MARK: - Calls

    /// Whether one more call may begin, or wait for the server.
    var hasRoom: Bool {
        guard isOpen, !isRetired, loss == nil else { return false }
        guard hasBegun, let session else { return waiting.count < pool.settings.streams }
        return session.capacity > 0
    }

    /// Whether no content can be sent on any stream now.
    var isWindowShut: Bool { hasBegun && session?.isWindowShut == true }

    /// Takes a call.
    ///
    /// - Returns: nil if the call waits for the server; `began(on:)` is called then.
    func take(_ call: UpstreamCall) -> UpstreamStream? {
        if isIdle { endIdleness() }
        guard hasBegun else {
            call.awaited = self
            waiting.append(call)
            return nil
        }
        return carry(call)
    }

    private func carry(_ call: UpstreamCall) -> UpstreamStream {
        let stream = spare.popLast() ?? UpstreamStream()
        stream.begin(call, on: self, slot: active.count)
        active.append(stream)
        call.carrier = .http2(stream)
        return stream
    }

    /// Removes a waiting call.
    func leave(_ call: UpstreamCall) {
        call.awaited = nil
        waiting.removeAll { $0 === call }
        if isCheck { return discard() }
        pool.callEnded(on: self)
        workSoon()
    }

    /// Releases the stream of an ended call. The rest of the stream has no user.
    func release(_ stream: UpstreamStream) {
        let last = active.removeLast()
        if last !== stream {
            active[stream.slot] = last
            last.slot = stream.slot
        }
        // Objects from a rare peak are not kept.
        if spare.count < Self.keptObjects { spare.append(stream) }
        pool.callEnded(on: self)
        workSoon()
    }

    private static let keptObjects = 8

    /// The maximum number of reset streams. Streams are reset because clients have left, or the clients or the server
    /// were too slow. Servers end connections with many resets (CVE-2023-44487), and many clients share this one: one
    /// client must not end the requests of all others. The number is less than any server known to us admits.
    private static let mostResets = 50

    /// Handles the server's GOAWAY.
    fileprivate func serverGoesAway(_ code: HTTP2ErrorCode) {
        // The cause is the behaviour of clients, above all their cancelled streams, and no failure of the server.
        if code == .enhanceYourCalm { isEndJudged = true }
        retire()
    }

    /// Stops giving calls to the connection; it serves those that it has.
    func retire() {
        guard !isRetired else { return }
        isRetired = true
        workSoon()
    }

    /// Reports a failure.
    ///
    /// - Parameters:
    ///   - isJudged: whether it counts against the server.
    ///   - ofConnection: whether all calls share it. Then it counts once for all of them.
    func failed(_ failure: UpstreamFailure, isJudged: Bool, ofConnection: Bool) {
        pool.failed(
            server, failure, isCheck: isCheck, isJudged: isJudged && !(ofConnection && isEndJudged))
        if ofConnection, isJudged { isEndJudged = true }
    }

    // MARK: - Events

    override func readable() {
        work {
            if !continueConnecting(isWritable: false) { receiveAll() }
        }
    }

    override func writable() {
        work {
            if continueConnecting(isWritable: true) || waits.remove(.read) == nil { return }
            wantRead(true)
            receiveAll()
        }
    }

    override func deadlinePassed() {
        deadline = Instant(nanoseconds: .max)
        work {
            if endOverdueConnecting() { return }
            if !isGreeted { return notSent(.connectTimeout(server: place)) }
            judgeTime()
        }
    }

    /// Schedules the output at the end of the turn, for bytes that calls have written within other events.
    func workSoon() {
        guard !isWorking, !isWorkDue else { return }
        isWorkDue = true
        loop.whenTurnEnds { [self] in
            isWorkDue = false
            work {}
        }
    }

    func resume(_ stream: UpstreamStream) {
        resumed.append(stream)
        workSoon()
    }

    /// Handles an event: its own work, then the consequences for waiting calls and the socket.
    private func work(_ event: () -> Void) {
        isWorking = true
        event()
        beginWaiting()
        repeat {
            deliverResumed()
            session?.finishEvent()
            flush()
            session?.finishEvent()
        } while !resumed.isEmpty
        isWorking = false
        conclude()
    }

    private func deliverResumed() {
        let streams = resumed
        resumed.removeAll(keepingCapacity: true)
        for stream in streams { stream.deliver() }
    }

    private func conclude() {
        guard isOpen else { return }
        if let loss { return end(loss) }
        guard !isConnecting, hasBegun, let session, waiting.isEmpty else { return }
        // Unwanted streams that were not reset end with the connection.
        guard active.isEmpty, session.openStreams == 0 || session.isWithholdingResets else { return }
        if isCheck || isRetired || !session.mayOpen { return discard() }
        beginIdleness()
    }

    // MARK: - Time

    /// Sets the deadline.
    ///
    /// - Parameter instant: the deadline, or nil for none.
    func wait(until instant: Instant?) {
        guard let instant, instant < deadline else { return }
        deadline = instant
        setDeadline(instant)
    }

    // MARK: - The end

    /// Marks the connection as unusable; it is closed at the end of the event.
    func lose(_ failure: UpstreamFailure) {
        if loss == nil { loss = failure }
    }

    private func end(_ failure: UpstreamFailure) {
        if isIdle { endIdleness() }
        let unsent = output.count
        close()
        leavePool()
        isWorking = true
        session?.close(unsent: unsent)
        for stream in active where !stream.isOnWire { stream.failUnsent() }
        session?.finishEvent()
        isWorking = false
        input.removeAll()
        output.removeAll()
    }

    /// Closes the connection for good. No call uses it.
    override func discard() {
        guard isOpen else { return }
        if isIdle { endIdleness() }
        if let session, !isConnecting {
            session.drain()
            flush()
        }
        guard isOpen else { return }
        transport.sendCloseNotify()
        close()
        leavePool()
        session?.close()
        input.removeAll()
        output.removeAll()
    }

    private func leavePool() {
        isRetired = true
        pool.remove(self, isIdle: false)
    }

    override func abandon() {
        for call in waiting { call.awaited = nil }
        waiting = []
        for stream in active { stream.abandon() }
        active = []
        close()
    }
}

/// The handler that creates the session's streams.
private final class UpstreamStreamHandler: HTTP2ClientHandler {
    /// The connection, which owns the session and this handler.
    unowned var owner: HTTP2UpstreamConnection?

    override func makeStream(_ pool: BufferPool) -> HTTP2ClientStream { CallStream(pool: pool) }
    override func capacityChanged() { owner?.capacityChanged() }
    override func serverGoesAway(_ code: HTTP2ErrorCode) { owner?.serverGoesAway(code) }
}

// MARK: - Bytes

extension HTTP2UpstreamConnection {
    private static var readsPerEvent: Int { 4 }

    // MARK: - Input

    private func receiveAll() {
        waits.remove(.write)
        for _ in 0..<Self.readsPerEvent {
            guard isOpen, !isConnecting, loss == nil, receive() else { return }
        }
        // Bytes that TLS has read ahead make no socket readable.
        if isOpen, transport.hasBufferedInput { readAgain() }
    }

    /// Reads once.
    ///
    /// - Returns: whether more may be available at once.
    private func receive() -> Bool {
        let room = input.room
        switch transport.read(from: self, into: &input) {
        case .done(let count):
            lastReceived = loop.now
            return take() && (count == room || transport.hasBufferedInput)
        case .wantRead: input.releaseIfEmpty()
        case .wantWrite:
            input.releaseIfEmpty()
            waitToWriteBeforeReading()
        // With or without close_notify: the frames of each response show whether it is complete.
        case .endOfStream, .failed(.disconnected): ended(.disconnected)
        case .failed(let failure): ended(tlsFailure(failure))
        }
        return false
    }

    /// Processes the input.
    ///
    /// - Returns: whether the connection continues.
    private func take() -> Bool {
        guard let session else { return false }
        do throws(HTTP2Fault) {
            try session.receive(input.readable, now: loop.now)
        } catch {
            input.removeAll()
            ended(.http2(error))
            return false
        }
        input.removeAll()
        return true
    }

    /// Handles the end of the connection, by the server or because of it.
    private func ended(_ failure: UpstreamFailure) {
        guard isGreeted else {
            return notSent(ungreeted(failure))
        }
        // Remaining output, above all GOAWAY, is sent as far as the socket accepts it.
        if case .http2 = failure { flush() }
        lose(failure)
    }

    /// Returns the failure of a server that has sent no SETTINGS: it does not speak HTTP/2. One that agreed on it in
    /// TLS and sends nothing may have other reasons to disconnect.
    private func ungreeted(_ failure: UpstreamFailure) -> UpstreamFailure {
        if case .http2 = failure { return .notHTTP2(server: place, .saidOtherwise) }
        if transport.isPlain { return .notHTTP2(server: place, .ended) }
        return lastReceived.nanoseconds > 0 ? .notHTTP2(server: place, .saidOtherwise) : failure
    }

    // MARK: - Output

    func flush() {
        guard isOpen, !isConnecting, let session, !waits.contains(.write) else { return }
        repeat {
            do throws(HTTP2Fault) {
                try session.write(into: &output)
            } catch {
                lose(.http2(error))
            }
            guard writeOutput() else { return }
        } while isOpen && (session.reportRoom() || session.hasOutput)
        for stream in active { stream.measure() }
        measureWindow()
    }

    /// Writes the output to the socket.
    ///
    /// - Returns: whether everything was sent.
    private func writeOutput() -> Bool {
        guard !output.isEmpty else {
            output.releaseIfEmpty()
            return true
        }
        let before = output.count
        let step = transport.write(to: self, from: &output)
        if output.count < before { outputEnd = nil }
        switch step {
        case .done:
            wantWrite(waits.contains(.read))
            return true
        case .wantWrite, .wantRead:
            waitToWrite(afterReading: step == .wantRead)
            // The timeout counts from the last byte that the server accepted.
            if outputEnd == nil {
                let end = loop.now + responseTimeout
                outputEnd = end
                wait(until: end)
            }
        case .endOfStream, .failed:
            // The server may have answered before it closed: reading delivers the answer, and then the end.
            output.removeAll()
            wantWrite(false)
            outputEnd = loop.now + responseTimeout
            wait(until: outputEnd)
            readAgain()
        }
        return false
    }
}

// MARK: - Timeouts

extension HTTP2UpstreamConnection {
    private func judgeTime() {
        let now = loop.now
        if let outputEnd, outputEnd <= now { return lose(.responseTimeout) }
        // Backwards: an overdue stream leaves the array.
        for slot in active.indices.reversed() where slot < active.count { active[slot].judge(now: now) }
        if let shutEnd, shutEnd <= now { retire() }
        if isIdle, let idleEnd, idleEnd <= now { return retire() }
        wait(until: outputEnd)
        if !isRetired { wait(until: shutEnd) }
        if isIdle { wait(until: idleEnd) }
        for stream in active { wait(until: stream.end) }
    }

    /// Measures how long the window has been shut. Call it when nothing more can be framed.
    private func measureWindow() {
        guard isWindowShut, !isRetired else { return shutEnd = nil }
        guard shutEnd == nil else { return }
        shutEnd = loop.now + TimeSpan(nanoseconds: responseTimeout.nanoseconds / 2)
        wait(until: shutEnd)
    }

    private func beginIdleness() {
        guard !isIdle else { return }
        isIdle = true
        idleEnd = loop.now + idleTimeout
        wait(until: idleEnd)
        input.releaseIfEmpty()
        output.releaseIfEmpty()
        pool.becameIdle(self)
    }

    private func endIdleness() {
        isIdle = false
        idleEnd = nil
        pool.leftIdleness()
    }

    /// Returns whether an idle connection is still open. Its server may have closed it before the loop has noticed.
    func isThere() -> Bool {
        guard isIdle else { return true }
        work { receiveAll() }
        return isOpen && hasRoom
    }
}
