internal import Administration
internal import Enrolment
internal import EventLoop
internal import Gateway
internal import Glibc
internal import Logging
internal import Registry
internal import Synchronization
internal import TLS
internal import Tracing

/// The running gateway: starts the workers, waits for signals, changes their configuration, stops them in order.
public final class GatewayProcess {
    /// Reads the configuration again. Called on a thread of its own.
    public typealias Source = @Sendable () throws(StartupError) -> Blueprint

    enum Event: Sendable {
        case worker(Int, Worker.Report)
        case enrolment(EnrolmentService.Report)
        case loaded(Result<Blueprint, StartupError>)
    }

    let source: Source
    /// What `source` reads, for people: an absolute path.
    let file: String
    let loop: Loop
    let events: Mailbox<Event>
    let errorWriter: LogWriter
    /// Once there is one it stays: requests of earlier generations may still have spans. Nil while no spans are exported.
    var exporter: SpanExporter?
    let logger: Logger
    /// Who has done what, whatever the level of the log: an audit log with holes is none.
    let auditLogger: Logger
    let workers: WorkerGroup
    /// The addresses of servers that are known by a name, and which workers know them.
    let names: NameBook
    var addressDelivery = AddressDelivery()
    /// Nil without a service manager, and once another process is watched in place of this one.
    var notifier = ServiceNotifier.system
    /// What is served now.
    var order: GenerationOrder
    var reload = ReloadState()
    var isStopping = false
    private var isEnding = false
    /// The workers that serve, and those that have ended since; the enrolment service among them, by its own number.
    var begun: Set<Int> = []
    /// What enrols devices; nil if this process does not.
    var enrolment: EnrolmentService?
    var isEnrolmentRunning = false
    /// Among the workers' numbers, where all are counted that a change of configuration waits for.
    static let enrolmentNumber = -1
    let startedAt = WallClock.seconds
    private(set) lazy var snapshots = SnapshotRounds(loop: loop, workers: workers)
    private(set) lazy var decisions = DecisionFeed(loop: loop, workers: workers)
    /// Nil without a registry.
    private(set) lazy var tally = (order.enforcement?.registry).flatMap { try? DeviceTally($0, loop: loop) }
    let permissions: StartPermissions
    var administration: AdministrationServer?
    private var deadline: LoopTimer?
    var fileWatch: FileWatch?
    var fileTimer: LoopTimer?
    let memory: MemoryWatch
    var expiryWatch = ExpiryWatch()
    var expiryTimer: LoopTimer?
    var watchdog: Watchdog?
    /// What this process has inherited from its parent.
    let inheritance: Inheritance
    /// Which files are out of reach.
    let confinement: Confinement
    /// The process that this one takes over from, until that has handed over everything.
    var predecessor: UpgradeChannel?
    /// Whether that has closed the registry's file in order, for this one to open.
    var isHandover = false
    var hasBegun = false
    var hasReportedServing = false
    /// The program and the arguments of a process that is to take over from this one.
    let successorCommand: [String]
    /// Under way; once another process serves it stays.
    var upgrade: UpgradeState?
    /// The last one of this process that came to nothing, with its reason and its time.
    var failedUpgrade: (reason: String, at: Int64)?
    /// Whether the store is this process's.
    var isRegistryOpen = false
    /// Why the process ends though nobody has asked for it; nil if somebody has.
    var failure: StartupError?

    /// Sessions kept for resumption: some 130 MB when the table is full.
    private static let sessionLimit = 20_000

    private init(
        _ blueprint: Blueprint, file: String, source: @escaping Source, _ permissions: StartPermissions,
        _ inheritance: Inheritance, successor: [String], _ confinement: Confinement
    ) throws {
        self.inheritance = inheritance
        self.confinement = confinement
        successorCommand = successor
        self.file = file
        self.source = source
        self.permissions = permissions
        loop = try Loop()
        names = NameBook(loop: loop, settings: blueprint.resolver, forbidden: blueprint.forbidden)
        let events = try Mailbox<Event>(limit: 4096)
        self.events = events
        let errorWriter = try LogWriter(.standardError)
        self.errorWriter = errorWriter
        logger = Logger(label: "attestgate") { _ in blueprint.errorLog(errorWriter) }
        auditLogger = Logger(label: "attestgate.audit") { _ in
            var log = blueprint.errorLog(errorWriter)
            log.logLevel = min(log.logLevel, .notice)
            return log
        }
        if let text = confinement.description {
            if confinement.isInForce { logger.info("\(text)") } else { logger.warning("\(text)") }
        }
        ProcessResources.forbidCoreDumps()
        ProcessResources.raiseDescriptorLimit(for: blueprint, logger)
        exporter = try ProcessResources.openExporter(blueprint, logger)
        memory = MemoryWatch(
            limit: try ProcessMemory.budget(blueprint.memory, workers: blueprint.workers), loop: loop, logger)
        order = GenerationOrder(
            number: 1, blueprint: blueprint, sessions: SessionTable(limit: Self.sessionLimit), limits: SharedLimits(),
            memory: memory.budget,
            log: try ProcessResources.openLog(blueprint, logger), errors: errorWriter, exporter: exporter,
            enforcement: nil)
        workers = WorkerGroup(logger: logger) { worker, report in events.post(.worker(worker, report)) }
        // The file of another process is opened when that has let go of it.
        if inheritance.predecessor == nil || !isRegistryAlone { try openRegistry() }
    }

    private func openRegistry() throws(StartupError) {
        guard let settings = order.blueprint.registry else { return }
        let (registry, secrets) = try RegistryOpening(settings, permissions, logger).open(
            durability: order.blueprint.durability, isHandover: isHandover,
            patience: inheritance.takesOver ? Self.lockPatience : TimeSpan(nanoseconds: 0))
        order.enforcement = (order.blueprint.enforcement(secrets), registry)
        isRegistryOpen = true
    }

    /// Runs the gateway until a signal stops it.
    ///
    /// - Parameters:
    ///   - file: the absolute path of the conf file.
    ///   - source: reads it again, for a reload.
    ///   - permissions: what the operator has allowed for this start.
    ///   - inheritance: what this process has inherited from its parent.
    ///   - successor: the program and the arguments by which an upgrade starts another process.
    ///   - sandbox: whether to give up access to other files.
    /// - Throws: `StartupError` if it cannot start, and nothing was served then; or if an upgrade has failed, and it cannot go on.
    public static func run(
        _ blueprint: Blueprint, file: String, source: @escaping Source, _ permissions: StartPermissions,
        _ inheritance: Inheritance, successor: [String], sandbox: Sandbox = .off
    ) throws {
        SignalWatcher.ignoreWriteSignals()
        // Before there is a second thread, which it would not be for.
        var process: GatewayProcess?
        _ = ProcessMemory.share
        do {
            let confinement = try sandbox.enter(blueprint, inheritance, program: successor.first ?? "")
            let made = try GatewayProcess(
                blueprint, file: file, source: source, permissions, inheritance, successor: successor,
                confinement)
            process = made
            defer { made.errorWriter.stop() }
            try made.serve()
        } catch {
            let error = (error as? EventLoopError).map { StartupError($0.text) } ?? error
            let reason = (error as? StartupError).map(blueprint.mentions.reason) ?? "\(error)"
            // Once it is made it has the way to the other one, for as long as that is there.
            if let process {
                process.predecessor?.tell(.failed(reason: reason))
            } else {
                inheritance.tellFailure(reason)
            }
            throw error
        }
    }

    private func serve() throws {
        // Before anything listens: a program that sees the gateway listen may stop it in order.
        watchSignals()
        resolveNames()
        // Unless it has begun to stop meanwhile.
        if !isStopping { awaitRelease() }
        if !isStopping {
            if !isRegistryOpen { try openRegistry() }
            try start()
            let receiver = MailboxReceiver(loop: loop, mailbox: events) { [unowned self] in receive($0) }
            withExtendedLifetime(receiver) { loop.run() }
        }
        reload.loader?.join()
        workers.join()
        enrolment?.join()
        administration?.stop()
        exporter?.stop(flushes: !isEnding)
        // After the workers and enrolment: what they spent is committed and folded.
        if let registry = order.enforcement?.registry, isRegistryOpen { stop(registry) }
        order.log?.stop()
        logger.info("stopped")
        if let failure { throw failure }
    }

    func stop(_ registry: DeviceRegistry) {
        registry.stop()
        let metrics = registry.metrics
        logger.info("registry: \(metrics.counters) counters in \(metrics.commits) commits")
    }

    /// Until the process is gone, so never let go of: a further signal in its last moment must neither cut the log short nor
    /// be its exit status.
    private func watchSignals() {
        func watch(_ signal: Int32, _ action: @escaping () -> Void) {
            _ = Unmanaged.passRetained(SignalWatcher(loop: loop, signal: signal, action: action))
        }
        for signal in [SIGTERM, SIGINT] { watch(signal) { [self] in stopAsked() } }
        watch(SIGHUP) { [self] in
            auditLogger.tell(.act(AdministrationAct("reload", "reload", .begun, by: "SIGHUP")))
            reloadAsked { _ in }
        }
        // A failure is reported in the log.
        watch(SIGUSR1) { [self] in _ = try? ProcessResources.reopen(order.log, logger) }
        watch(SIGUSR2) { [self] in
            auditLogger.tell(.act(AdministrationAct("upgrade", "upgrade", .begun, by: "SIGUSR2")))
            upgradeAsked { _ in }
        }
    }

    // MARK: - The end

    /// The first signal lets requests finish, the second ends at once.
    func stopAsked() {
        if isStopping { return endNow() }
        isStopping = true
        logger.info("stopping: finishing requests in flight")
        notifier?.stopping()
        upgradeInterrupted()
        reloadInterrupted()
        // Still waiting for the process that this one was to take over from.
        if !hasBegun { loop.stop() }
        drain()
    }

    func drain() {
        workers.tellAll(.drain)
        enrolment?.drain()
        // It has not begun to serve.
        if running.isEmpty { loop.stop() }
        deadline = LoopTimer(loop: loop, interval: order.blueprint.shutdownTimeout) { [unowned self] in endNow() }
    }

    private func endNow() {
        guard !isEnding else { return }
        isEnding = true
        workers.tellAll(.stop)
        enrolment?.stop()
    }
}
