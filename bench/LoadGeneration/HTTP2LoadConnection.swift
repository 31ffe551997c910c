internal import Bytes
internal import EventLoop
internal import TLS

/// A connection of HTTP/2: each of its callers has a request under way at a time, and each request is a stream.
final class HTTP2LoadConnection: LoadConnection {
    private var input: ByteBuffer
    private var session: LoadSession?
    private var turns = 0
    /// Callers whose requests wait for a connection: this one, or the next.
    private var waiting: [LoadCaller] = []
    /// Requests that were answered or have failed within what is being read. They are reported after it, for that makes new ones.
    private var finished: [(caller: LoadCaller, outcome: Outcome)] = []
    private var underWay = 0
    /// The server wants no more requests on this connection (RFC 9113 section 6.8).
    private var isLeaving = false
    /// What is submitted is written at the end of the event.
    private var isWritingLater = false
    private var isDeadlineSet = false

    required init(index: Int, run: LoadRun, plan: LoadPlan, pool: BufferPool) {
        input = ByteBuffer(pool: pool)
        super.init(index: index, run: run, plan: plan, pool: pool)
    }

    override func begin(_ caller: LoadCaller, now: Instant) {
        do { caller.began(try run.request(for: caller), end: now + plan.timeout) } catch {
            caller.ended()
            return run.finished(caller, .failed(Failure(kind: .proof, reason: "\(error)")))
        }
        turns += 1
        caller.turn = turns
        guard state == .open, !isLeaving else {
            waiting.append(caller)
            if state == .closed { connectForWaiting() }
            return
        }
        submit(caller)
        if !isWritingLater { send() }
    }

    private func connectForWaiting() {
        connect()
        if state != .closed { awaitFirst() }
    }

    override func opened(_ handshake: Handshake) {
        session = LoadSession(of: self)
        // Counters go up: what was refused goes again in the order in which it was made.
        let callers = waiting.sorted { $0.turn < $1.turn }
        waiting.removeAll(keepingCapacity: true)
        callers.first?.handshake = handshake
        for caller in callers { submit(caller) }
        send()
    }

    private func submit(_ caller: LoadCaller) {
        underWay += 1
        session?.submit(caller)
        awaitFirst()
    }

    // MARK: - What the session tells

    func answered(_ caller: LoadCaller) {
        settle(caller, .answered(status: caller.status))
    }

    func broken(_ caller: LoadCaller, _ reason: StreamEnd) {
        guard reason != .refused else {
            // It was not looked at, so it goes again, by itself, as it is (RFC 9113 section 8.7).
            underWay -= 1
            isLeaving = true
            caller.isToBeSent()
            return waiting.append(caller)
        }
        settle(caller, .failed(Failure(kind: reason.kind, reason: reason.text)))
    }

    func brings(challenge: String, status: UInt16) {
        guard plan.mode == .attested else { return }
        run.received(challenge: challenge, status: status, over: self)
    }

    func goesAway() {
        isLeaving = true
    }

    private func settle(_ caller: LoadCaller, _ outcome: Outcome) {
        underWay -= 1
        finished.append((caller, outcome))
    }

    /// Tells of what has been settled, and shuts the connection if it was for that alone.
    private func tell() {
        guard !finished.isEmpty || isLeaving else { return }
        if underWay == 0, isLeaving || plan.mode.closesAfterResponse { shut() }
        let ended = finished
        finished.removeAll(keepingCapacity: true)
        // Callers that begin again come after those who have waited.
        if state == .closed, !waiting.isEmpty { connectForWaiting() }
        for (caller, outcome) in ended {
            caller.ended()
            run.finished(caller, outcome)
        }
    }

    // MARK: - Bytes

    override func send() {
        guard state == .open else { return }
        while let session {
            session.write(into: &output)
            guard !output.isEmpty, let step = stream?.write(from: &output) else { break }
            switch step {
            case .done: continue
            case .wantWrite: return wantWrite(true)
            // The peer refused the connection before it read the request: its reason is yet to be read.
            case .wantRead: return wantWrite(false)
            case .endOfStream: return fail(.disconnected, "closed while requests were sent")
            case .failed(let failure): return fail(failure)
            }
        }
        output.releaseIfEmpty()
        wantWrite(false)
    }

    override func receive() {
        while state == .open {
            guard let step = stream?.read(into: &input) else { return }
            switch step {
            case .done(let count):
                run.tally.bytes += count
                let isUnderstood = session?.receive(input.readable) ?? false
                input.removeAll()
                isWritingLater = true
                tell()
                isWritingLater = false
                if !isUnderstood, state == .open { return fail(.malformed, "this is no HTTP/2") }
            case .wantRead:
                input.releaseIfEmpty()
                return send()
            case .wantWrite: return wantWrite(true)
            case .endOfStream: return ended("closed by the peer")
            case .failed(.disconnected): return ended("cut by the peer")
            case .failed(let failure): return underWay > 0 ? fail(failure) : ended("\(failure)")
            }
        }
    }

    private func ended(_ reason: String) {
        if underWay > 0 { return fail(.disconnected, reason) }
        shut()
        // The server had said that it would.
        if !waiting.isEmpty { return connectForWaiting() }
        run.closedWhileIdle(self, reason)
    }

    override func forget() {
        input.removeAll()
        session = nil
        isLeaving = false
        isDeadlineSet = false
    }

    override func failed(_ failure: Failure) {
        underWay = 0
        waiting.removeAll(keepingCapacity: true)
        finished.removeAll(keepingCapacity: true)
        for caller in callers where caller.isBusy {
            caller.ended()
            run.finished(caller, .failed(failure))
        }
    }

    // MARK: - Time

    /// The first to be late is found when the deadline passes: requests are many, and hardly one is late.
    private func awaitFirst() {
        guard !isDeadlineSet, let end = callers.lazy.filter(\.isBusy).map(\.end).min() else { return }
        isDeadlineSet = true
        setDeadline(end)
    }

    override func deadlinePassed() {
        isDeadlineSet = false
        // A connection with a request that hangs is not trusted with others.
        if callers.contains(where: { $0.isBusy && $0.end <= loop.now }) {
            return fail(.timeout, "no complete response in time")
        }
        awaitFirst()
    }
}
