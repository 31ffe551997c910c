internal import EventLoop
internal import Glibc
internal import Logging
internal import Synchronization
internal import TLS

/// The running gateway: starts the workers, waits for signals, stops them in order.
public final class GatewayProcess {
    private enum Event: Sendable {
        case workerEnded(Int)
    }

    private let blueprint: Blueprint
    private let loop: Loop
    private let events: Mailbox<Event>
    private let logger: Logger
    private var workers: [(mailbox: Mailbox<Worker.Command>, thread: LoopThread)] = []
    private var running: Set<Int> = []
    private var deadline: LoopTimer?
    private var isStopping = false

    /// Sessions kept for resumption: some 130 MB when the table is full.
    private static let sessionLimit = 65_536

    private init(_ blueprint: Blueprint) throws {
        self.blueprint = blueprint
        loop = try Loop()
        events = try Mailbox(limit: 1024)
        logger = Logger(label: "attestgate") { _ in ConsoleLog() }
    }

    /// Runs the gateway until a signal stops it.
    ///
    /// - Throws: `StartupError` if it cannot start; nothing was served then.
    public static func run(_ blueprint: Blueprint) throws {
        SignalWatcher.ignoreBrokenPipes()
        do {
            let process = try GatewayProcess(blueprint)
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
        let log = try openLog()
        let sockets = try bindAll()
        let sessions = SessionTable(limit: Self.sessionLimit)
        for index in 0..<blueprint.workers {
            try start(index, sockets: sockets[index], sessions: sessions, log: log)
        }
        let addresses = blueprint.listeners.map(\.name).joined(separator: ", ")
        logger.info("serving \(addresses) with \(blueprint.workers) workers")

        let receiver = MailboxReceiver(loop: loop, mailbox: events) { [unowned self] event in
            switch event {
            case .workerEnded(let index): ended(index)
            }
        }
        withExtendedLifetime(receiver) { loop.run() }
        for worker in workers { worker.thread.join() }
        log?.stop()
        logger.info("stopped")
    }

    private func openLog() throws(StartupError) -> LogWriter? {
        do throws(EventLoopError) {
            return switch blueprint.access {
            case .off: nil
            case .standardOutput: try LogWriter(path: nil)
            case .file(let path): try LogWriter(path: path)
            }
        } catch {
            throw StartupError("log: access: \(error.text)")
        }
    }

    /// Listening sockets for all workers, before any thread exists: an address in use is found here.
    ///
    /// - Returns: for each worker the descriptors, in the order of the listeners.
    private func bindAll() throws -> [[Int32]] {
        try (0..<blueprint.workers).map { _ in
            try blueprint.listeners.map { listener in
                do throws(EventLoopError) {
                    return try Socket.listen(on: listener.address).detach()
                } catch {
                    throw StartupError("listener \(listener.name): \(error.text)")
                }
            }
        }
    }

    private func start(_ index: Int, sockets: [Int32], sessions: SessionTable, log: LogWriter?) throws {
        let mailbox = try Mailbox<Worker.Command>(limit: 64)
        let blueprint = blueprint
        let events = events
        let logger = logger
        let thread = try LoopThread(name: "worker-\(index)") {
            do {
                try Worker(blueprint, sockets: sockets, sessions: sessions, log: log, mailbox: mailbox).run()
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
    /// For people.
    var text: String {
        switch self {
        case .outOfMemory: "out of memory"
        case .system(let call, let errno): "\(call): \(String(cString: strerror(errno)))"
        case .address(let text): "\(text) is not an IP address with a port"
        }
    }
}
