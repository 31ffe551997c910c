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
///
/// ```
///              established          SETTINGS           no stream
/// connecting -------------> greeting --------> serving <--------> idle
///     ^                        |                        next call
///     +------ not admitted ----+
/// ```
final class HTTP2UpstreamConnection: UpstreamConnection {
    private enum State {
        /// The calls wait, as they do until the server has sent its SETTINGS.
        case connecting(waiting: [UpstreamCall])
        case greeting(LiveSession, waiting: [UpstreamCall])
        case serving(LiveSession)
        /// No call uses the connection.
        case idle(LiveSession, until: Instant)
    }

    /// Whether the connection gets more calls. `isEndJudged`: whether the end of the connection has already been counted
    /// for or against the server.
    private enum Admission {
        case open
        /// The connection serves the calls that it has, and closes.
        case retired(isEndJudged: Bool)
        /// The connection is unusable, and is closed at the end of the event.
        case lost(UpstreamFailure, isEndJudged: Bool)
    }

    private enum Activity {
        case none
        /// Output is sent at the end of the loop's turn.
        case due
        /// An event is being handled, at whose end output is sent.
        case handling
    }

    private var state = State.connecting(waiting: [])
    private var admission = Admission.open
    private var activity = Activity.none
    private let handler = UpstreamStreamHandler()
    var input: ByteBuffer
    /// Objects for the next streams.
    private var spare: [UpstreamStream] = []

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
        let session = HTTP2ClientSession(
            limits: limits, heads: pool.settings.head, pool: pool.buffers, handler: handler)
        session.limitResets(to: Self.mostResets)
        state = .greeting(LiveSession(session, deadline: connectDeadline), waiting: waiting)
        wantRead(true)
        if transport.hasBufferedInput { readAgain() }
    }

    /// The session on the present socket, with its streams and times. Nil until the socket is connected.
    private var live: LiveSession? {
        switch state {
        case .connecting: nil
        case .greeting(let live, _), .serving(let live), .idle(let live, _): live
        }
    }

    var session: HTTP2ClientSession? { live?.session }

    /// The time of the last received bytes. 0 if there were none.
    var lastReceived: Instant { live?.lastReceived ?? Instant(nanoseconds: 0) }

    /// The calls that wait for the server's SETTINGS.
    private var waiting: [UpstreamCall] {
        get {
            switch state {
            case .connecting(let calls), .greeting(_, let calls): calls
            case .serving, .idle: []
            }
        }
        set {
            switch state {
            case .connecting: state = .connecting(waiting: newValue)
            case .greeting(let live, _): state = .greeting(live, waiting: newValue)
            case .serving, .idle: break
            }
        }
    }

    /// Continues after a failure before the first byte: with the next address, or for each call with the next server.
    override func notSent(_ failure: UpstreamFailure) {
        state = .connecting(waiting: waiting)
        output.removeAll()
        input.removeAll()
        do throws(UpstreamFailure) {
            try reconnect(for: nil, after: failure, isExtended: false)
        } catch {
            discard()
            let calls = waiting
            waiting = []
            // One call may have ended another that waited.
            for call in calls where call.isAwaiting(self) { leaveWaiting(call, after: error) }
        }
    }

    private func leaveWaiting(_ call: UpstreamCall, after failure: UpstreamFailure) {
        call.placement = .unplaced
        guard isCheck else { return pool.move(call, from: self, after: failure) }
        call.failed(failure, again: .never)
        call.finishEvent()
    }

    /// Handles the server's SETTINGS, the first or later ones.
    fileprivate func capacityChanged() { pool.capacityChanged(on: self) }

    /// Begins the waiting calls once the server has sent its SETTINGS.
    private func beginWaiting() {
        guard case .greeting(let live, let calls) = state, live.session.isGreeted else { return }
        guard loss == nil, live.session.mayOpen else { return notAdmitted() }
        state = .serving(live)
        endSearch()
        // A check concerns its server alone.
        if live.session.capacity == 0, !isCheck { pool.admitsNone(server) }
        clearDeadline()
        live.deadline = Instant(nanoseconds: .max)
        wait(until: live.outputEnd)
        for call in calls {
            guard call.isAwaiting(self) else { continue }
            call.placement = .unplaced
            guard hasRoom else {
                if isCheck { leaveWaiting(call, after: .refused) } else { pool.reassign(call, from: self) }
                continue
            }
            call.began(on: .http2(carry(call, live)))
            call.finishEvent()
        }
    }

    /// Handles a server that has greeted and at once admits no request, or disconnects. It counts as a refused
    /// connection.
    private func notAdmitted() {
        // Sends GOAWAY if the server has broken a rule; the rule is known only when the frame is made.
        flush()
        let failure = loss ?? .refused
        admission = .open
        notSent(failure)
    }

    // MARK: - Calls

    /// Whether one more call may begin, or wait for the server.
    var hasRoom: Bool {
        guard isOpen, case .open = admission else { return false }
        return switch state {
        case .connecting(let calls), .greeting(_, let calls): calls.count < pool.settings.streams
        case .serving(let live), .idle(let live, _): live.session.capacity > 0
        }
    }

    /// Whether no call uses the connection.
    var isIdle: Bool { if case .idle = state { true } else { false } }

    /// Whether no content can be sent on any stream now.
    var isWindowShut: Bool {
        switch state {
        case .connecting, .greeting: false
        case .serving(let live), .idle(let live, _): live.session.isWindowShut
        }
    }

    /// Takes a call.
    ///
    /// - Returns: nil if the call waits for the server; `began(on:)` is called then.
    func take(_ call: UpstreamCall) -> UpstreamStream? {
        endIdleness()
        switch state {
        case .serving(let live), .idle(let live, _): return carry(call, live)
        case .connecting, .greeting:
            call.placement = .awaiting(self)
            var calls = waiting
            // So that `calls` is not copied.
            waiting = []
            calls.append(call)
            waiting = calls
            return nil
        }
    }

    private func carry(_ call: UpstreamCall, _ live: LiveSession) -> UpstreamStream {
        let stream = spare.popLast() ?? UpstreamStream()
        stream.begin(call, on: self, slot: live.active.count)
        live.active.append(stream)
        call.placement = .carried(.http2(stream))
        return stream
    }

    /// Removes a waiting call.
    func leave(_ call: UpstreamCall) {
        call.placement = .unplaced
        waiting.removeAll { $0 === call }
        if isCheck { return discard() }
        pool.callEnded(on: self)
        workSoon()
    }

    /// Releases the stream of an ended call. The rest of the stream has no user.
    func release(_ stream: UpstreamStream) {
        live?.remove(stream)
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
        retire(isEndJudged: code == .enhanceYourCalm)
    }

    /// Stops giving calls to the connection; it serves those that it has.
    func retire(isEndJudged: Bool = false) {
        guard isOpen else { return }
        switch admission {
        case .open:
            admission = .retired(isEndJudged: isEndJudged)
            workSoon()
        case .retired(let wasJudged): admission = .retired(isEndJudged: wasJudged || isEndJudged)
        case .lost(let failure, let wasJudged): admission = .lost(failure, isEndJudged: wasJudged || isEndJudged)
        }
    }

    /// Reports a failure.
    ///
    /// - Parameters:
    ///   - isJudged: whether it counts against the server.
    ///   - ofConnection: whether all calls share it. Then it counts once for all of them.
    func failed(_ failure: UpstreamFailure, isJudged: Bool, ofConnection: Bool) {
        var isCounted = isJudged
        if ofConnection, isJudged, case .lost(let loss, let isEndJudged) = admission {
            isCounted = !isEndJudged
            admission = .lost(loss, isEndJudged: true)
        }
        pool.failed(server, failure, isCheck: isCheck, isJudged: isCounted)
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
        live?.deadline = Instant(nanoseconds: .max)
        work {
            if endOverdueConnecting() { return }
            guard let live, live.session.isGreeted else { return notSent(.connectTimeout(server: place)) }
            judgeTime(live)
        }
    }

    /// Schedules the output at the end of the turn, for bytes that calls have written within other events.
    func workSoon() {
        guard case .none = activity else { return }
        activity = .due
        loop.whenTurnEnds { [self] in
            activity = .none
            work {}
        }
    }

    func resume(_ stream: UpstreamStream) {
        live?.resumed.append(stream)
        workSoon()
    }

    /// Handles an event: its own work, then the consequences for waiting calls and the socket.
    private func work(_ event: () -> Void) {
        handle {
            event()
            beginWaiting()
            repeat {
                live?.deliverResumed()
                session?.finishEvent()
                flush()
                session?.finishEvent()
            } while live?.resumed.isEmpty == false
        }
        conclude()
    }

    private func handle(_ event: () -> Void) {
        let before = activity
        activity = .handling
        event()
        activity = before
    }

    private func conclude() {
        guard isOpen else { return }
        if loss != nil { return end() }
        switch state {
        case .connecting, .greeting: return
        case .serving(let live), .idle(let live, _):
            // Unwanted streams that were not reset end with the connection.
            guard live.active.isEmpty, live.session.openStreams == 0 || live.session.isWithholdingResets else { return }
            guard !isCheck, case .open = admission, live.session.mayOpen else { return discard() }
            beginIdleness()
        }
    }

    // MARK: - Time

    /// Sets the deadline.
    ///
    /// - Parameter instant: the deadline, or nil for none.
    func wait(until instant: Instant?) {
        guard let instant, let live, instant < live.deadline else { return }
        live.deadline = instant
        setDeadline(instant)
    }

    // MARK: - The end

    /// The reason why the connection is unusable. Nil if it is usable.
    var loss: UpstreamFailure? { if case .lost(let failure, _) = admission { failure } else { nil } }

    /// Marks the connection as unusable; it is closed at the end of the event.
    func lose(_ failure: UpstreamFailure) {
        switch admission {
        case .open: admission = .lost(failure, isEndJudged: false)
        case .retired(let isEndJudged): admission = .lost(failure, isEndJudged: isEndJudged)
        case .lost: break
        }
    }

    private func end() {
        endIdleness()
        let unsent = output.count
        close()
        pool.remove(self, isIdle: false)
        handle {
            guard let live else { return }
            live.session.close(unsent: unsent)
            for stream in live.active { stream.failUnsent() }
            live.session.finishEvent()
        }
        input.removeAll()
        output.removeAll()
    }

    /// Closes the connection for good. No call uses it.
    override func discard() {
        guard isOpen else { return }
        endIdleness()
        session?.drain()
        flush()
        guard isOpen else { return }
        transport.sendCloseNotify()
        close()
        pool.remove(self, isIdle: false)
        session?.close()
        input.removeAll()
        output.removeAll()
    }

    override func abandon() {
        for call in waiting { call.placement = .unplaced }
        waiting = []
        for stream in live?.active ?? [] { stream.abandon() }
        live?.active = []
        close()
    }
}

/// The session on a connected socket, its streams and its times.
///
/// A class, because its values change with each event. There is one for each socket.
private final class LiveSession {
    let session: HTTP2ClientSession
    /// The streams in flight.
    var active: [UpstreamStream] = []
    /// The streams whose client takes content again.
    var resumed: [UpstreamStream] = []
    /// The time of the last received bytes. 0 if there were none.
    var lastReceived = Instant(nanoseconds: 0)
    /// The deadline for the server to accept some of the output. Nil while nothing has to wait.
    var outputEnd: Instant?
    /// The time from which the connection gets no more calls, because the server has long accepted no content on it.
    /// Nil while its window is open.
    var shutEnd: Instant?
    /// The deadline set last, which is never later than any event that is awaited.
    var deadline: Instant

    init(_ session: HTTP2ClientSession, deadline: Instant) {
        self.session = session
        self.deadline = deadline
    }

    func remove(_ stream: UpstreamStream) {
        let last = active.removeLast()
        guard last !== stream else { return }
        active[stream.slot] = last
        last.slot = stream.slot
    }

    func deliverResumed() {
        let streams = resumed
        resumed.removeAll(keepingCapacity: true)
        for stream in streams { stream.deliver() }
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
            guard isOpen, loss == nil, receive() else { return }
        }
        // Bytes that TLS has read ahead make no socket readable.
        if isOpen, transport.hasBufferedInput { readAgain() }
    }

    /// Reads once.
    ///
    /// - Returns: whether more may be available at once.
    private func receive() -> Bool {
        guard let live else { return false }
        let room = input.room
        switch transport.read(from: self, into: &input) {
        case .done(let count):
            live.lastReceived = loop.now
            return take(live.session) && (count == room || transport.hasBufferedInput)
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
    private func take(_ session: HTTP2ClientSession) -> Bool {
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
        guard session?.isGreeted == true else { return notSent(ungreeted(failure)) }
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
        guard isOpen, let live, !waits.contains(.write) else { return }
        repeat {
            do throws(HTTP2Fault) {
                try live.session.write(into: &output)
            } catch {
                lose(.http2(error))
            }
            guard writeOutput(live) else { return }
        } while isOpen && (live.session.reportRoom() || live.session.hasOutput)
        for stream in live.active { stream.measure() }
        measureWindow(live)
    }

    /// Writes the output to the socket.
    ///
    /// - Returns: whether everything was sent.
    private func writeOutput(_ live: LiveSession) -> Bool {
        guard !output.isEmpty else {
            output.releaseIfEmpty()
            return true
        }
        let before = output.count
        let step = transport.write(to: self, from: &output)
        if output.count < before { live.outputEnd = nil }
        switch step {
        case .done:
            wantWrite(waits.contains(.read))
            return true
        case .wantWrite, .wantRead:
            waitToWrite(afterReading: step == .wantRead)
            // The timeout counts from the last byte that the server accepted.
            if live.outputEnd == nil { live.outputEnd = loop.now + responseTimeout }
            wait(until: live.outputEnd)
        case .endOfStream, .failed:
            // The server may have answered before it closed: reading delivers the answer, and then the end.
            output.removeAll()
            wantWrite(false)
            live.outputEnd = loop.now + responseTimeout
            wait(until: live.outputEnd)
            readAgain()
        }
        return false
    }
}

// MARK: - Timeouts

extension HTTP2UpstreamConnection {
    private func judgeTime(_ live: LiveSession) {
        let now = loop.now
        if let outputEnd = live.outputEnd, outputEnd <= now { return lose(.responseTimeout) }
        // Backwards: an overdue stream leaves the array.
        for slot in live.active.indices.reversed() where slot < live.active.count { live.active[slot].judge(now: now) }
        if let shutEnd = live.shutEnd, shutEnd <= now { retire() }
        if case .idle(_, let idleEnd) = state {
            if idleEnd <= now { return retire() }
            wait(until: idleEnd)
        }
        wait(until: live.outputEnd)
        if case .open = admission { wait(until: live.shutEnd) }
        for stream in live.active { wait(until: stream.end) }
    }

    /// Measures how long the window has been shut. Call it when nothing more can be framed.
    private func measureWindow(_ live: LiveSession) {
        guard isWindowShut, case .open = admission else { return live.shutEnd = nil }
        guard live.shutEnd == nil else { return }
        live.shutEnd = loop.now + TimeSpan(nanoseconds: responseTimeout.nanoseconds / 2)
        wait(until: live.shutEnd)
    }

    private func beginIdleness() {
        guard case .serving(let live) = state else { return }
        let end = loop.now + idleTimeout
        state = .idle(live, until: end)
        wait(until: end)
        input.releaseIfEmpty()
        output.releaseIfEmpty()
        pool.becameIdle(self)
    }

    private func endIdleness() {
        guard case .idle(let live, _) = state else { return }
        state = .serving(live)
        pool.leftIdleness()
    }

    /// Returns whether an idle connection is still open. Its server may have closed it before the loop has noticed.
    func isThere() -> Bool {
        guard isIdle else { return true }
        work { receiveAll() }
        return isOpen && hasRoom
    }
}
