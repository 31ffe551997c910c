internal import Administration
internal import Enrolment
internal import EventLoop
internal import Gateway
internal import Registry
internal import TelemetryExport

/// A reload: the configuration is read on a separate thread, its names are resolved, all workers prepare it, then all
/// serve it. If any step fails, nothing has changed.
extension GatewayProcess {
    /// Begins a reload, or queues it behind the one in progress.
    ///
    /// - Parameter completion: Called once with the outcome.
    func reloadAsked(_ completion: @escaping (ReloadState.Outcome) -> Void) {
        guard !isStopping else { return completion(.failed("the gateway is stopping")) }
        guard upgrade == nil else { return completion(.failed("an upgrade is in progress")) }
        guard !reload.isUnderWay else { return reload.waitingForNext.append(completion) }
        reload.isUnderWay = true
        reload.waiting = [completion]
        notifier?.reloading()
        let (source, events) = (source, events)
        do throws(EventLoopError) {
            // On a separate thread, because reading files may take time.
            reload.loader = try LoopThread(name: "loader") {
                do throws(StartupError) { events.post(.loaded(.success(try source()))) } catch {
                    events.post(.loaded(.failure(error)))
                }
            }
        } catch {
            reloadEnded(.failed(error.text))
        }
    }

    func loaded(_ result: Result<Blueprint, StartupError>) {
        // Unless the process has begun to stop since.
        guard reload.isUnderWay else { return }
        do throws(StartupError) {
            let blueprint = try result.get()
            reload.warnings = blueprint.warnings.map { warning in
                warning.subject.map { _ in blueprint.mentions.diagnostic(warning).description } ?? warning.description
            }
            for warning in reload.warnings { logger.warning("\(warning)") }
            if let obstacle = order.blueprint.configuration.obstacle(to: blueprint.configuration) {
                throw StartupError(obstacle)
            }
            names.follow(order.blueprint, andNext: blueprint) { [unowned self] located in
                // Unless the process has begun to stop since.
                guard reload.isUnderWay else { return }
                do throws(StartupError) { try prepare(located) } catch {
                    let place = error.subject.map { _ in blueprint.mentions.diagnostic(error).description }
                    reloadEnded(.failed(place ?? error.description))
                }
            }
        } catch {
            reloadEnded(.failed(error.description))
        }
    }

    private func prepare(_ blueprint: Blueprint) throws(StartupError) {
        let known = Set(order.blueprint.listeners.map(\.name))
        var enforcement = order.enforcement
        if let registry = blueprint.registry, let running = order.enforcement {
            // The secrets are read too, so that they can be changed.
            let secrets = try GatewaySecrets.reload(registry.secretPath, of: running.settings.secrets)
            enforcement = (blueprint.enforcement(secrets), running.registry)
        }
        do throws(AdministrationStartError) {
            try administration?.prepare(blueprint.administrationListeners)
        } catch {
            throw StartupError(error.description)
        }
        // The exporter receives its new destination when the generation is served.
        if exporter == nil { exporter = try ProcessResources.openExporter(blueprint, logger) }
        let enrolling = try prepareEnrolment(blueprint, enforcement)
        let sockets: [[String: Int32]]
        do throws(StartupError) {
            sockets = try ListeningAddresses.bind(
                blueprint.listeners.filter { !known.contains($0.name) }, workers: blueprint.workers, mayOverlap: false)
        } catch {
            ListeningAddresses.release(enrolling.map { [$0.sockets] } ?? [])
            throw error
        }
        let next = GenerationOrder(
            number: order.number + 1, blueprint: blueprint, sessions: order.sessions, limits: order.limits,
            memory: order.memory,
            log: order.log, errors: errorWriter, exporter: exporter, enforcement: enforcement)
        reload.change = (GenerationChange(workers: running), next)
        workers.prepare(next, sockets: sockets)
        if let (settings, sockets) = enrolling { enrolment?.prepare(settings, sockets: sockets) }
    }

    /// Prepares enrolment.
    ///
    /// - Returns: Nil if this process does not enrol devices.
    private func prepareEnrolment(
        _ blueprint: Blueprint, _ enforcement: (settings: Enforcement.Settings, registry: DeviceRegistry)?
    ) throws(StartupError) -> (settings: EnrolmentSettings, sockets: [String: Int32])? {
        guard let next = blueprint.enrolment, let enforcement else { return nil }
        let settings = try next.settings(enforcement.settings.secrets)
        guard next.name != order.blueprint.enrolment?.name else { return (settings, [:]) }
        return (settings, try ListeningAddresses.bind(next, mayOverlap: false))
    }

    func prepared(by worker: Int, fault: String?) {
        act { $0.prepared(by: worker, fault: fault) }
    }

    func adopted(by worker: Int) {
        act { $0.adopted(by: worker) }
    }

    private func act(_ step: (inout GenerationChange) -> GenerationChange.Action) {
        guard let (before, next) = reload.change else { return }
        var change = before
        let action = step(&change)
        reload.change = (change, next)
        switch action {
        case .wait: break
        case .adopt:
            do throws(EventLoopError) {
                // The last step that can fail.
                if let destination = next.blueprint.configuration.log.accessDestination,
                    destination != order.blueprint.configuration.log.accessDestination
                {
                    try order.log?.redirect(to: destination)
                }
                workers.tellAll(.adopt)
                enrolment?.adopt()
                administration?.adopt()
            } catch {
                workers.tellAll(.discard)
                enrolment?.discard()
                reloadEnded(.failed("log: access: \(error.text)"))
            }
        case .discard(let fault):
            workers.tellAll(.discard)
            enrolment?.discard()
            reloadEnded(.failed(fault))
        case .finish:
            order = next
            memory.budget.limit = next.blueprint.configuration.limits.memory ?? ProcessMemory.share
            if let tracing = next.blueprint.tracing { exporter?.adopt(tracing.export) }
            watchFiles()
            reloadEnded(.done(generation: next.number))
        }
    }

    /// Ends the reload because the process stops: workers discard what they have prepared.
    func reloadInterrupted() {
        reloadEnded(.failed("the gateway is stopping"))
    }

    private func reloadEnded(_ outcome: ReloadState.Outcome) {
        guard reload.ended(outcome, at: WallClock.seconds) else { return }
        names.follow(order.blueprint)
        // Discards listeners that were prepared and are not used.
        administration?.discard()
        switch outcome {
        case .done(let generation): logger.notice("reloaded: generation \(generation)")
        case .failed(let reason): logger.error("not reloaded, nothing changed: \(reason)")
        }
        if case .failed(let reason) = outcome { servesAgain(reason) } else { servesAgain(nil) }
        // The service manager was notified of the stop: no message of readiness may follow.
        if !isStopping { notifier?.ready("generation \(order.number)") }
        let (waiting, next) = (reload.waiting, reload.waitingForNext)
        reload.waiting = []
        reload.waitingForNext = []
        for completion in waiting { completion(outcome) }
        guard !next.isEmpty else { return }
        reloadAsked { outcome in
            for completion in next { completion(outcome) }
        }
    }

    /// `GET /reload`: the file that a reload reads. The status does not contain it, because it does not show paths.
    var reloadedFileEndpoint: AdministrationEndpoint {
        AdministrationEndpoint(.get, "/reload") { [file] _, reply throws(AdministrationFault) in
            reply.send(AdministrationResponse(json: ["file": file]))
        }
    }

    /// `POST /logs/reopen`: the same as SIGUSR1, with an answer.
    var reopenEndpoint: AdministrationEndpoint {
        AdministrationEndpoint(.post, "/logs/reopen", act: "logs_reopen") {
            [unowned self] request, reply throws(AdministrationFault) in
            auditLogger.tell(.act(AdministrationAct("logs_reopen", "logs reopen", .begun, by: request.peer)))
            do throws(StartupError) {
                let isFile = try ProcessResources.reopen(order.log, logger)
                reply.send(AdministrationResponse(json: ["reopened": isFile]))
            } catch {
                reply.send(AdministrationResponse(AdministrationFault(422, "reopen_failed", error.description)))
            }
        }
    }

    /// `POST /reload`: answered when the new generation is served, or the reload has failed.
    var reloadEndpoint: AdministrationEndpoint {
        AdministrationEndpoint(.post, "/reload", act: "reload") {
            [unowned self] request, reply throws(AdministrationFault) in
            auditLogger.tell(.act(AdministrationAct("reload", "reload", .begun, by: request.peer)))
            reloadAsked { [unowned self] outcome in
                switch outcome {
                case .done(let generation):
                    let document = ReloadDocument(generation: generation, warnings: reload.warnings)
                    reply.send(AdministrationResponse(json: document))
                case .failed(let reason):
                    reply.send(AdministrationResponse(AdministrationFault(422, "reload_failed", reason)))
                }
            }
        }
    }
}

/// The reload in progress, those that wait for it, and the outcome of the last one.
struct ReloadState {
    enum Outcome: Equatable, Sendable {
        case done(generation: Int)
        /// Nothing has changed.
        case failed(String)
    }

    /// The callbacks of the reload in progress.
    var waiting: [(Outcome) -> Void] = []
    /// The callbacks for the next reload: the one in progress may have read the file before it was written.
    var waitingForNext: [(Outcome) -> Void] = []
    var isUnderWay = false
    /// The thread that reads the files. Joined before the process ends: it must not use OpenSSL when that is cleaned
    /// up.
    var loader: LoopThread?
    /// Doubtful settings in the last configuration read, for the client that asked for the reload.
    var warnings: [String] = []
    /// The generation that was sent to the workers and is not yet served by all of them.
    var change: (GenerationChange, GenerationOrder)?
    /// The outcome of the last reload, and its time in seconds since 1970; nil if there was none.
    private(set) var last: (outcome: Outcome, at: Int64)?
    /// The number of successful reloads.
    private(set) var succeeded = 0
    private(set) var failed = 0

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

    /// Records the outcome.
    ///
    /// - Returns: False if the reload has ended already: a stop and a loader that has just finished may both report
    ///   it.
    mutating func ended(_ outcome: Outcome, at time: Int64) -> Bool {
        guard isUnderWay else { return false }
        change = nil
        isUnderWay = false
        last = (outcome, time)
        switch outcome {
        case .done: succeeded += 1
        case .failed: failed += 1
        }
        return true
    }
}
