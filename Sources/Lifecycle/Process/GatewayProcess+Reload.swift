internal import Administration
internal import Enrolment
internal import EventLoop
internal import Gateway
internal import Registry
internal import Tracing

/// Changing the configuration while serving: read on a thread of its own, its names resolved, made ready by all workers, then
/// served by all. If any step fails, nothing has changed.
extension GatewayProcess {
    /// - Parameter completion: called once with the outcome.
    func reloadAsked(_ completion: @escaping (ReloadState.Outcome) -> Void) {
        guard !isStopping else { return completion(.failed("the gateway is stopping")) }
        guard upgrade == nil else { return completion(.failed("an upgrade is in progress")) }
        guard !reload.isUnderWay else { return reload.waitingForNext.append(completion) }
        reload.isUnderWay = true
        reload.waiting = [completion]
        notifier?.reloading()
        let (source, events) = (source, events)
        do throws(EventLoopError) {
            // Files are read, which may take its time.
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
        // Not if the process has begun to stop since.
        guard reload.isUnderWay else { return }
        do throws(StartupError) {
            let blueprint = try result.get()
            reload.warnings = blueprint.warnings.map { warning in
                warning.subject.map { _ in blueprint.mentions.diagnostic(warning).description } ?? warning.description
            }
            for warning in reload.warnings { logger.warning("\(warning)") }
            if let obstacle = order.blueprint.obstacle(to: blueprint) { throw StartupError(obstacle) }
            follow(alsoNamesOf: blueprint) { [unowned self] in
                // Not if the process has begun to stop since.
                guard reload.isUnderWay else { return }
                do throws(StartupError) { try prepare(blueprint.located(by: names.addresses)) } catch {
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
            // The secrets too: that is how they are changed.
            let secrets = try GatewaySecrets.reload(registry.secretPath, of: running.settings.secrets)
            enforcement = (blueprint.enforcement(secrets), running.registry)
        }
        do throws(AdministrationStartError) {
            try administration?.prepare(blueprint.administrationListeners)
        } catch {
            throw StartupError(error.description)
        }
        // The exporter receives its destination when the change is served.
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

    /// - Returns: nil if nobody is enrolled here.
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
                if let destination = next.blueprint.accessDestination, destination != order.blueprint.accessDestination
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
            memory.budget.limit = next.blueprint.memory ?? ProcessMemory.share
            if let tracing = next.blueprint.tracing { exporter?.adopt(tracing.export) }
            watchFiles()
            reloadEnded(.done(generation: next.number))
        }
    }

    /// The process stops: workers drop what they have not begun to serve, and report nothing more of it.
    func reloadInterrupted() {
        reloadEnded(.failed("the gateway is stopping"))
    }

    private func reloadEnded(_ outcome: ReloadState.Outcome) {
        guard reload.ended(outcome, at: WallClock.seconds) else { return }
        followServedNames()
        // Nothing is left of what was served.
        administration?.discard()
        switch outcome {
        case .done(let generation): logger.notice("reloaded: generation \(generation)")
        case .failed(let reason): logger.error("not reloaded, nothing changed: \(reason)")
        }
        if case .failed(let reason) = outcome { servesAgain(reason) } else { servesAgain(nil) }
        // The service manager knows that the process stops: no message of readiness may follow.
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

    /// `GET /reload`: what a reload would read. Not in the status, which says nothing of where files lie.
    var reloadedFileEndpoint: AdministrationEndpoint {
        AdministrationEndpoint(.get, "/reload") { [file] _, reply throws(AdministrationFault) in
            reply.send(AdministrationResponse(json: ["file": file]))
        }
    }

    /// `POST /logs/reopen`: what SIGUSR1 does, with an answer.
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

    /// `POST /reload`: answered when the change is served, or has failed.
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

extension Blueprint {
    /// What of a changed configuration takes a restart, or an upgrade, be it to the same program, which refuses nobody but does
    /// not know fewer workers.
    ///
    /// - Returns: why it cannot be served by this process; nil if it can.
    func obstacle(to next: Blueprint) -> String? {
        let orUpgrade = ", or `attestgate upgrade`"
        if next.workers < workers { return "workers: fewer threads require a restart" }
        if next.workers > workers { return "workers: more threads require a restart\(orUpgrade)" }
        if (next.enrolment == nil) != (enrolment == nil) {
            return "enrolment: adding or removing the section requires a restart\(orUpgrade)"
        }
        if next.registry != registry { return "registry: another registry requires a restart\(orUpgrade)" }
        let places = [self, next].map { blueprint in
            blueprint.administration.map { [$0.socketPath] + $0.listeners.map(\.address.description).sorted() }
        }
        if places[0] != places[1] {
            return
                "administration: another socket or address requires a restart\(orUpgrade); name the current socket with --socket"
        }
        if (next.accessDestination == nil) != (accessDestination == nil) {
            return "log: access: turning the log on or off requires a restart\(orUpgrade)"
        }
        if next.log.level != log.level { return "log: level: another level requires a restart\(orUpgrade)" }
        return nil
    }
}
