internal import Administration
internal import Cryptography
internal import Enrolment
internal import EventLoop
internal import Glibc
internal import Logging

/// From a configuration to a process that serves.
extension GatewayProcess {
    func start() throws {
        let blueprint = order.blueprint
        let sockets = try ListeningAddresses.bind(
            blueprint.listeners, workers: blueprint.workers, mayOverlap: permissions.mayOverlap,
            inherited: inheritance.sockets)
        if let path = blueprint.administration?.socketPath {
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
        // The service manager accepts messages of a successor only once the predecessor has announced it.
        if predecessor == nil { beginNotifying() }
        watchFiles()
        warnOfExpiries()
        expiryTimer = LoopTimer(loop: loop, interval: .seconds(5), repeats: true) { [unowned self] in warnOfExpiries() }
    }

    /// Tells the service manager that this process serves, and from then on that it is alive.
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

    /// - Parameter sockets: by name; taken over.
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
                // The blueprint has built the same before; what fails here is memory or descriptors.
                logger.critical("enrolment cannot start: \(reason)")
                exit(1)
            })
        isEnrolmentRunning = true
        logger.info("enrolling at \(blueprint.name), admission: \(blueprint.admission)")
    }
}
