internal import Administration
internal import Cryptography
internal import Enrolment
internal import EventLoop
internal import Gateway
internal import Glibc
internal import Logging
internal import Registry
internal import TelemetryExport

/// The generation that is served, and the way to the next one: its configuration is read on a separate thread, its
/// names are resolved, all threads prepare it, then all serve it. If any step fails, nothing has changed.
final class Generations {
    /// Reads the configuration again. Called on a separate thread.
    typealias Source = @Sendable () throws(StartupError) -> Blueprint

    /// The generation that is served.
    private(set) var served: GenerationOrder
    /// The reload in progress, and the outcomes.
    private(set) var reloads = ReloadState()
    /// Nil until the process serves, and without an administration.
    private(set) var administration: AdministrationServer?
    /// Why no reload may begin now; nil if one may.
    var obstacle: () -> String? = { nil }
    /// Called when another generation is served.
    var onChange: () -> Void = {}

    private let source: Source
    private let events: Mailbox<ProcessEvent>
    private let threads: ServingThreads
    private let listeners: Listeners
    private let names: NameResolution
    private let manager: ServiceManager
    private let registry: OpenRegistry
    private let logger: Logger
    /// The thread that reads the files. Joined before the process ends: it must not use OpenSSL when that is cleaned up.
    private var loader: LoopThread?
    /// Doubtful settings in the last configuration read, for the client that asked for the reload.
    private var warnings: [String] = []

    init(
        _ first: GenerationOrder, source: @escaping Source, events: Mailbox<ProcessEvent>,
        _ threads: ServingThreads, _ listeners: Listeners, _ names: NameResolution, _ manager: ServiceManager,
        _ registry: OpenRegistry, _ logger: Logger
    ) {
        served = first
        self.source = source
        self.events = events
        self.threads = threads
        self.listeners = listeners
        self.names = names
        self.manager = manager
        self.registry = registry
        self.logger = logger
    }

    /// Resolves the names of the first generation. Blocks, and returns early if the loop is stopped.
    func resolveFirst() { served.blueprint = names.resolve(served.blueprint) }

    /// Opens the registry of the first generation, if it has one.
    ///
    /// - Parameter isHandover: Whether a running process hands over its file.
    func openRegistry(isHandover: Bool) throws(StartupError) {
        served.enforcement = try registry.open(for: served.blueprint, isHandover: isHandover)
        served.shareSessions()
    }

    /// Opens the administration of the first generation, if it has one.
    func openAdministration(
        _ endpoints: [AdministrationEndpoint], loop: Loop, _ audit: AuditLog, inherited: InheritedSockets?
    ) throws {
        guard let path = served.blueprint.configuration.administration?.socketPath else { return }
        let subjects = try served.enforcement?.settings.secrets.subjects(LibraryContext())
        do throws(AdministrationStartError) {
            administration = try AdministrationServer(
                loop: loop, socketPath: path, listeners: served.blueprint.administrationListeners,
                registry: served.enforcement?.registry, subjects: subjects, endpoints: endpoints,
                descriptorCeiling: served.blueprint.descriptors.operatorCeiling, inherited: inherited
            ) { audit.record($0) }
        } catch {
            throw StartupError(error.description)
        }
    }

    /// What is served, for messages.
    var summary: String {
        let names = served.blueprint.listeners.map(\.name)
        return "serving \(names.isEmpty ? "no requests" : names.joined(separator: ", "))"
    }

    /// Logs what the process serves from its start.
    func logStart() {
        let workers = served.blueprint.workers
        let count = "\(workers) worker\(workers == 1 ? "" : "s")"
        logger.info("\(summary) with \(count), process \(getpid()), version \(GatewayVersion.text)")
        for host in served.blueprint.listeners.flatMap(\.hosts) {
            logger.info("\(host.place): serving \(host.names.map(\.text).joined(separator: ", "))")
        }
    }

    // MARK: - Reload

    /// Begins a reload, or queues it behind the one in progress.
    ///
    /// - Parameter completion: Called once with the outcome.
    func reload(_ completion: @escaping ReloadState.Completion) {
        if let obstacle = obstacle() { return completion(.failed(obstacle)) }
        guard reloads.begin(completion) else { return }
        manager.reloading()
        let (source, events) = (source, events)
        do throws(EventLoopError) {
            // On a separate thread, because reading files may take time.
            loader = try LoopThread(name: "loader") {
                do throws(StartupError) { events.post(.loaded(.success(try source()))) } catch {
                    events.post(.loaded(.failure(error)))
                }
            }
        } catch {
            end(.failed(error.text))
        }
    }

    func loaded(_ result: Result<Blueprint, StartupError>) {
        // Unless the process has begun to stop since.
        guard reloads.isUnderWay else { return }
        do throws(StartupError) {
            let blueprint = try result.get()
            warnings = blueprint.warnings.map { warning in
                warning.subject.map { _ in blueprint.mentions.diagnostic(warning).description } ?? warning.description
            }
            for warning in warnings { logger.warning("\(warning)") }
            if let obstacle = served.blueprint.configuration.obstacle(to: blueprint.configuration) {
                throw StartupError(obstacle)
            }
            names.follow(served.blueprint, andNext: blueprint) { [unowned self] located in
                // Unless the process has begun to stop since.
                guard reloads.isUnderWay else { return }
                do throws(StartupError) { try prepare(located) } catch {
                    let place = error.subject.map { _ in blueprint.mentions.diagnostic(error).description }
                    end(.failed(place ?? error.description))
                }
            }
        } catch {
            end(.failed(error.description))
        }
    }

    private func prepare(_ blueprint: Blueprint) throws(StartupError) {
        var next = served.successor
        next.blueprint = blueprint
        if let settings = blueprint.registry, let running = served.enforcement {
            // The secrets are read too, so that they can be changed.
            let secrets = try GatewaySecrets.reload(settings.secretPath, of: running.settings.secrets)
            next.enforcement = (blueprint.enforcement(secrets), running.registry)
        }
        do throws(AdministrationStartError) {
            try administration?.prepare(blueprint.administrationListeners)
        } catch {
            throw StartupError(error.description)
        }
        // Once it exists it stays, because requests of earlier generations may still have spans. It receives its new
        // destination when the generation is served.
        if served.exporter == nil { served.exporter = try ProcessResources.openExporter(blueprint, logger) }
        next.exporter = served.exporter
        var services = ServingThreads.NextServices(sockets: [:])
        if let (settings, registry) = next.enforcement {
            services.enrolment = try blueprint.enrolment.map { enrolment throws(StartupError) in
                try enrolment.settings(settings, registry)
            }
            services.federation = blueprint.federation?.settings(settings, registry)
        }
        let sockets = try listeners.new(for: blueprint, since: served.blueprint)
        services.sockets = sockets.services
        reloads.change(to: next, by: threads.running)
        threads.prepare(next, sockets: sockets.workers, services: services)
    }

    // MARK: - Change

    func prepared(by thread: Int, fault: String?) {
        act { $0.prepared(by: thread, fault: fault) }
    }

    func adopted(by thread: Int) {
        act { $0.adopted(by: thread) }
    }

    private func act(_ step: (inout GenerationChange) -> GenerationChange.Action) {
        guard let (action, next) = reloads.act(step) else { return }
        switch action {
        case .wait: break
        case .adopt:
            do throws(EventLoopError) {
                // The last step that can fail.
                if let destination = next.blueprint.configuration.log.accessDestination,
                    destination != served.blueprint.configuration.log.accessDestination
                {
                    try served.log?.redirect(to: destination)
                }
                threads.adopt()
                administration?.adopt()
            } catch {
                threads.discard()
                end(.failed("log: access: \(error.text)"))
            }
        case .discard(let fault):
            threads.discard()
            end(.failed(fault))
        case .finish:
            served = next
            next.shareSessions()
            next.memory.limit = next.blueprint.configuration.limits.memory ?? ProcessMemory.share
            if let tracing = next.blueprint.tracing { next.exporter?.adopt(tracing.export) }
            onChange()
            end(.done(generation: next.number))
        }
    }

    /// Ends the reload because the process stops: threads discard what they have prepared.
    func interrupt() { end(.failed("the gateway is stopping")) }

    private func end(_ outcome: ReloadState.Outcome) {
        guard let waiting = reloads.end(outcome, at: WallClock.seconds) else { return }
        names.follow(served.blueprint)
        listeners.keepFiles(of: served.blueprint)
        // Discards listeners that were prepared and are not used.
        administration?.discard()
        switch outcome {
        case .done(let generation): logger.notice("reloaded: generation \(generation)")
        case .failed(let reason): logger.error("not reloaded, nothing changed: \(reason)")
        }
        for completion in waiting.completions { completion(outcome) }
        manager.ready("generation \(served.number)")
        guard !waiting.next.isEmpty else { return }
        reload { outcome in
            for completion in waiting.next { completion(outcome) }
        }
    }

    /// Waits until no thread reads files.
    func join() { loader?.join() }

    // MARK: - Upgrade

    /// Duplicates what this process listens with, besides the threads' sockets, for the process that takes over. The caller
    /// owns the duplicates.
    ///
    /// - Returns: Nil if too few descriptors are left.
    func duplicateSockets() -> [Int32]? {
        guard let locks = listeners.duplicateLocks() else { return nil }
        guard let administration else { return locks }
        if let sockets = administration.duplicateSockets() { return locks + sockets }
        for lock in locks { close(lock) }
        return nil
    }

    /// Leaves the sockets to the process that has taken over.
    func handOver() {
        listeners.handOver()
        administration?.handOver()
    }

    // MARK: - Serving again

    /// Sockets through which earlier processes ask the registry. Nil if other processes can open the registry too.
    var querySockets: [Int32]? { isRegistryAlone ? registry.querySockets : nil }

    /// Closes the registry's file for another process, which is asked from then on.
    func releaseRegistry(asking socket: Int32) { registry.release(asking: socket) }

    /// Whether no other process can open the registry while this one has it.
    var isRegistryAlone: Bool { registry.isAlone(in: served.blueprint) }

    /// Serves again after a failed upgrade, once the threads of the previous services have ended.
    ///
    /// - Parameters:
    ///   - sockets: Listening sockets by the number of the thread and by address, whose ownership passes to the threads.
    ///   - completion: Called with the outcome.
    func serveAgain(
        _ sockets: [Int: [String: Int32]], _ completion: @escaping ReloadState.Completion
    ) throws {
        var next = served.successor
        if let reopened = try registry.reopen(for: served.blueprint) {
            next.enforcement?.registry = reopened
            // If a worker fails, this process still has to close the registry.
            served.enforcement = next.enforcement
            try administration?.turn(to: reopened)
        }
        let ofServices = ServingThreads.Service.allCases.compactMap { sockets[$0.rawValue] }
        try threads.startServices(next, sockets: ofServices.reduce(into: [:]) { $0.merge($1) { first, _ in first } })
        _ = reloads.begin(completion)
        reloads.change(to: next, by: threads.workers.running)
        threads.workers.prepare(next, sockets: threads.workers.running.sorted().map { sockets[$0] ?? [:] })
    }

    // MARK: - Endpoints

    /// `POST /reload`, answered when the new generation is served or the reload has failed; `GET /reload`, the file
    /// that a reload reads, which the status does not contain, because it does not show paths; `POST /logs/reopen`, the
    /// same as SIGUSR1, with an answer.
    func endpoints(file: String, _ audit: AuditLog) -> [AdministrationEndpoint] {
        [
            AdministrationEndpoint(.post, "/reload", act: "reload") {
                [unowned self] request, reply throws(AdministrationFault) in
                audit.begun("reload", "reload", by: request.peer)
                reload { [unowned self] outcome in
                    switch outcome {
                    case .done(let generation):
                        let document = ReloadDocument(generation: generation, warnings: warnings)
                        reply.send(AdministrationResponse(json: document))
                    case .failed(let reason):
                        reply.send(AdministrationResponse(AdministrationFault(422, "reload_failed", reason)))
                    }
                }
            },
            AdministrationEndpoint(.get, "/reload") { _, reply throws(AdministrationFault) in
                reply.send(AdministrationResponse(json: ["file": file]))
            },
            AdministrationEndpoint(.post, "/logs/reopen", act: "logs_reopen") {
                [unowned self] request, reply throws(AdministrationFault) in
                audit.begun("logs_reopen", "logs reopen", by: request.peer)
                do throws(StartupError) {
                    let isFile = try ProcessResources.reopen(served.log, logger)
                    reply.send(AdministrationResponse(json: ["reopened": isFile]))
                } catch {
                    reply.send(AdministrationResponse(AdministrationFault(422, "reopen_failed", error.description)))
                }
            },
        ]
    }
}

/// The reload in progress, those that wait for it, and the outcomes. A value without I/O.
struct ReloadState {
    typealias Completion = (Outcome) -> Void

    enum Outcome: Equatable, Sendable {
        case done(generation: Int)
        /// Nothing has changed.
        case failed(String)
    }

    /// Those that wait for the reload in progress, and for the next one: the one in progress may have read the file
    /// before it was written.
    struct Waiting {
        var completions: [Completion]
        var next: [Completion] = []
    }

    private enum Phase {
        case idle
        /// Files are read, then names are resolved.
        case reading(Waiting)
        /// The generation was sent to the threads and is not yet served by all of them.
        case changing(GenerationChange, to: GenerationOrder, Waiting)
    }

    private var phase = Phase.idle
    /// The outcome of the last reload, and its time in seconds since 1970; nil if there was none.
    private(set) var last: (outcome: Outcome, at: Int64)?
    /// The number of successful reloads.
    private(set) var succeeded = 0
    private(set) var failed = 0

    var isUnderWay: Bool { if case .idle = phase { false } else { true } }

    /// Begins a reload, or queues its completion for the next one.
    ///
    /// - Returns: Whether it has begun.
    mutating func begin(_ completion: @escaping Completion) -> Bool {
        switch phase {
        case .idle:
            phase = .reading(Waiting(completions: [completion]))
            return true
        case .reading(var waiting):
            waiting.next.append(completion)
            phase = .reading(waiting)
        case .changing(let change, let next, var waiting):
            waiting.next.append(completion)
            phase = .changing(change, to: next, waiting)
        }
        return false
    }

    /// Records that a generation was sent to threads.
    mutating func change(to next: GenerationOrder, by threads: Set<Int>) {
        guard case .reading(let waiting) = phase else { return }
        phase = .changing(GenerationChange(workers: threads), to: next, waiting)
    }

    /// Reports a thread's answer to the change in progress.
    ///
    /// - Returns: What to do, and for which generation; nil without a change.
    mutating func act(
        _ step: (inout GenerationChange) -> GenerationChange.Action
    ) -> (GenerationChange.Action, GenerationOrder)? {
        guard case .changing(var change, let next, let waiting) = phase else { return nil }
        let action = step(&change)
        phase = .changing(change, to: next, waiting)
        return (action, next)
    }

    /// Records the outcome.
    ///
    /// - Returns: Those that wait; nil if the reload has ended already: a stop and a loader that has just finished may
    ///   both report it.
    mutating func end(_ outcome: Outcome, at time: Int64) -> Waiting? {
        let ended: Waiting
        switch phase {
        case .idle: return nil
        case .reading(let waiting), .changing(_, _, let waiting): ended = waiting
        }
        phase = .idle
        last = (outcome, time)
        switch outcome {
        case .done: succeeded += 1
        case .failed: failed += 1
        }
        return ended
    }

    private static let briefLimit = 500

    /// Returns the first line of a reason, for the status: without contents of files, and with the names of files
    /// instead of their paths. The full text goes to the client that asked for the reload, and to standard error. It
    /// may come from a database or a service, so it has at most `briefLimit` characters, and no control characters.
    static func brief(_ reason: String) -> String {
        let line = reason.prefix { !$0.isNewline }.prefix(briefLimit).map { character in
            character.unicodeScalars.contains { $0.properties.generalCategory == .control } ? "?" : character
        }
        var brief = ""
        var word = ""
        func end() {
            // What is not a path, such as 10.0.0.0/8 or https://login.example/, stays.
            let isPath = word.hasPrefix("/") || word.hasPrefix("./") || word.hasPrefix("../") || word.contains("/../")
            brief += isPath ? word.split(separator: "/").last.map(String.init) ?? word : word
            word = ""
        }
        var isQuoted = false
        for character in line {
            if character == "`" { isQuoted.toggle() }
            // Between backticks a space is part of the path.
            if character == "`" || !isQuoted && (character == " " || character == ":" && !word.hasPrefix("http")) {
                end()
                brief.append(character)
            } else {
                word.append(character)
            }
        }
        end()
        return brief
    }
}
