internal import Administration
internal import Cryptography
internal import Enrolment
internal import EventLoop
internal import Gateway
internal import Glibc
internal import Logging
internal import Registry
internal import Synchronization
internal import TLS
internal import Telemetry
internal import TelemetryExport

/// The running gateway: starts the workers, waits for signals, changes the configuration, and stops in order. Reloads
/// are in `Reload`, upgrades in `Upgrade`, what operators ask in `StatusEndpoints`.
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

    enum Event: Sendable {
        case worker(Int, Worker.Report)
        case enrolment(EnrolmentService.Report)
        case loaded(Result<Blueprint, StartupError>)
    }

    let source: Source
    /// The absolute path that `source` reads, for messages.
    let file: String
    let loop: Loop
    let events: Mailbox<Event>
    let errorWriter: LogWriter
    /// Nil while no spans are exported. Once it exists it stays, because requests of earlier generations may still
    /// have spans.
    var exporter: SpanExporter?
    let logger: Logger
    /// The audit log. It ignores the configured level, because an audit log must be complete.
    let auditLogger: Logger
    let workers: WorkerGroup
    let names: NameResolution
    /// Nil without a service manager, and after another process took over.
    var notifier = ServiceNotifier.system
    /// The generation that is served.
    var order: GenerationOrder
    var reload = ReloadState()
    var isStopping = false
    private var isEnding = false
    /// Numbers of the workers that have begun to serve, also if they have ended; including the enrolment service.
    var begun: Set<Int> = []
    /// Nil if this process does not enrol devices.
    var enrolment: EnrolmentService?
    var isEnrolmentRunning = false
    /// The number of the enrolment service among those of the workers, for changes of configuration.
    static let enrolmentNumber = -1
    let startedAt = WallClock.seconds
    private(set) lazy var snapshots = SnapshotRounds(loop: loop, workers: workers)
    private(set) lazy var decisions = DecisionFeed(loop: loop, workers: workers)
    /// Nil without a registry.
    private(set) lazy var tally = (order.enforcement?.registry).flatMap { try? DeviceTally($0, loop: loop) }
    let permissions: StartPermissions
    var administration: AdministrationServer?
    private var deadline: LoopTimer?
    private var fileWatch: FileWatch?
    private var fileTimer: LoopTimer?
    let memory: MemoryWatch
    private var expiryWatch = ExpiryWatch()
    private var expiryTimer: LoopTimer?
    var watchdog: Watchdog?
    /// What this process inherited from its parent.
    let inheritance: Inheritance
    /// The result of the sandbox.
    let confinement: Confinement
    /// The channel to the process that this one takes over from, until the hand-over is complete.
    var predecessor: UpgradeChannel?
    /// Whether that process has closed the registry's file in order.
    var isHandover = false
    var hasBegun = false
    var hasReportedServing = false
    /// The program and arguments that an upgrade starts.
    let successorCommand: [String]
    /// The upgrade in progress; it stays once another process serves.
    var upgrade: UpgradeState?
    /// The reason and time of the last failed upgrade.
    var failedUpgrade: (reason: String, at: Int64)?
    /// Whether this process has the store open.
    var isRegistryOpen = false
    /// Why the process ends without a request to stop; nil otherwise.
    var failure: StartupError?

    /// The maximum of stored TLS sessions: about 130 MB when the table is full.
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
        let events = try Mailbox<Event>(limit: 4096)
        self.events = events
        let errorWriter = try LogWriter(.standardError)
        self.errorWriter = errorWriter
        logger = Logger(label: "attestgate") { _ in blueprint.configuration.log.errorLog(errorWriter) }
        auditLogger = Logger(label: "attestgate.audit") { _ in
            var log = blueprint.configuration.log.errorLog(errorWriter)
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
            limit: try ProcessMemory.budget(blueprint.configuration.limits.memory, workers: blueprint.workers),
            loop: loop, logger)
        order = GenerationOrder(
            number: 1, blueprint: blueprint, sessions: SessionTable(limit: Self.sessionLimit), limits: SharedLimits(),
            memory: memory.budget,
            log: try ProcessResources.openLog(blueprint, logger), errors: errorWriter, exporter: exporter,
            enforcement: nil)
        workers = WorkerGroup(logger: logger) { worker, report in events.post(.worker(worker, report)) }
        names = NameResolution(blueprint, loop: loop, workers: workers, logger: logger)
        // A file of another process is opened once that process has released it.
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
                blueprint, file: file, source: source, permissions, inheritance, successor: successor,
                confinement)
            process = made
            defer { made.errorWriter.stop() }
            try made.serve()
        } catch {
            let error = (error as? EventLoopError).map { StartupError($0.text) } ?? error
            let reason = (error as? StartupError).map(blueprint.mentions.reason) ?? "\(error)"
            // The process object owns the channel to the predecessor from its creation on.
            if let process {
                process.predecessor?.tell(.failed(reason: reason))
            } else {
                inheritance.tellFailure(reason)
            }
            throw error
        }
    }

    private func serve() throws {
        // Before anything listens: a program that sees the gateway listen may already send a signal.
        watchSignals()
        order.blueprint = names.resolve(order.blueprint)
        // Unless the process has begun to stop meanwhile.
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
        // After the workers and enrolment, so that the counters they spent are committed.
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

    /// Watches signals until the process has gone, so the watchers are never released: a further signal in the last
    /// moment must neither truncate the log nor become the exit status.
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

    /// Handles a signal to stop: the first lets requests finish, the second ends immediately.
    func stopAsked() {
        if isStopping { return endNow() }
        isStopping = true
        logger.info("stopping: finishing requests in flight")
        notifier?.stopping()
        upgradeInterrupted()
        reloadInterrupted()
        // It still waits for the process that it was to take over from.
        if !hasBegun { loop.stop() }
        drain()
    }

    func drain() {
        workers.tellAll(.drain)
        enrolment?.drain()
        // Nothing serves yet.
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

/// The start: from a configuration to a process that serves.
extension GatewayProcess {
    func start() throws {
        let blueprint = order.blueprint
        let sockets = try ListeningAddresses.bind(
            blueprint.listeners, workers: blueprint.workers, mayOverlap: permissions.mayOverlap,
            inherited: inheritance.sockets)
        if let path = blueprint.configuration.administration?.socketPath {
            let subjects = try order.enforcement?.settings.secrets.subjects(LibraryContext())
            do throws(AdministrationStartError) {
                administration = try AdministrationServer(
                    loop: loop, socketPath: path, listeners: blueprint.administrationListeners,
                    registry: order.enforcement?.registry, subjects: subjects,
                    endpoints: endpoints, descriptorCeiling: blueprint.descriptors.operatorCeiling,
                    inherited: inheritance.sockets
                ) { [auditLogger] notice in auditLogger.tell(notice) }
            } catch {
                throw StartupError(error.description)
            }
        }
        if let enrolment = blueprint.enrolment {
            try startEnrolment(
                ListeningAddresses.bind(
                    enrolment, mayOverlap: permissions.mayOverlap, inherited: inheritance.sockets))
        }
        for socket in inheritance.sockets?.left ?? [] {
            logger.warning("the inherited listening socket \(socket) belongs to no listener and was closed")
        }
        inheritance.closeSockets()
        for sockets in sockets { try workers.start(order, sockets: sockets) }
        let names = blueprint.listeners.map(\.name)
        let addresses = names.isEmpty ? "no requests" : names.joined(separator: ", ")
        let count = "\(blueprint.workers) worker\(blueprint.workers == 1 ? "" : "s")"
        logger.info("serving \(addresses) with \(count), process \(getpid()), version \(GatewayVersion.text)")
        for host in blueprint.listeners.flatMap(\.hosts) {
            logger.info("\(host.place): serving \(host.names.map(\.text).joined(separator: ", "))")
        }
        hasBegun = true
        // The service manager accepts messages of a successor only after the predecessor has announced it.
        if predecessor == nil { beginNotifying() }
        watchFiles()
        warnOfExpiries()
        expiryTimer = LoopTimer(loop: loop, interval: .seconds(5), repeats: true) { [unowned self] in warnOfExpiries() }
    }

    /// Reports to the service manager that this process serves, and from then on that it is alive.
    func beginNotifying() {
        let names = order.blueprint.listeners.map(\.name)
        notifier?.ready("serving \(names.isEmpty ? "no requests" : names.joined(separator: ", "))")
        if let notifier, notifier.watchdogInterval != nil {
            watchdog = Watchdog(loop: loop, notifier: notifier) { [unowned self] in
                workers.tellAll(.ping)
                if isEnrolmentRunning { enrolment?.ping() }
                return running
            } running: { [unowned self] in
                running
            }
        }
    }

    private var endpoints: [AdministrationEndpoint] {
        [
            reloadEndpoint, reloadedFileEndpoint, reopenEndpoint, upgradeEndpoint, metricsEndpoint, statusEndpoint,
            decisionsEndpoint,
        ] + healthEndpoints
    }

    /// Starts the enrolment service.
    ///
    /// - Parameter sockets: Descriptors by name, whose ownership passes to the service.
    func startEnrolment(_ sockets: [String: Int32]) throws {
        guard let blueprint = order.blueprint.enrolment, let (settings, registry) = order.enforcement else { return }
        let enrolment = try blueprint.settings(settings.secrets)
        let (logger, events) = (logger, events)
        self.enrolment = try EnrolmentService(
            enrolment, sockets: sockets, registry: registry, memory: memory.budget,
            audit: { decision in
                if decision.isOurFault {
                    logger.error("enrolment: \(decision)")
                } else {
                    logger.notice("enrolment: \(decision)")
                }
            }, report: { events.post(.enrolment($0)) },
            failed: { reason in
                // The blueprint has built the same before: only memory or descriptors can be missing here.
                logger.critical("enrolment cannot start: \(reason)")
                exit(1)
            })
        isEnrolmentRunning = true
        logger.info("enrolling at \(blueprint.name), admission: \(blueprint.admission)")
    }
}

/// Reports of workers and enrolment.
extension GatewayProcess {
    /// The numbers of the workers, and of the enrolment service, that have not ended.
    var running: Set<Int> { workers.running.union(isEnrolmentRunning ? [Self.enrolmentNumber] : []) }

    func receive(_ event: Event) {
        switch event {
        case .enrolment(let report):
            switch report {
            case .serving:
                begun.insert(Self.enrolmentNumber)
                tellServing()
            case .duplicated(let sockets): duplicated(sockets, by: Self.enrolmentNumber)
            case .prepared(let fault): prepared(by: Self.enrolmentNumber, fault: fault)
            case .adopted: adopted(by: Self.enrolmentNumber)
            case .pong: watchdog?.answered(Self.enrolmentNumber)
            case .failed(let reason): logger.error("enrolment: \(reason)")
            case .receipt(let notice):
                switch notice.severity {
                case .info: logger.info("receipts: \(notice)")
                case .warning: logger.warning("receipts: \(notice)")
                case .error: logger.error("receipts: \(notice)")
                }
            case .ended:
                isEnrolmentRunning = false
                if running.isEmpty { loop.stop() }
                woundUp(by: Self.enrolmentNumber)
                serveAgain()
            }
        case .loaded(let result): loaded(result)
        case .worker(let worker, let report):
            switch report {
            case .serving:
                begun.insert(worker)
                tellServing()
            case .duplicated(let sockets): duplicated(sockets, by: worker)
            case .woundUp: woundUp(by: worker)
            case .snapshot(let snapshot): snapshots.received(snapshot, from: worker)
            case .decisions(let batch): decisions.received(batch, from: worker)
            case .prepared(let fault): prepared(by: worker, fault: fault)
            case .adopted: adopted(by: worker)
            case .pong: watchdog?.answered(worker)
            case .readdressed: names.taken(by: worker)
            case .ended:
                workers.ended(worker)
                names.ended(worker)
                snapshots.ended(worker)
                decisions.ended(worker)
                if running.isEmpty { loop.stop() }
            }
        }
    }
}

/// Checks while the gateway serves: changed files and expiring certificates.
extension GatewayProcess {
    /// Watches the files of the generation that is served.
    func watchFiles() {
        guard let interval = order.blueprint.watch else {
            fileTimer = nil
            return
        }
        fileWatch = FileWatch(order.blueprint.files)
        fileTimer = LoopTimer(loop: loop, interval: interval, repeats: true) { [unowned self] in
            guard fileWatch?.shouldRead(order.blueprint.files.renewed) ?? false else { return }
            logger.notice(
                "a certificate, key, authority, token, revocation list or OCSP response has changed: reloading")
            reloadAsked { _ in }
        }
    }

    private func warnOfExpiries() {
        let items = ExpiryWatch.items(of: order.blueprint)
        for news in expiryWatch.news(of: items, at: WallClock.seconds) { logger.warning("\(news)") }
    }
}

extension Logger {
    /// Logs a notice of the administration, with members for programs: `event` and its details.
    func tell(_ notice: AdministrationNotice) {
        switch notice {
        case .act(let act):
            var members: Metadata = ["event": "administration_act", "act": "\(act.name)", "by": "\(act.peer)"]
            if let target = act.target { members["target"] = "\(target)" }
            switch act.outcome {
            case .done: members["outcome"] = "done"
            case .begun: members["outcome"] = "begun"
            case .refused(let code):
                members["outcome"] = "refused"
                members["refusal"] = "\(code)"
            case .unknown(let code):
                members["outcome"] = "unknown"
                members["refusal"] = "\(code)"
            }
            self.notice("administration: \(act)", metadata: members)
        case .refused(let text):
            self.notice("administration: \(text)", metadata: ["event": "administration_refused"])
        }
    }
}
