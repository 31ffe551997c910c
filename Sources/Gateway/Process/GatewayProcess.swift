internal import Administration
internal import EventLoop
internal import Glibc
internal import Logging
internal import Registry
internal import Synchronization
internal import TLS

/// The running gateway: starts the workers, waits for signals, stops them in order.
public final class GatewayProcess {
    private enum Event: Sendable {
        case workerEnded(Int)
    }

    private let blueprint: Blueprint
    private let mayOverlap: Bool
    private let loop: Loop
    private let events: Mailbox<Event>
    private let errorWriter: LogWriter
    private let logger: Logger
    private var workers: [(mailbox: Mailbox<Worker.Command>, thread: LoopThread)] = []
    private var running: Set<Int> = []
    private var deadline: LoopTimer?
    private var isStopping = false

    /// Sessions kept for resumption: some 130 MB when the table is full.
    private static let sessionLimit = 65_536

    private init(_ blueprint: Blueprint, mayOverlap: Bool) throws {
        self.blueprint = blueprint
        self.mayOverlap = mayOverlap
        loop = try Loop()
        events = try Mailbox(limit: 1024)
        let errorWriter = try LogWriter(.standardError)
        self.errorWriter = errorWriter
        logger = Logger(label: "attestgate") { _ in blueprint.errorLog(errorWriter) }
    }

    /// Runs the gateway until a signal stops it.
    ///
    /// - Parameter mayOverlap: whether another process may be listening on the same addresses, to be stopped once this one
    ///   serves.
    /// - Throws: `StartupError` if it cannot start; nothing was served then.
    public static func run(_ blueprint: Blueprint, mayOverlap: Bool) throws {
        SignalWatcher.ignoreWriteSignals()
        do {
            let process = try GatewayProcess(blueprint, mayOverlap: mayOverlap)
            defer { process.errorWriter.stop() }
            try process.serve()
        } catch let error as EventLoopError {
            throw StartupError(error.text)
        }
    }

    private func serve() throws {
        // Before anything listens: whoever sees the gateway listen may stop it in order. And until the process is gone,
        // so never let go of: a further signal in its last moment must neither cut the log short nor be its exit status.
        for signal in [SIGTERM, SIGINT] {
            let watcher = SignalWatcher(loop: loop, signal: signal) { [self] in stopAsked() }
            _ = Unmanaged.passRetained(watcher)
        }
        // Reload by signal is what operators try first; that it is not there yet must not cost them the process.
        for (signal, name) in [(SIGHUP, "SIGHUP"), (SIGUSR2, "SIGUSR2")] {
            let watcher = SignalWatcher(loop: loop, signal: signal) { [logger] in
                logger.warning("\(name) ignored: a changed conf file or certificate takes a restart")
            }
            _ = Unmanaged.passRetained(watcher)
        }
        raiseDescriptorLimit()
        let log = try openLog()
        let watcher = SignalWatcher(loop: loop, signal: SIGUSR1) { [logger] in Self.reopen(log, logger) }
        _ = Unmanaged.passRetained(watcher)
        let sockets = try bindAll()
        let sessions = SessionTable(limit: Self.sessionLimit)
        let enforcement = try openRegistry()
        let administration = try openAdministration(enforcement?.registry)
        for index in 0..<blueprint.workers {
            try start(index, sockets: sockets[index], sessions: sessions, log: log, enforcement: enforcement)
        }
        let addresses = blueprint.listeners.map(\.name).joined(separator: ", ")
        let workers = "\(blueprint.workers) worker\(blueprint.workers == 1 ? "" : "s")"
        logger.info("serving \(addresses) with \(workers), process \(getpid())")

        let receiver = MailboxReceiver(loop: loop, mailbox: events) { [unowned self] event in
            switch event {
            case .workerEnded(let index): ended(index)
            }
        }
        withExtendedLifetime(receiver) { loop.run() }
        for worker in self.workers { worker.thread.join() }
        administration?.stop()
        // After the workers: what they spent is committed and folded.
        enforcement?.registry.stop()
        log?.stop()
        logger.info("stopped")
    }

    private func openLog() throws(StartupError) -> LogWriter? {
        guard let destination = blueprint.accessDestination else { return nil }
        do throws(EventLoopError) { return try LogWriter(destination) } catch {
            throw StartupError("log: access: \(error.text)")
        }
    }

    /// After logrotate has moved the file away.
    private static func reopen(_ log: LogWriter?, _ logger: Logger) {
        do throws(EventLoopError) {
            if try log?.reopen() == true {
                logger.info("access log reopened")
            } else {
                logger.info("SIGUSR1: access is not logged to a file, nothing to reopen")
            }
        } catch {
            logger.error("access log not reopened, the old file is kept: \(error.text)")
        }
    }

    /// Opens the store, and makes both it and the secrets where there are none.
    ///
    /// - Returns: nil if the configuration has no registry.
    private func openRegistry() throws(StartupError) -> (settings: Enforcement.Settings, registry: DeviceRegistry)? {
        guard let settings = blueprint.registry else { return nil }
        let secrets = try GatewaySecrets.load(settings.secretPath)
        var limits = RegistryLimits()
        limits.devices = settings.devices
        let logger = logger
        do throws(StoreOpenError) {
            let registry = try DeviceRegistry.start(
                path: settings.path, creating: true, limits: limits, durability: blueprint.durability
            ) { event in
                switch event {
                case .failed(let reason): logger.error("registry: \(reason): what needs it is refused")
                case .cannotReopen(let reason): logger.error("registry: cannot be opened again: \(reason)")
                case .recovered: logger.notice("registry: serves again")
                }
            }
            return (blueprint.enforcement(secrets), registry)
        } catch {
            throw StartupError("registry: \(error)")
        }
    }

    private func openAdministration(_ registry: DeviceRegistry?) throws(StartupError) -> AdministrationServer? {
        guard let path = blueprint.administrationSocket else { return nil }
        do throws(AdministrationStartError) {
            return try AdministrationServer(loop: loop, socketPath: path, registry: registry)
        } catch {
            throw StartupError(error.description)
        }
    }

    /// Listening sockets for all workers, before any thread exists: an address in use is found here.
    ///
    /// - Returns: for each worker the descriptors, in the order of the listeners.
    private func bindAll() throws(StartupError) -> [[Int32]] {
        // With SO_REUSEPORT the kernel would let a second process of the same user in, and a forgotten one would go on
        // serving its share by its old rules.
        if !mayOverlap {
            for listener in blueprint.listeners { _ = try bind(listener, isShared: false) }
        }
        var sockets: [[Int32]] = []
        for _ in 0..<blueprint.workers {
            var own: [Int32] = []
            for listener in blueprint.listeners { own.append(try bind(listener, isShared: true).detach()) }
            sockets.append(own)
        }
        return sockets
    }

    private func bind(_ listener: Blueprint.Listener, isShared: Bool) throws(StartupError) -> Socket {
        do throws(EventLoopError) {
            return try Socket.listen(on: listener.address, isShared: isShared)
        } catch {
            var hint = ""
            if case .system(_, EACCES) = error { hint = "; ports below 1024 take CAP_NET_BIND_SERVICE" }
            throw StartupError("listener \(listener.name): \(error.text)\(hint)")
        }
    }

    /// As many descriptors as this process may have at all, and a word if that is less than the conf file promises.
    private func raiseDescriptorLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        // A connection takes one, and one more upstream.
        let wanted = blueprint.workers * blueprint.settings.connections * 2
        if limit.rlim_max < rlim_t(wanted) {
            logger.warning(
                "this process may open \(limit.rlim_max) files; all connections of limits.connections would take \(wanted)"
            )
        }
    }

    private func start(
        _ index: Int, sockets: [Int32], sessions: SessionTable, log: LogWriter?,
        enforcement: (settings: Enforcement.Settings, registry: DeviceRegistry)?
    ) throws {
        let mailbox = try Mailbox<Worker.Command>(limit: 64)
        let blueprint = blueprint
        let events = events
        let logger = logger
        let thread = try LoopThread(name: "worker-\(index)") {
            do {
                try Worker(
                    blueprint, sockets: sockets, sessions: sessions, log: log, enforcement: enforcement,
                    mailbox: mailbox
                ).run()
            } catch {
                // The blueprint has built the same contexts before; what fails here is memory or descriptors.
                logger.critical("worker \(index) cannot start: \(error)")
                exit(1)
            }
            events.post(.workerEnded(index))
        }
        workers.append((mailbox, thread))
        running.insert(index)
    }

    /// The first signal lets requests finish, the second ends at once.
    private func stopAsked() {
        if isStopping { return endNow() }
        isStopping = true
        logger.info("stopping: finishing open requests")
        for worker in workers { worker.mailbox.post(.drain) }
        deadline = LoopTimer(loop: loop, interval: blueprint.shutdownTimeout) { [unowned self] in endNow() }
    }

    private func endNow() {
        for worker in workers { worker.mailbox.post(.stop) }
    }

    private func ended(_ index: Int) {
        running.remove(index)
        if running.isEmpty { loop.stop() }
    }
}

extension EventLoopError {
    static func text(of errno: Int32) -> String { String(cString: strerror(errno)) }

    /// For people.
    var text: String {
        switch self {
        case .outOfMemory: "out of memory"
        case .system(let call, let errno): "\(call): \(String(cString: strerror(errno)))"
        case .address(let text): "\(text) is not an IP address with a port"
        }
    }
}
