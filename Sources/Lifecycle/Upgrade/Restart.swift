internal import Administration
internal import EventLoop
internal import Glibc
internal import Logging

/// An upgrade, seen by the process that is replaced: another one, perhaps with a newer program, takes over sockets and
/// registry. No request is refused.
///
///     duplicating -> starting -> windingUp -> released -> served: this process ends
///        \______________________\____________\_____ returning: this process serves on, or again
final class Restart {
    enum Outcome {
        /// - process: The process that serves.
        case done(process: Int32)
        /// This process continues as before.
        case failed(String)
    }

    private enum Phase {
        /// The threads duplicate their listening sockets; those named have not answered.
        case duplicating(missing: Set<Int>)
        /// The new process prepares.
        case starting(SuccessorProcess)
        /// This process accepts no more, and decides the requests in flight; the threads named have some.
        case windingUp(SuccessorProcess, missing: Set<Int>)
        /// The registry is released to the new process.
        case released(SuccessorProcess, missing: Set<Int>)
        /// The new process serves.
        case served(SuccessorProcess, missing: Set<Int>)
        /// The new process has failed, and this one is to serve again.
        case returning(reason: String)

        var successor: SuccessorProcess? {
            switch self {
            case .duplicating, .returning: nil
            case .starting(let process), .windingUp(let process, _), .released(let process, _), .served(let process, _):
                process
            }
        }
    }

    /// An upgrade in progress.
    private struct Attempt {
        let completion: (Outcome) -> Void
        var phase: Phase
        /// Duplicates of listening sockets, by the number of the thread that owns the originals, and by address: for
        /// the new process, and for this one if it has to serve again.
        var sockets: [Int: [String: Int32]] = [:]
        /// The timeout of the phase.
        var timer: LoopTimer?
    }

    /// Nil without an upgrade; it stays once another process serves.
    private var attempt: Attempt?
    /// The reason and time of the last failed upgrade.
    private(set) var lastFailure: (reason: String, at: Int64)?

    private let command: [String]
    private let loop: Loop
    private let threads: ServingThreads
    private let generations: Generations
    private let manager: ServiceManager
    private let logger: Logger
    private let audit: AuditLog
    /// Why no upgrade may begin now; nil if one may.
    var obstacle: () -> String? = { nil }
    /// Called when another process serves: this one only finishes what it has begun.
    var onSuccess: () -> Void = {}
    /// Called when everything in flight was decided since: this process is to drain.
    var onFinish: () -> Void = {}
    /// Called when neither process can serve.
    var onFailure: (StartupError) -> Void = { _ in }

    /// The time for the new process to read its files, resolve names and connect to its database.
    private static let startPatience = TimeSpan.seconds(60)
    /// The time for requests in flight to be decided. Clients that connect meanwhile wait; a longer upload is
    /// refused.
    private static let windUpPatience = TimeSpan.seconds(3)
    /// The time for the new process to open the registry and to serve.
    private static let servingPatience = TimeSpan.seconds(30)
    /// The reason if a process is killed or is not a gateway: it sends none, and its own output went to this
    /// process's standard error.
    private static let endedItself = "it exited before it served, without a reason"

    /// - Parameter command: The program and arguments of the new process.
    init(
        _ command: [String], loop: Loop, _ threads: ServingThreads, _ generations: Generations,
        _ manager: ServiceManager, _ logger: Logger, _ audit: AuditLog
    ) {
        self.command = command
        self.loop = loop
        self.threads = threads
        self.generations = generations
        self.manager = manager
        self.logger = logger
        self.audit = audit
    }

    var isUnderWay: Bool { attempt != nil }

    private var program: String { command.first ?? "" }

    /// Begins an upgrade.
    ///
    /// - Parameter completion: Called once with the outcome.
    func begin(_ completion: @escaping (Outcome) -> Void) {
        if let obstacle = obstacle() ?? ownObstacle {
            logger.error("not upgraded: \(obstacle)")
            lastFailure = (obstacle, WallClock.seconds)
            return completion(.failed(obstacle))
        }
        logger.notice("upgrading: starting \(program)")
        attempt = Attempt(completion: completion, phase: .duplicating(missing: threads.running))
        threads.duplicateSockets()
    }

    private var ownObstacle: String? {
        if attempt != nil { return "another upgrade is in progress" }
        // Its end would be that of the container.
        if getpid() == 1 { return "this is process 1, and its exit would end the container: replace the container" }
        return nil
    }

    /// Receives the duplicates of a thread's listening sockets.
    ///
    /// - Parameter sockets: By address, owned by this object from now on. Nil if there were no descriptors left.
    func duplicated(_ sockets: [String: Int32]?, by thread: Int) {
        guard case .duplicating(var missing)? = attempt?.phase, missing.remove(thread) != nil else {
            return Listeners.release([sockets ?? [:]])
        }
        attempt?.sockets[thread] = sockets
        guard sockets != nil else { return fail("there are not enough descriptors left") }
        attempt?.phase = .duplicating(missing: missing)
        guard missing.isEmpty else { return }
        do throws(StartupError) { try start() } catch { fail(error.description) }
    }

    private func start() throws(StartupError) {
        let own = generations.duplicateSockets()
        defer { for descriptor in own ?? [] { close(descriptor) } }
        guard let own else { throw StartupError("there are not enough descriptors left") }
        let listening = attempt?.sockets.values.flatMap(\.values) ?? []
        let successor = try SuccessorProcess(
            command, sockets: listening + own, querySockets: generations.querySockets, loop: loop
        ) { [unowned self] in heard($0) }
        attempt?.phase = .starting(successor)
        limit(Self.startPatience) { [unowned self] in fail("the new process was not ready in time") }
    }

    private func limit(_ patience: TimeSpan, _ action: @escaping () -> Void) {
        attempt?.timer = LoopTimer(loop: loop, startsIn: patience, action: action)
    }

    // MARK: - Messages of the new process

    private func heard(_ word: UpgradeChannel.Word?) {
        guard let phase = attempt?.phase, let successor = phase.successor else { return }
        switch (word, phase) {
        // It may arrive after messages of the new process itself.
        case (.started(let process), _): successor.isStarted(as: process)
        case (.prepared(let process), .starting):
            successor.isPrepared(as: process)
            windUp(successor)
        case (.serving, .released(_, let missing)): succeed(successor, missing)
        // Its end follows: it may still be writing to standard error.
        case (.failed(let reason), _): successor.reportedFailure = reason
        // The new process has ended. This one has announced its own end, and the service manager starts another.
        case (nil, .served): break
        // The exit status of its parent may say why nothing was started.
        case (nil, _): fail("\(program): \(successor.reasonOfEnd ?? Self.endedItself)")
        default: fail("the new process did not follow the upgrade protocol")
        }
    }

    private func windUp(_ successor: SuccessorProcess) {
        attempt?.phase = .windingUp(successor, missing: threads.running)
        threads.windUp()
        limit(Self.windUpPatience) { [unowned self] in release() }
        // Several gateways may share a database, so the new one need not wait for this one's clients.
        if !generations.isRegistryAlone { release() }
    }

    /// Records that a thread has nothing in flight that needs the registry, or has ended.
    func woundUp(by thread: Int) {
        switch attempt?.phase {
        case .windingUp(let successor, var missing):
            guard missing.remove(thread) != nil else { return }
            attempt?.phase = .windingUp(successor, missing: missing)
            if missing.isEmpty { release() }
        case .released(let successor, var missing):
            missing.remove(thread)
            attempt?.phase = .released(successor, missing: missing)
        case .served(let successor, var missing):
            guard missing.remove(thread) != nil else { return }
            attempt?.phase = .served(successor, missing: missing)
            if missing.isEmpty { finish() }
        case .returning:
            // The end of a worker is not awaited.
            if ServingThreads.Service(rawValue: thread) != nil, !threads.hasRunningServices { serveAgain() }
        case .duplicating, .starting, nil: break
        }
    }

    private func release() {
        guard case .windingUp(let successor, let missing)? = attempt?.phase else { return }
        attempt?.phase = .released(successor, missing: missing)
        if let socket = successor.takeQuerySocket() { generations.releaseRegistry(asking: socket) }
        limit(Self.servingPatience) { [unowned self] in fail("the new process did not serve in time") }
        successor.tell(.released)
    }

    private func succeed(_ successor: SuccessorProcess, _ missing: Set<Int>) {
        guard let process = successor.process, let attempt else { return }
        self.attempt?.phase = .served(successor, missing: missing)
        manager.handOver(to: process)
        successor.tell(.announced)
        Listeners.release(attempt.sockets.values)
        self.attempt?.sockets = [:]
        logger.notice("upgraded: process \(process) serves, this process finishes its open requests")
        onSuccess()
        attempt.completion(.done(process: process))
        generations.handOver()
        if missing.isEmpty { return finish() }
        limit(Self.windUpPatience) { [unowned self] in finish() }
    }

    private func finish() {
        attempt?.timer = nil
        onFinish()
    }

    // MARK: - Failure

    /// Cancels the upgrade because the process stops: neither process is to serve.
    func interrupt() {
        guard let attempt else { return }
        if case .served = attempt.phase { return }
        self.attempt = nil
        Listeners.release(attempt.sockets.values)
        attempt.phase.successor?.cancel(by: SIGTERM)
        attempt.completion(.failed("the gateway is stopping"))
    }

    private func fail(_ reason: String) {
        guard let phase = attempt?.phase else { return }
        let mustReturn: Bool
        switch phase {
        case .served, .returning: return
        case .duplicating, .starting: mustReturn = false
        case .windingUp, .released: mustReturn = true
        }
        phase.successor?.cancel(by: SIGKILL)
        attempt?.phase = .returning(reason: reason)
        attempt?.timer = nil
        lastFailure = (reason, WallClock.seconds)
        logger.error("not upgraded: \(reason)")
        guard mustReturn else { return end() }
        // The services have stopped accepting and end: new ones replace them.
        if !threads.stopServices() { serveAgain() }
    }

    /// Serves again, once the threads of the previous services have ended.
    private func serveAgain() {
        guard let sockets = attempt?.sockets else { return }
        attempt?.sockets = [:]
        do {
            try generations.serveAgain(sockets) { [unowned self] outcome in
                // Unless the process stops.
                guard attempt != nil else { return }
                if case .failed(let reason) = outcome { return cannotServe(reason) }
                logger.notice("this process serves again")
                end()
            }
        } catch {
            cannotServe("\(error)")
        }
    }

    private func cannotServe(_ reason: String) {
        logger.critical("this process cannot serve again: \(reason)")
        end()
        onFailure(StartupError("neither the new process nor this one can serve: \(reason)"))
    }

    private func end() {
        guard let attempt, case .returning(let reason) = attempt.phase else { return }
        self.attempt = nil
        Listeners.release(attempt.sockets.values)
        attempt.completion(.failed(reason))
    }

    // MARK: - Endpoint

    /// `POST /upgrade`: answered when the new process serves, or has failed.
    var endpoint: AdministrationEndpoint {
        AdministrationEndpoint(.post, "/upgrade", act: "upgrade") {
            [unowned self] request, reply throws(AdministrationFault) in
            audit.begun("upgrade", "upgrade", by: request.peer)
            begin { outcome in
                switch outcome {
                case .done(let process): reply.send(AdministrationResponse(json: ["process": Int(process)]))
                case .failed(let reason):
                    reply.send(AdministrationResponse(AdministrationFault(422, "upgrade_failed", reason)))
                }
            }
        }
    }
}

/// The process that an upgrade starts, and the channel to it.
private final class SuccessorProcess {
    private let channel: UpgradeChannel
    /// The socket for queries to the registry that the process takes over; nil once it is in use.
    private var querySocket: Int32?
    /// The started process, until its exit status was read: the parent of the one that takes over.
    private var parent: pid_t?
    /// The process that takes over, once known.
    private(set) var process: pid_t?
    /// Why the new process does not serve, as it reported.
    var reportedFailure: String?

    /// Starts the process.
    ///
    /// - Parameters:
    ///   - sockets: Descriptors that it inherits; they remain the caller's.
    ///   - querySockets: Sockets through which earlier processes ask the registry; they remain the caller's. Nil if this
    ///     process will not ask either.
    ///   - heard: Called with each message, and with nil when the process has gone.
    init(
        _ command: [String], sockets: [Int32], querySockets others: [Int32]?, loop: Loop,
        heard: @escaping (UpgradeChannel.Word?) -> Void
    ) throws(StartupError) {
        let (ours, theirs) = try UpgradeChannel.pair()
        defer { close(theirs) }
        channel = UpgradeChannel(loop: loop, socket: Socket(adopting: ours), heard: heard)
        var descriptors = [theirs] + sockets
        var settings = ["\(Inheritance.variable)=first \(sockets.count)"]
        var asked: Int32?
        if let others {
            let pair = try UpgradeChannel.pair()
            (querySocket, asked) = (pair.ours, pair.theirs)
            let first = Int(Inheritance.firstDescriptor) + descriptors.count
            let numbers = (first...(first + others.count)).map(String.init)
            settings.append("\(Inheritance.queriesVariable)=\(numbers.joined(separator: ","))")
            descriptors += others + [pair.theirs]
        }
        defer { if let asked { close(asked) } }
        parent = Successor.spawn(command, settings: settings, descriptors: descriptors)
        guard parent != nil else {
            throw StartupError("\(command.first ?? ""): \(EventLoopError.text(of: errno))")
        }
    }

    deinit {
        if let querySocket { close(querySocket) }
        reap()
    }

    /// Returns the socket for queries to the registry, once. The caller owns it.
    func takeQuerySocket() -> Int32? {
        defer { querySocket = nil }
        return querySocket
    }

    func tell(_ word: UpgradeChannel.Word) { channel.tell(word) }

    func isStarted(as process: pid_t) { self.process = self.process ?? process }

    func isPrepared(as process: pid_t) {
        self.process = process
        reap()
    }

    /// Why it has ended, if that is known.
    var reasonOfEnd: String? { reportedFailure ?? reap(looks: 200) }

    /// Ends the process by a signal.
    func cancel(by signal: Int32) {
        // While the channel is open the process exists, so its id is still its own. Its locks are released when it has
        // ended.
        if channel.isOpen {
            // For a process whose id is not known yet.
            channel.tell(.cancelled)
            if let process = process ?? (signal == SIGKILL ? parent : nil) { kill(process, signal) }
        }
        reap()
    }

    /// Collects the exit status of the started process, if it has ended.
    ///
    /// - Parameter looks: How often to check, with a millisecond between: a process closes its files before it has
    ///   ended.
    /// - Returns: Why nothing was started; nil if unknown.
    @discardableResult
    private func reap(looks: Int = 1) -> String? {
        var status: Int32 = 0
        guard let process = parent else { return nil }
        var looks = looks
        while waitpid(process, &status, WNOHANG) != process {
            looks -= 1
            guard looks > 0 else { return nil }
            usleep(1_000)
        }
        parent = nil
        // wait(2): the low seven bits are the signal, the next byte is the status.
        if status & 0x7f != 0 { return "it was killed by signal \(status & 0x7f)" }
        let code = status >> 8 & 0xff
        return code == 0 ? nil : "it exited with status \(code)"
    }
}
