internal import Bytes
public import EventLoop
internal import Glibc
internal import HTTP
public import TLS
internal import TrustClient

/// One run of load against one server, from the first connection to the last response. One thread, one loop.
///
/// Phases: every connection makes one request (`priming`: connections stand, sessions are there to be resumed), then load
/// that is not counted, then load that is, then the rest of what is under way.
public final class LoadRun {
    enum Phase {
        case priming
        case holding
        case warmup
        case measuring
        case draining
        case over
    }

    let loop: Loop
    var tally = Tally()
    private let plan: LoadPlan
    private let destinations: [TLSDestination]
    private let attested: AttestedLoad?
    private var handshakes = 0
    private let progress: (LoadProgress) -> Void
    private var phase = Phase.priming
    private var connections: [LoadConnection] = []
    /// Who make the requests: the first of each connection, then the second of each, so that every load is spread over all.
    private var callers: [LoadCaller] = []
    private var timers: [LoopTimer] = []
    private var signals: [SignalWatcher] = []
    private var failure: EventLoopError?
    /// Requests that may still be begun, where they are counted.
    private var left: Int?

    // Priming.
    private var primed = 0
    private var begun = 0
    /// Turns that wait because a connection failed.
    private var deferred = 0
    /// More at once would only wait in the server's accept queue, against their time limit.
    private let primingWidth = 64

    /// Callers whose last request failed: they rest before the next, or a server that is down would be hammered.
    private var resting: [LoadCaller] = []
    private var queue: OpenLoopQueue?
    private var clock: ScheduleClock?
    private var meter: LoadMeter?

    /// - Parameters:
    ///   - contexts: one per device. Connections share them in turn, and keep theirs, but in `handshake` mode, where each
    ///     handshake is the next device's: with devices enough, no server sees a certificate twice.
    ///   - attested: the same devices' proofs, in the same order; for the attested mode.
    ///   - progress: called once a second.
    public init(
        _ plan: LoadPlan, contexts: [ClientContext], attested: AttestedLoad? = nil,
        progress: @escaping (LoadProgress) -> Void
    ) throws(EventLoopError) {
        precondition(!contexts.isEmpty && plan.connections > 0, "load needs a connection and somebody to make it")
        precondition(attested?.devices.count ?? contexts.count == contexts.count, "each device has its own certificate")
        self.plan = plan
        self.progress = progress
        destinations = contexts.map { TLSDestination($0, name: plan.target.host, resumes: plan.mode == .resumed) }
        self.attested = attested
        loop = try Loop()
        let pool = BufferPool()
        for index in 0..<plan.connections {
            let kind: LoadConnection.Type = plan.version == .http2 ? HTTP2LoadConnection.self : HTTP1LoadConnection.self
            connections.append(kind.init(index: index, run: self, plan: plan, pool: pool))
        }
        let first = LoadRequest(template: plan.request, proof: nil)
        for index in 0..<plan.connections * plan.parallel {
            let caller = LoadCaller(index: index, connection: connections[index % plan.connections], request: first)
            caller.connection.add(caller)
            callers.append(caller)
        }
        for signal: Int32 in [2, 15] {  // SIGINT and SIGTERM end the run early, with its report
            signals.append(SignalWatcher(loop: loop, signal: signal) { [unowned self] in end() })
        }
    }

    /// Runs to the end. To be called once.
    public func run() throws(EventLoopError) -> LoadReport {
        SignalWatcher.ignoreWriteSignals()
        after(.seconds(1), repeats: true) { [unowned self] in progress(currentProgress) }
        after(.milliseconds(50), repeats: true) { [unowned self] in wakeResting() }
        for _ in 0..<min(primingWidth, connections.count) { primeNext() }
        loop.run()
        timers = []
        for connection in connections { connection.shut() }
        if let failure { throw failure }
        return LoadReport(plan, tally, meter)
    }

    // MARK: - What connections ask and tell

    func destination(for connection: LoadConnection) -> TLSDestination {
        handshakes += 1
        let turn = plan.mode == .handshake ? handshakes : connection.index
        return destinations[turn % destinations.count]
    }

    /// The next request of a caller. In the attested mode the first of each connection gets the challenge.
    func request(for caller: LoadCaller) throws -> LoadRequest {
        guard let attested else { return LoadRequest(template: plan.request, proof: nil) }
        if phase == .priming { return LoadRequest(template: attested.challengeRequest, proof: nil) }
        let (proof, origin) = try device(of: caller.connection, attested).next(now: Int64(time(nil)))
        tally.recordProof(origin)
        return LoadRequest(template: plan.request, proof: proof)
    }

    /// A response has brought a challenge.
    func received(challenge: String, status: UInt16, over connection: LoadConnection) {
        guard let attested else { return }
        let answer = GatewayAnswer(status: Int(status), acceptSignature: [challenge], date: nil, content: [])
        device(of: connection, attested).note(answer, now: Int64(time(nil)))
    }

    private func device(of connection: LoadConnection, _ attested: AttestedLoad) -> AttestedDevice {
        attested.devices[connection.index % attested.devices.count]
    }

    func finished(_ caller: LoadCaller, _ outcome: Outcome) {
        let now = Instant.now
        switch phase {
        case .priming:
            primed(caller, outcome, now)
        case .warmup:
            recordFailure(caller, outcome, now)
            next(caller, outcome, now)
        case .measuring:
            record(caller, outcome, now)
            next(caller, outcome, now)
            if left == 0, !callers.contains(where: { $0.isBusy }) { finishMeasuring() }
        case .draining:
            // A closed loop's last requests end outside the measurement; that they hang must not stay unseen.
            if queue != nil { record(caller, outcome, now) } else { recordFailure(caller, outcome, now) }
            if !callers.contains(where: { $0.isBusy }) { end() }
        case .holding, .over: break
        }
    }

    func closedWhileIdle(_ connection: LoadConnection, _ reason: String) {
        // Between requests a server may close; the next request opens a new connection.
        if phase == .holding { tally.record(Failure(kind: .closedWhileIdle, reason: reason)) }
    }

    private func record(_ caller: LoadCaller, _ outcome: Outcome, _ now: Instant) {
        if let handshake = caller.handshake { tally.recordHandshake(resumed: handshake == .resumed) }
        switch outcome {
        case .answered(let status): tally.record(status: status, latency: now - caller.due)
        case .failed(let failure): tally.record(failure)
        }
    }

    private func recordFailure(_ caller: LoadCaller, _ outcome: Outcome, _ now: Instant) {
        if case .failed = outcome { record(caller, outcome, now) }
    }

    /// Gives a caller its next request, if it has one to make.
    private func next(_ caller: LoadCaller, _ outcome: Outcome, _ now: Instant) {
        if case .failed = outcome { return resting.append(caller) }
        beginNext(caller, now)
    }

    private func beginNext(_ caller: LoadCaller, _ now: Instant) {
        guard phase == .warmup || phase == .measuring else { return }
        if queue == nil {
            if let count = left {
                guard count > 0 else { return }
                left = count - 1
            }
            caller.begin(due: now, now: now)
        } else if let due = queue?.take(for: caller.index, now) {
            caller.begin(due: due, now: now)
        }
    }

    private func wakeResting() {
        let turns = deferred
        deferred = 0
        for _ in 0..<turns { primeNext() }
        let rested = resting
        resting.removeAll(keepingCapacity: true)
        let now = Instant.now
        for caller in rested { beginNext(caller, now) }
    }

    // MARK: - Phases

    private func primeNext() {
        guard begun < connections.count else { return }
        begun += 1
        let now = Instant.now
        callers[begun - 1].begin(due: now, now: now)
    }

    private func primed(_ caller: LoadCaller, _ outcome: Outcome, _ now: Instant) {
        primed += 1
        switch outcome {
        case .failed:
            record(caller, outcome, now)
            deferred += 1
        case .answered(let status):
            if let attested, !device(of: caller.connection, attested).hasChallenge {
                tally.record(Failure(kind: .proof, reason: "status \(status) of the challenge endpoint, no challenge"))
            }
            // The only requests that an idle run makes.
            if plan.mode == .idle { record(caller, outcome, now) }
            primeNext()
        }
        if primed == connections.count { primingDone() }
    }

    private func primingDone() {
        if plan.mode == .idle {
            phase = .holding
            meter = LoadMeter(plan.serverProcesses, .now)
            progress(currentProgress)
            return after(plan.hold) { [unowned self] in end() }
        }
        // Proofs made ahead are made here, while no request is under way and nothing is measured.
        do { try attested?.prepare(now: Int64(time(nil))) } catch {
            tally.record(Failure(kind: .proof, reason: "\(error)"))
        }
        // From here on the loop is the caller: a stack of requests begun in requests finished would grow otherwise. And
        // timers count from when the loop read the clock, which was before the proofs: there would be no warm-up.
        after(.milliseconds(0)) { [unowned self] in warmUp() }
    }

    private func warmUp() {
        let now = Instant.now
        phase = .warmup
        if let rate = plan.rate {
            do { try startSchedule(rate, now) } catch { return fail(error) }
        }
        left = plan.requests
        // A number of requests is all of them.
        if left != nil { measure() }
        for caller in callers where !caller.isBusy { beginNext(caller, now) }
        if left == nil { after(plan.warmup) { [unowned self] in measure() } }
    }

    private func startSchedule(_ rate: Double, _ now: Instant) throws(EventLoopError) {
        queue = OpenLoopQueue(OpenLoopSchedule(start: now, rate: rate, callers: callers.count))
        clock = try ScheduleClock(loop: loop) { [unowned self] in announceDue() }
        clock?.set(now)
    }

    private func announceDue() {
        let now = Instant.now
        guard let due = queue?.announce(now) else { return }
        for request in due {
            guard let index = queue?.caller(of: request), !callers[index].isBusy else { continue }
            beginNext(callers[index], now)
        }
        queue?.noteBacklog(now)
        if let next = queue?.nextDue { clock?.set(next) }
    }

    private func measure() {
        let now = Instant.now
        // What failed before still failed; all else starts from zero.
        tally = Tally(failuresOf: tally)
        phase = .measuring
        meter = LoadMeter(plan.serverProcesses, now)
        queue?.forgetBacklog()
        after(plan.duration) { [unowned self] in finishMeasuring() }
    }

    private func finishMeasuring() {
        let now = Instant.now
        meter?.stop(now)
        meter?.backlog = queue?.backlog(now)
        clock?.close()
        phase = .draining
        if !callers.contains(where: { $0.isBusy }) { end() }
    }

    private func end() {
        meter?.stop(.now)
        phase = .over
        loop.stop()
    }

    private func fail(_ error: EventLoopError) {
        failure = error
        end()
    }

    private func after(_ interval: TimeSpan, repeats: Bool = false, _ action: @escaping () -> Void) {
        timers.append(LoopTimer(loop: loop, interval: interval, repeats: repeats, action: action))
    }

    private var currentProgress: LoadProgress {
        LoadProgress(
            phase: "\(phase)", connections: connections.count { $0.isOpen }, requests: tally.requests,
            failed: tally.failed)
    }
}
