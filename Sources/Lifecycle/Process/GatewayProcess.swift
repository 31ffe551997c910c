internal import EventLoop
internal import Gateway
internal import Glibc
internal import Logging
internal import Telemetry

/// The running gateway: wires its parts, waits for signals, starts and stops in order. `Generations` changes the
/// configuration, `Restart` and `Takeover` replace the program, `StatusReporter` answers operators.
///
/// Its threads communicate through mailboxes:
///
/// - The main thread has settings, names, listening sockets, signals and the administration.
/// - `worker-N` has client connections, with its own loop, TLS contexts and pools.
/// - `store` is the only thread that uses the store. It commits counters in batches.
/// - `database` performs operations of PostgreSQL that may wait.
/// - `enrolment` has the enrolment listener, the GMS CA's key and calls to Apple.
/// - `log` writes the access log, and `spans` sends spans.
/// - `loader` reads the next configuration during a reload.
///
/// They share TLS sessions, the records of the registry, rate buckets and connection counts. On the hot path they share
/// no reference-counted object.
///
/// All workers prepare a generation before any of them serves it. A connection keeps the generation that accepted it.
///
/// An upgrade starts the new program beside the old one, which hands over its listening sockets. With SQLite the old
/// process closes the registry before the new one opens it.
public final class GatewayProcess {
    /// Reads the configuration again. Called on a separate thread.
    public typealias Source = @Sendable () throws(StartupError) -> Blueprint

    private enum Phase {
        case starting
        case serving(FileWatcher, ExpiryWatch)
        /// Connections are accepted until the timer fires, so that load balancers notice first.
        case announcing(LoopTimer)
        /// Requests in flight are completed. Also after another process took over.
        case stopping(deadline: LoopTimer?)
        /// Nothing is waited for.
        case ending
    }

    private var phase = Phase.starting
    /// Why the process ends without a request to stop; nil otherwise.
    private var failure: StartupError?
    private let loop: Loop
    private let events: Mailbox<ProcessEvent>
    private let errorWriter: LogWriter
    private let logger: Logger
    private let audit: AuditLog
    private let threads: ServingThreads
    private let names: NameResolution
    private let memory: MemoryWatch
    private let manager: ServiceManager
    private let listeners: Listeners
    private let registry: OpenRegistry
    private let generations: Generations
    private let takeover: Takeover
    private let restart: Restart
    private let inheritance: Inheritance
    private let confinement: Confinement
    /// The absolute path that the source reads, for messages.
    private let file: String
    /// Nil until the process serves.
    private var status: StatusReporter?

    private init(
        _ blueprint: Blueprint, file: String, source: @escaping Source, _ permissions: StartPermissions,
        _ inheritance: Inheritance, successor: [String], _ confinement: Confinement
    ) throws {
        self.inheritance = inheritance
        self.confinement = confinement
        self.file = file
        loop = try Loop()
        events = try Mailbox<ProcessEvent>(limit: 4096)
        let errorWriter = try LogWriter(.standardError)
        self.errorWriter = errorWriter
        let (logger, audit) = ProcessResources.loggers(blueprint, errorWriter)
        self.logger = logger
        self.audit = audit
        confinement.log(to: logger)
        ProcessResources.forbidCoreDumps()
        ProcessResources.raiseDescriptorLimit(for: blueprint, logger)
        memory = MemoryWatch(
            limit: try ProcessMemory.budget(blueprint.configuration.limits.memory, workers: blueprint.workers),
            loop: loop, logger)
        let first = try ProcessResources.firstOrder(blueprint, memory: memory.budget, errors: errorWriter, logger)
        threads = ServingThreads(events: events, logger: logger)
        names = NameResolution(blueprint, loop: loop, workers: threads.workers, logger: logger)
        manager = ServiceManager(loop: loop, threads)
        listeners = Listeners(inheritance, logger)
        registry = OpenRegistry(permissions, takesOver: inheritance.takesOver, logger)
        generations = Generations(
            first, source: source, events: events, threads, listeners, names, manager, registry, logger)
        takeover = Takeover(inheritance.predecessor, loop: loop)
        restart = Restart(successor, loop: loop, threads, generations, manager, logger, audit)
        connect()
        // A file of another process is opened once that process has released it.
        if !inheritance.takesOver || !generations.isRegistryAlone { try generations.openRegistry(isHandover: false) }
    }

    /// Connects the parts whose events concern each other.
    private func connect() {
        generations.obstacle = { [unowned self] in
            if isStopping { return "the gateway is stopping" }
            return restart.isUnderWay ? "an upgrade is in progress" : nil
        }
        generations.onChange = { [unowned self] in
            if case .serving(let files, _) = phase { files.follow() }
        }
        restart.obstacle = { [unowned self] in
            if isStopping { return "the gateway is stopping" }
            if generations.reloads.isUnderWay { return "a reload is in progress" }
            guard case .serving = phase, threads.starting.isEmpty else { return "the gateway has just started" }
            return nil
        }
        restart.onSuccess = { [unowned self] in phase = .stopping(deadline: nil) }
        restart.onFinish = { [unowned self] in drain() }
        restart.onFailure = { [unowned self] error in
            failure = error
            stop()
        }
        takeover.onCancelled = { [unowned self] in if !isStopping { stop() } }
        takeover.onAnnounced = { [unowned self] in if case .serving = phase { manager.begin(generations.summary) } }
    }

    /// Runs the gateway until a signal stops it.
    ///
    /// - Parameters:
    ///   - file: The absolute path of the conf file.
    ///   - source: Reads the conf file again, for a reload.
    ///   - permissions: What the operator permits for this start.
    ///   - inheritance: What this process inherited from its parent.
    ///   - successor: The program and arguments that an upgrade starts.
    ///   - sandbox: Whether to give up access to other files.
    /// - Throws: `StartupError` if the gateway cannot start, in which case nothing was served; or if an upgrade
    ///   failed and it cannot continue.
    public static func run(
        _ blueprint: Blueprint, file: String, source: @escaping Source, _ permissions: StartPermissions,
        _ inheritance: Inheritance, successor: [String], sandbox: Sandbox = .off
    ) throws {
        SignalWatcher.ignoreWriteSignals()
        // Before there is a second thread, which would not be confined.
        var process: GatewayProcess?
        _ = ProcessMemory.share
        do {
            let confinement = try sandbox.enter(blueprint, inheritance, program: successor.first ?? "")
            let made = try GatewayProcess(
                blueprint, file: file, source: source, permissions, inheritance, successor: successor, confinement)
            process = made
            defer { made.errorWriter.stop() }
            try made.serve()
        } catch {
            let error = (error as? EventLoopError).map { StartupError($0.text) } ?? error
            let reason = (error as? StartupError).map(blueprint.mentions.reason) ?? "\(error)"
            // The process owns the channel to the predecessor from its creation on.
            if let process { process.takeover.failed(reason) } else { inheritance.tellFailure(reason) }
            throw error
        }
    }

    // MARK: - Start

    private func serve() throws {
        // Before anything listens: a program that sees the gateway listen may already send a signal.
        watchSignals()
        generations.resolveFirst()
        // Unless the process has begun to stop meanwhile.
        if !isStopping, inheritance.takesOver {
            // The current conf file may name another file than the other process has open, which is not handed over.
            let isHeld = registry.isHeld(in: generations.served.blueprint)
            let isReleased = takeover.awaitRelease()
            if !isStopping, generations.isRegistryAlone {
                let isHandover = isReleased && isHeld
                try generations.openRegistry(isHandover: isHandover)
                // Another file knows nothing of the devices of theirs.
                if isHandover { registry.answer(on: inheritance.takeQuerySockets()) }
            }
        }
        if !isStopping {
            try start()
            let receiver = MailboxReceiver(loop: loop, mailbox: events) { [unowned self] in receive($0) }
            withExtendedLifetime(receiver) { loop.run() }
        }
        generations.join()
        threads.join()
        generations.administration?.stop()
        listeners.removeFiles()
        let isEnding = if case .ending = phase { true } else { false }
        generations.served.exporter?.stop(flushes: !isEnding)
        // After the workers and enrolment, so that the counters they spent are committed.
        registry.close()
        generations.served.log?.stop()
        logger.info("stopped")
        if let failure { throw failure }
    }

    private func start() throws {
        let sockets = try listeners.first(for: generations.served.blueprint)
        let status = StatusReporter(
            generations, threads, restart, names, memory, isSandboxed: confinement.isInForce, loop: loop
        ) { [unowned self] in isStopping }
        self.status = status
        try generations.openAdministration(
            generations.endpoints(file: file, audit) + [restart.endpoint] + status.endpoints, loop: loop, audit,
            inherited: inheritance.sockets)
        listeners.closeInherited()
        try threads.startServices(generations.served, sockets: sockets.services)
        for sockets in sockets.workers { try threads.workers.start(generations.served, sockets: sockets) }
        generations.logStart()
        // The service manager accepts messages of a successor only after the predecessor has announced it.
        if !takeover.isPending { manager.begin(generations.summary) }
        phase = .serving(
            FileWatcher(generations, loop: loop, logger), ExpiryWatch(generations, loop: loop, logger))
    }

    private func watchSignals() {
        for signal in [SIGTERM, SIGINT] {
            SignalWatcher.watch(signal, on: loop) { [self] in
                stop(after: generations.served.blueprint.shutdownDelay)
            }
        }
        SignalWatcher.watch(SIGHUP, on: loop) { [self] in
            audit.begun("reload", "reload", by: "SIGHUP")
            generations.reload { _ in }
        }
        // A failure is reported in the log.
        SignalWatcher.watch(SIGUSR1, on: loop) { [self] in
            _ = try? ProcessResources.reopen(generations.served.log, logger)
        }
        SignalWatcher.watch(SIGUSR2, on: loop) { [self] in
            audit.begun("upgrade", "upgrade", by: "SIGUSR2")
            restart.begin { _ in }
        }
    }

    // MARK: - Reports

    private func receive(_ event: ProcessEvent) {
        switch event {
        case .loaded(let result): generations.loaded(result)
        case .thread(let thread, let report):
            switch report {
            case .serving:
                threads.began(thread)
                if threads.starting.isEmpty { takeover.serves() }
            case .duplicated(let sockets): restart.duplicated(sockets, by: thread)
            case .woundUp: restart.woundUp(by: thread)
            case .snapshot(let snapshot): status?.received(snapshot, from: thread)
            case .decisions(let batch): status?.received(batch, from: thread)
            case .prepared(let fault): generations.prepared(by: thread, fault: fault)
            case .adopted: generations.adopted(by: thread)
            case .pong: manager.answered(thread)
            case .readdressed: names.taken(by: thread)
            case .ended:
                threads.ended(thread)
                if threads.running.isEmpty { loop.stop() }
                names.ended(thread)
                status?.ended(thread)
                restart.woundUp(by: thread)
            }
        }
    }

    // MARK: - The end

    private var isStopping: Bool {
        switch phase {
        case .starting, .serving: false
        case .announcing, .stopping, .ending: true
        }
    }

    /// Stops: the first time lets requests finish, after the delay if there is one; the second time ends the delay, or
    /// ends immediately.
    ///
    /// - Parameter delay: How long a serving process still accepts connections.
    private func stop(after delay: TimeSpan = TimeSpan(nanoseconds: 0)) {
        switch phase {
        case .starting, .serving:
            let isServing = if case .serving = phase { !takeover.isPending } else { false }
            phase = .stopping(deadline: nil)
            manager.stopping()
            restart.interrupt()
            generations.interrupt()
            guard isServing, delay > TimeSpan(nanoseconds: 0) else { return beginDrain() }
            logger.info("stopping: not ready, still accepting connections for \(delay.nanoseconds / 1_000_000) ms")
            phase = .announcing(LoopTimer(loop: loop, interval: delay) { [unowned self] in beginDrain() })
        case .announcing: beginDrain()
        case .stopping: endNow()
        case .ending: break
        }
    }

    private func beginDrain() {
        logger.info("stopping: finishing requests in flight")
        drain()
    }

    private func drain() {
        if case .ending = phase { return }
        threads.drain()
        // Nothing serves yet, or it still waits for the process that it was to take over from.
        if threads.running.isEmpty { loop.stop() }
        phase = .stopping(
            deadline: LoopTimer(loop: loop, interval: generations.served.blueprint.shutdownTimeout) {
                [unowned self] in endNow()
            })
    }

    private func endNow() {
        phase = .ending
        threads.stop()
    }
}
