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

/// The running gateway: starts the workers, waits for signals, changes their configuration, stops them in order.
public final class GatewayProcess {
    /// Reads the configuration anew. Called on a thread of its own.
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
    private let errorWriter: LogWriter
    let logger: Logger
    let workers: WorkerGroup
    /// The addresses of servers that are known by a name, and which workers know them.
    let names: NameBook
    var addressDelivery = AddressDelivery()
    let notifier = ServiceNotifier.system
    /// What is served now.
    var order: GenerationOrder
    var reload = ReloadState()
    var isStopping = false
    private var isEnding = false
    /// The workers that serve, and those that have ended since; the enrolment service among them, by its own number.
    private(set) var begun: Set<Int> = []
    /// What enrols devices; nil if this process does not.
    private(set) var enrolment: EnrolmentService?
    private var isEnrolmentRunning = false
    /// Among the workers' numbers, where all are counted that a change of configuration waits for.
    static let enrolmentNumber = -1
    let startedAt = WallClock.seconds
    private(set) lazy var snapshots = SnapshotRounds(loop: loop, workers: workers)
    private let mayOverlap: Bool
    private(set) var administration: AdministrationServer?
    private var deadline: LoopTimer?
    private var fileWatch: FileWatch?
    private var fileTimer: LoopTimer?
    private var expiryWatch = ExpiryWatch()
    private var expiryTimer: LoopTimer?
    private var watchdog: Watchdog?

    /// Sessions kept for resumption: some 130 MB when the table is full.
    private static let sessionLimit = 20_000

    private init(_ blueprint: Blueprint, file: String, source: @escaping Source, mayOverlap: Bool) throws {
        self.file = file
        self.source = source
        self.mayOverlap = mayOverlap
        loop = try Loop()
        names = NameBook(loop: loop, settings: blueprint.resolver, forbidden: blueprint.forbidden)
        let events = try Mailbox<Event>(limit: 4096)
        self.events = events
        let errorWriter = try LogWriter(.standardError)
        self.errorWriter = errorWriter
        logger = Logger(label: "attestgate") { _ in blueprint.errorLog(errorWriter) }
        ProcessResources.forbidCoreDumps()
        ProcessResources.raiseDescriptorLimit(for: blueprint, logger)
        let registry = try blueprint.registry.map { [logger] settings throws(StartupError) in
            let secrets = try GatewaySecrets.load(settings.secretPath) {
                logger.notice(
                    "registry: made a new secret, \(settings.secretPath): services know no device by an old name")
            }
            let registry = try ProcessResources.openRegistry(settings, durability: blueprint.durability, logger)
            return (blueprint.enforcement(secrets), registry)
        }
        order = GenerationOrder(
            number: 1, blueprint: blueprint, sessions: SessionTable(limit: Self.sessionLimit), limits: SharedLimits(),
            log: try ProcessResources.openLog(blueprint), enforcement: registry)
        workers = WorkerGroup(logger: logger) { worker, report in events.post(.worker(worker, report)) }
    }

    /// Runs the gateway until a signal stops it.
    ///
    /// - Parameters:
    ///   - file: the absolute path of the conf file.
    ///   - source: reads it anew, for a reload.
    ///   - mayOverlap: whether another process may be listening on the same addresses, to be stopped once this one serves.
    /// - Throws: `StartupError` if it cannot start; nothing was served then.
    public static func run(_ blueprint: Blueprint, file: String, source: @escaping Source, mayOverlap: Bool) throws {
        SignalWatcher.ignoreWriteSignals()
        do {
            let process = try GatewayProcess(blueprint, file: file, source: source, mayOverlap: mayOverlap)
            defer { process.errorWriter.stop() }
            try process.serve()
        } catch let error as EventLoopError {
            throw StartupError(error.text)
        }
    }

    private func serve() throws {
        // Before anything listens: whoever sees the gateway listen may stop it in order.
        watchSignals()
        resolveNames()
        // Unless it was told to end meanwhile.
        if !isStopping {
            try start()
            let receiver = MailboxReceiver(loop: loop, mailbox: events) { [unowned self] in receive($0) }
            withExtendedLifetime(receiver) { loop.run() }
        }
        reload.loader?.join()
        workers.join()
        enrolment?.join()
        administration?.stop()
        // After the workers and enrolment: what they spent is committed and folded.
        if let registry = order.enforcement?.registry { stop(registry) }
        order.log?.stop()
        logger.info("stopped")
    }

    private func stop(_ registry: DeviceRegistry) {
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
        watch(SIGHUP) { [self] in reloadAsked { _ in } }
        watch(SIGUSR1) { [self] in ProcessResources.reopen(order.log, logger) }
        watch(SIGUSR2) { [logger] in logger.warning("SIGUSR2 ignored: it means nothing here") }
    }

    private func start() throws {
        let blueprint = order.blueprint
        let sockets = try ListeningAddresses.bind(
            blueprint.listeners, workers: blueprint.workers, mayOverlap: mayOverlap)
        if let path = blueprint.administration?.socketPath {
            let subjects = try order.enforcement?.settings.secrets.subjects(LibraryContext())
            do throws(AdministrationStartError) {
                administration = try AdministrationServer(
                    loop: loop, socketPath: path, listeners: blueprint.administrationListeners,
                    registry: order.enforcement?.registry, subjects: subjects,
                    endpoints: [reloadEndpoint, reloadedFileEndpoint, metricsEndpoint, statusEndpoint] + healthEndpoints
                ) { [logger] change in logger.notice("administration: \(change)") }
            } catch {
                throw StartupError(error.description)
            }
        }
        try startEnrolment()
        for sockets in sockets { try workers.start(order, sockets: sockets) }
        let names = blueprint.listeners.map(\.name)
        let addresses = names.isEmpty ? "no requests" : names.joined(separator: ", ")
        let count = "\(blueprint.workers) worker\(blueprint.workers == 1 ? "" : "s")"
        logger.info("serving \(addresses) with \(count), process \(getpid())")
        for host in blueprint.listeners.flatMap(\.hosts) {
            logger.info("\(host.place): serving \(host.names.map(\.text).joined(separator: ", "))")
        }
        notifier?.ready("serving \(addresses)")
        watchFiles()
        warnOfExpiries()
        expiryTimer = LoopTimer(loop: loop, interval: .seconds(5), repeats: true) { [unowned self] in warnOfExpiries() }
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

    private func startEnrolment() throws {
        guard let blueprint = order.blueprint.enrolment, let (settings, registry) = order.enforcement else { return }
        let enrolment = try blueprint.settings(settings.secrets)
        let sockets = try ListeningAddresses.bind(blueprint, mayOverlap: mayOverlap)
        let (logger, events) = (logger, events)
        self.enrolment = try EnrolmentService(
            enrolment, sockets: sockets, registry: registry,
            audit: { decision in
                if decision.isOurFault {
                    logger.error("enrolment: \(decision)")
                } else {
                    logger.notice("enrolment: \(decision)")
                }
            }, report: { events.post(.enrolment($0)) },
            failed: { reason in
                // The blueprint has built the same before; what fails here is memory or descriptors.
                logger.critical("enrolment cannot start: \(reason)")
                exit(1)
            })
        isEnrolmentRunning = true
        logger.info("enrolling at \(blueprint.name), admission: \(blueprint.admission)")
    }

    /// The numbers of all that serve and have not ended: the workers', and that of the enrolment service.
    var running: Set<Int> { workers.running.union(isEnrolmentRunning ? [Self.enrolmentNumber] : []) }

    private func receive(_ event: Event) {
        switch event {
        case .enrolment(let report):
            switch report {
            case .serving: begun.insert(Self.enrolmentNumber)
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
            }
        case .loaded(let result): loaded(result)
        case .worker(let worker, let report):
            switch report {
            case .serving: begun.insert(worker)
            case .snapshot(let snapshot): snapshots.received(snapshot, from: worker)
            case .prepared(let fault): prepared(by: worker, fault: fault)
            case .adopted: adopted(by: worker)
            case .pong: watchdog?.answered(worker)
            case .readdressed: addressesTaken(by: worker)
            // Here and not there: it takes its time, and this thread serves nobody in a hurry.
            case .crowdLeft: Allocator.giveBack()
            case .ended:
                workers.ended(worker)
                addressDelivery.ended(worker)
                snapshots.ended(worker)
                if running.isEmpty { loop.stop() }
            }
        }
    }

    /// Begins to look at the files of what is served now.
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
        for news in expiryWatch.news(of: order.blueprint.expiries, at: WallClock.seconds) { logger.warning("\(news)") }
    }

    // MARK: - The end

    /// The first signal lets requests finish, the second ends at once.
    private func stopAsked() {
        if isStopping { return endNow() }
        isStopping = true
        logger.info("stopping: finishing open requests")
        notifier?.stopping()
        reloadInterrupted()
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
