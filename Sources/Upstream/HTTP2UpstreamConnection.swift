internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// One connection that speaks HTTP/2: many calls at once, each an `UpstreamStream`.
///
/// `HTTP2ClientSession` reads and makes the frames. Here is what the connection's streams have in common: how it begins, whom it
/// serves, and the end. Bytes in and out are in `HTTP2UpstreamConnection+Bytes`, time is in `HTTP2UpstreamConnection+Time`.
///
/// No call is begun before the server has sent its SETTINGS (RFC 9113 section 3.4): who speaks something else is found out before it
/// gets a byte of a request, and who admits few streams is not sent more.
final class HTTP2UpstreamConnection: UpstreamConnection {
    /// Of the socket there is now; nil until it is connected.
    private(set) var session: HTTP2ClientSession?
    private let handler = UpstreamStreamHandler()
    var input: ByteBuffer
    /// Calls that wait for the server's SETTINGS.
    private var waiting: [UpstreamCall] = []
    /// Those under way, and objects for the next ones.
    private(set) var active: [UpstreamStream] = []
    private var spare: [UpstreamStream] = []
    /// Streams whose client takes content again.
    private var resumed: [UpstreamStream] = []
    /// Calls are begun at once.
    private var hasBegun = false
    /// Nobody uses it.
    var isIdle = false
    /// It gets no more calls.
    private(set) var isRetired = false
    /// In the middle of an event; the connection is closed, if it has to be, at its end.
    private var isWorking = false
    private var isWorkDue = false
    /// Why it is to be closed at the end of the event.
    private(set) var loss: UpstreamFailure?
    /// The server has been judged by its end already.
    private var isEndJudged = false
    /// When something came last; 0 while nothing has.
    var lastReceived = Instant(nanoseconds: 0)
    /// Until when the server has to take something of what was written.
    var outputEnd: Instant?
    var idleEnd: Instant?
    /// When it gets no more calls, since the server has taken no content on it for long; nil while its window is open.
    var shutEnd: Instant?
    /// As it was set last: never later than anything that is waited for.
    private var deadline = Instant(nanoseconds: .max)

    override init(pool: UpstreamPool, server: Int, socket: consuming Socket, isCheck: Bool) {
        input = ByteBuffer(pool: pool.buffers)
        super.init(pool: pool, server: server, socket: socket, isCheck: isCheck)
        handler.owner = self
    }

    // MARK: - How it begins

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
    var isGreeted: Bool { session?.isGreeted == true }

    /// Nothing of any call was sent: the next address, or for each of the calls the next server.
    override func notSent(_ failure: UpstreamFailure) {
        session = nil
        hasBegun = false
        outputEnd = nil
        deadline = Instant(nanoseconds: .max)
        output.removeAll()
        input.removeAll()
        do throws(UpstreamFailure) {
            replaceSocket(try pool.anotherSocket(for: self, of: nil, after: failure))
            awaitConnect()
        } catch {
            discard()
            let calls = waiting
            waiting = []
            // One that waited may have been given up by what another one did.
            for call in calls where call.awaited === self { leaveWaiting(call, after: error) }
        }
    }

    private func leaveWaiting(_ call: UpstreamCall, after failure: UpstreamFailure) {
        call.awaited = nil
        guard isCheck else { return pool.move(call, from: self, after: failure) }
        call.failed(failure, again: .never)
        call.finishEvent()
    }

    /// The server's SETTINGS have come, for the first time or again.
    fileprivate func capacityChanged() { pool.capacityChanged(on: self) }

    /// Begins the calls that have waited, as soon as the server has shown itself.
    private func beginWaiting() {
        guard isGreeted, !hasBegun else { return }
        guard loss == nil, session?.mayOpen == true else { return notAdmitted() }
        hasBegun = true
        // A check is of its server alone.
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

    /// The server has greeted, and in the same breath said that it takes no request, or broken off: it has failed as one has that
    /// refuses to be connected to.
    private func notAdmitted() {
        // GOAWAY of our own, where the server has broken a rule; what rule, is known when it is made.
        flush()
        let failure = loss ?? .refused
        loss = nil
        isRetired = false
        notSent(failure)
    }

    // MARK: - Calls

    /// Whether one more call may begin, or wait until the server is there.
    var hasRoom: Bool {
        guard isOpen, !isRetired, loss == nil else { return false }
        guard hasBegun, let session else { return waiting.count < pool.settings.streams }
        return session.capacity > 0
    }

    /// Whether content could not be sent on it now, whatever the stream.
    var isWindowShut: Bool { hasBegun && session?.isWindowShut == true }

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

    /// A call waits no more.
    func leave(_ call: UpstreamCall) {
        call.awaited = nil
        waiting.removeAll { $0 === call }
        if isCheck { return discard() }
        pool.callEnded(on: self)
        workSoon()
    }

    /// The call of a stream has ended; what is left of the stream concerns nobody.
    func release(_ stream: UpstreamStream) {
        let last = active.removeLast()
        if last !== stream {
            active[stream.slot] = last
            last.slot = stream.slot
        }
        callsServed += 1
        // Those of a crowd that came once are not kept.
        if spare.count < Self.keptObjects { spare.append(stream) }
        pool.callEnded(on: self)
        workSoon()
    }

    private static let keptObjects = 8

    /// Streams that are reset on it, since their clients have left, were too slow or the server was. Servers end connections on which many
    /// are (CVE-2023-44487), and many clients share this one: what one of them does must not end the requests of all others. Fewer than any
    /// server known to us admits.
    private static let mostResets = 50

    /// The server goes away.
    fileprivate func serverGoesAway(_ code: HTTP2ErrorCode) {
        // That is said of what clients do, streams that they give up above all: it does not speak against the server.
        if code == .enhanceYourCalm { isEndJudged = true }
        retire()
    }

    /// It serves those that it has, and gets no more.
    func retire() {
        guard !isRetired else { return }
        isRetired = true
        workSoon()
    }

    /// - Parameters:
    ///   - isJudged: whether it speaks against the server.
    ///   - ofConnection: whether all calls share it: then the server is judged once for all of them.
    func failed(_ failure: UpstreamFailure, isJudged: Bool, ofConnection: Bool) {
        pool.failed(
            server, failure, isCheck: isCheck, isJudged: isJudged && !(ofConnection && isEndJudged))
        if ofConnection, isJudged { isEndJudged = true }
    }

    // MARK: - Events

    override func readable() {
        work {
            if stage == .handshake { return handshake() }
            receiveAll()
        }
    }

    override func writable() {
        work {
            switch stage {
            case .connecting: connectEnded()
            case .handshake: handshake()
            case .established: if isReadWaitingToWrite { readAfterWriting() }
            }
        }
    }

    override func deadlinePassed() {
        deadline = Instant(nanoseconds: .max)
        work {
            if isConnecting { return connectOverdue() }
            if !isGreeted { return notSent(.connectTimeout(server: place)) }
            judgeTime()
        }
    }

    /// At the end of the turn: for what calls have written in the events of others.
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

    /// An event: what happens, and then what follows from it for those who wait and for the socket.
    func work(_ event: () -> Void) {
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
        // Streams that nobody wants and that were not reset end with it.
        guard active.isEmpty, session.openStreams == 0 || session.isWithholdingResets else { return }
        if isCheck || isRetired || !session.mayOpen { return discard() }
        beginIdleness()
    }

    // MARK: - Time

    /// - Parameter instant: nil for nothing to wait for.
    func wait(until instant: Instant?) {
        guard let instant, instant < deadline else { return }
        deadline = instant
        setDeadline(instant)
    }

    // MARK: - The end

    /// The connection is of no more use; it is closed at the end of the event.
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

    /// Closes the connection for good; nobody uses it.
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

/// Gives the session its streams.
private final class UpstreamStreamHandler: HTTP2ClientHandler {
    /// Owns the session, and this.
    unowned var owner: HTTP2UpstreamConnection?

    override func makeStream(_ pool: BufferPool) -> HTTP2ClientStream { CallStream(pool: pool) }
    override func capacityChanged() { owner?.capacityChanged() }
    override func serverGoesAway(_ code: HTTP2ErrorCode) { owner?.serverGoesAway(code) }
}

/// Bytes in and out.
extension HTTP2UpstreamConnection {
    private static var readsPerEvent: Int { 4 }

    // MARK: - In

    func receiveAll() {
        isWriteWaitingToRead = false
        for _ in 0..<Self.readsPerEvent {
            guard isOpen, !isConnecting, loss == nil, receive() else { return }
        }
        // What TLS has read ahead makes no socket readable.
        if isOpen, transport.hasBufferedInput { readAgain() }
    }

    func readAfterWriting() {
        isReadWaitingToWrite = false
        wantRead(true)
        receiveAll()
    }

    /// Reads once. - Returns: whether there may be more at once.
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
        // With close_notify or without: of each response its own frames say whether it is whole.
        case .endOfStream, .failed(.disconnected): ended(.disconnected)
        case .failed(let failure): ended(tlsFailure(failure))
        }
        return false
    }

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

    /// The server has ended the connection, or made it end.
    private func ended(_ failure: UpstreamFailure) {
        guard isGreeted else {
            return notSent(ungreeted(failure))
        }
        // What is still to be said, GOAWAY above all, goes as far as the socket takes it.
        if case .http2 = failure { flush() }
        lose(failure)
    }

    /// Before its SETTINGS: whatever it speaks, it is no HTTP/2. One that has agreed on it in TLS and says nothing may have other reasons
    /// to leave.
    private func ungreeted(_ failure: UpstreamFailure) -> UpstreamFailure {
        if case .http2 = failure { return .notHTTP2(server: place, .saidOtherwise) }
        if transport.isPlain { return .notHTTP2(server: place, .ended) }
        return lastReceived.nanoseconds > 0 ? .notHTTP2(server: place, .saidOtherwise) : failure
    }

    // MARK: - Out

    func flush() {
        guard isOpen, !isConnecting, let session, !isWriteWaitingToRead else { return }
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
            wantWrite(isReadWaitingToWrite)
            return true
        case .wantWrite, .wantRead:
            waitToWrite(step)
            // Counted from the last byte that the server took.
            if outputEnd == nil {
                let end = loop.now + responseTimeout
                outputEnd = end
                wait(until: end)
            }
        case .endOfStream, .failed:
            // The server may have answered before it closed: what there is is read first, and says the end.
            output.removeAll()
            wantWrite(false)
            outputEnd = loop.now + responseTimeout
            wait(until: outputEnd)
            readAgain()
        }
        return false
    }
}

/// Until when the server is waited for, and how long a connection that nobody uses is kept.
extension HTTP2UpstreamConnection {
    func judgeTime() {
        let now = loop.now
        if let outputEnd, outputEnd <= now { return lose(.responseTimeout) }
        // Backwards: one that is overdue leaves the array.
        for slot in active.indices.reversed() where slot < active.count { active[slot].judge(now: now) }
        if let shutEnd, shutEnd <= now { retire() }
        if isIdle, let idleEnd, idleEnd <= now { return retire() }
        wait(until: outputEnd)
        if !isRetired { wait(until: shutEnd) }
        if isIdle { wait(until: idleEnd) }
        for stream in active { wait(until: stream.end) }
    }

    /// To be called when nothing more can be framed.
    func measureWindow() {
        guard isWindowShut, !isRetired else { return shutEnd = nil }
        guard shutEnd == nil else { return }
        shutEnd = loop.now + TimeSpan(nanoseconds: responseTimeout.nanoseconds / 2)
        wait(until: shutEnd)
    }

    func beginIdleness() {
        guard !isIdle else { return }
        isIdle = true
        idleEnd = loop.now + idleTimeout
        wait(until: idleEnd)
        input.releaseIfEmpty()
        output.releaseIfEmpty()
        pool.becameIdle(self)
    }

    func endIdleness() {
        isIdle = false
        idleEnd = nil
        pool.leftIdleness()
    }

    /// Whether an idle connection is still there: its server may have ended it, which the loop may not have seen yet.
    func isThere() -> Bool {
        guard isIdle else { return true }
        work { receiveAll() }
        return isOpen && hasRoom
    }
}
