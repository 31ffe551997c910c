internal import Enrolment
internal import EventLoop
internal import Federation
internal import Gateway
internal import Glibc
internal import Logging
internal import Registry

/// What the main thread receives from the others.
enum ProcessEvent: Sendable {
    /// - The number of a worker or of a service.
    case thread(Int, Worker.Report)
    case loaded(Result<Blueprint, StartupError>)
}

/// The threads that serve: the workers, and the services that this process has. Used on the main thread only.
final class ServingThreads {
    /// The services with a thread of their own. Their numbers are among those of the workers.
    enum Service: Int, CaseIterable {
        case enrolment = -1
        case federation = -2

        var name: String {
            switch self {
            case .enrolment: "enrolment"
            case .federation: "federation"
            }
        }
    }

    /// New settings and new sockets of services. Nil for one that keeps what it has.
    struct NextServices {
        var enrolment: EnrolmentSettings?
        var federation: FederationSettings?
        /// Descriptors by name, whose ownership passes to the services.
        var sockets: [String: Int32]
    }

    let workers: WorkerGroup
    private(set) var enrolment: EnrolmentService?
    private(set) var federation: FederationServer?
    private var runningServices: Set<Service> = []
    /// The numbers of the threads that have begun to serve, also if they have ended.
    private var begun: Set<Int> = []
    private let events: Mailbox<ProcessEvent>
    private let logger: Logger

    init(events: Mailbox<ProcessEvent>, logger: Logger) {
        self.events = events
        self.logger = logger
        workers = WorkerGroup(logger: logger) { worker, report in events.post(.thread(worker, report)) }
    }

    /// The numbers of the threads that have not ended.
    var running: Set<Int> { workers.running.union(runningServices.map(\.rawValue)) }
    /// The numbers of those that do not serve yet.
    var starting: Set<Int> { running.subtracting(begun) }

    private func control(_ service: Service) -> (any RunningService)? {
        switch service {
        case .enrolment: enrolment?.control
        case .federation: federation?.control
        }
    }

    private var controls: [any RunningService] { Service.allCases.compactMap { control($0) } }
    private var runningControls: [any RunningService] { runningServices.compactMap { control($0) } }

    /// Starts the services that the generation has.
    ///
    /// - Parameter sockets: Descriptors by name, whose ownership passes to the services.
    func startServices(_ order: GenerationOrder, sockets: [String: Int32]) throws {
        guard let (settings, registry) = order.enforcement else { return }
        for control in controls { control.join() }
        if let blueprint = order.blueprint.enrolment {
            let own = Self.sockets(blueprint.addresses.map(\.name), of: sockets)
            let settings = try blueprint.settings(settings, registry)
            if !own.isEmpty { try startEnrolment(blueprint, settings, order, registry, own) }
        }
        if let blueprint = order.blueprint.federation {
            let own = Self.sockets(blueprint.addresses.map(\.name), of: sockets)
            let settings = blueprint.settings(settings, registry)
            if !own.isEmpty { try startFederation(blueprint, settings, order, registry, own) }
        }
    }

    private static func sockets(_ names: [String], of sockets: [String: Int32]) -> [String: Int32] {
        sockets.filter { names.contains($0.key) }
    }

    private func startEnrolment(
        _ blueprint: EnrolmentBlueprint, _ settings: EnrolmentSettings, _ order: GenerationOrder,
        _ registry: DeviceRegistry, _ sockets: [String: Int32]
    ) throws {
        let logger = logger
        enrolment = try EnrolmentService(
            settings, sockets: sockets, registry: registry, memory: order.memory,
            audit: { decision in
                logger.log(
                    level: decision.isOurFault ? .error : .notice, "enrolment: \(decision)",
                    metadata: decision.members.mapValues { "\($0)" })
            }, report: receiver(of: .enrolment), failed: { Self.cannotStart(.enrolment, $0, logger) })
        runningServices.insert(.enrolment)
        logger.info(
            "enrolling at \(blueprint.addresses.map(\.name).joined(separator: ", ")), admission: \(blueprint.admission)"
        )
    }

    private func startFederation(
        _ blueprint: FederationBlueprint, _ settings: FederationSettings, _ order: GenerationOrder,
        _ registry: DeviceRegistry, _ sockets: [String: Int32]
    ) throws {
        let logger = logger
        federation = try FederationServer(
            settings, sockets: sockets, registry: registry, memory: order.memory,
            audit: { decision in
                logger.log(
                    level: decision.isOurFault ? .error : .notice, "federation: \(decision)",
                    metadata: decision.members.mapValues { "\($0)" })
            }, report: receiver(of: .federation), failed: { Self.cannotStart(.federation, $0, logger) })
        runningServices.insert(.federation)
        logger.info("federation at \(blueprint.name), \(blueprint.url)")
    }

    private func receiver(of service: Service) -> @Sendable (ServiceReport) -> Void {
        let (logger, events) = (logger, events)
        return { report in
            switch Worker.Report(report) {
            case let report?: events.post(.thread(service.rawValue, report))
            case nil: report.log(service, logger)
            }
        }
    }

    private static func cannotStart(_ service: Service, _ reason: String, _ logger: Logger) {
        // The blueprint has built the same before: only memory or descriptors can be missing here.
        logger.critical("\(service.name) cannot start: \(reason)")
        exit(1)
    }

    func began(_ thread: Int) { begun.insert(thread) }

    func ended(_ thread: Int) {
        if let service = Service(rawValue: thread) {
            runningServices.remove(service)
        } else {
            workers.ended(thread)
        }
    }

    /// Waits until every thread has ended.
    func join() {
        workers.join()
        for control in controls { control.join() }
    }

    // MARK: - Commands to all

    /// Sends a generation.
    ///
    /// - Parameter sockets: For each worker its new listening sockets by address, whose ownership passes to it.
    func prepare(_ order: GenerationOrder, sockets: [[String: Int32]], services next: NextServices) {
        workers.prepare(order, sockets: sockets)
        let blueprint = order.blueprint
        if let settings = next.enrolment {
            let names = blueprint.enrolment?.addresses.map(\.name) ?? []
            enrolment?.control.prepare(settings, sockets: Self.sockets(names, of: next.sockets))
        }
        if let settings = next.federation {
            let names = blueprint.federation?.addresses.map(\.name) ?? []
            federation?.control.prepare(settings, sockets: Self.sockets(names, of: next.sockets))
        }
    }

    func adopt() {
        workers.tellAll(.adopt)
        for control in controls { control.adopt() }
    }

    func discard() {
        workers.tellAll(.discard)
        for control in controls { control.discard() }
    }

    func ping() {
        workers.tellAll(.ping)
        for control in runningControls { control.ping() }
    }

    func duplicateSockets() {
        workers.tellAll(.duplicateSockets)
        for control in runningControls { control.duplicateSockets() }
    }

    func windUp() {
        workers.tellAll(.windUp)
        for control in controls { control.drain() }
    }

    func drain() {
        workers.tellAll(.drain)
        for control in controls { control.drain() }
    }

    func stop() {
        workers.tellAll(.stop)
        for control in controls { control.stop() }
    }

    /// Stops the services.
    ///
    /// - Returns: Whether one was running; each reports its end.
    func stopServices() -> Bool {
        for control in runningControls { control.stop() }
        return hasRunningServices
    }

    var hasRunningServices: Bool { !runningServices.isEmpty }
}

extension Worker.Report {
    /// Translates a report of a service; nil for what is only logged.
    fileprivate init?(_ report: ServiceReport) {
        switch report {
        case .serving: self = .serving
        case .duplicated(let sockets): self = .duplicated(sockets)
        case .prepared(let fault): self = .prepared(fault: fault)
        case .adopted: self = .adopted
        case .pong: self = .pong
        case .ended: self = .ended
        case .failed, .notice: return nil
        }
    }
}

extension ServiceReport {
    fileprivate func log(_ service: ServingThreads.Service, _ logger: Logger) {
        switch self {
        case .failed(let reason): logger.error("\(service.name): \(reason)")
        case .notice(let notice):
            let level: Logger.Level =
                switch notice.severity {
                case .info: .info
                case .warning: .warning
                case .error: .error
                }
            logger.log(
                level: level, "\(notice.subject.rawValue): \(notice)",
                metadata: notice.members.mapValues { "\($0)" })
        case .serving, .duplicated, .prepared, .adopted, .pong, .ended: break
        }
    }
}
