internal import Enrolment
internal import EventLoop
internal import Gateway
internal import Glibc
internal import Logging

/// What the main thread receives from the others.
enum ProcessEvent: Sendable {
    /// - The number of a worker or of enrolment.
    case thread(Int, Worker.Report)
    case loaded(Result<Blueprint, StartupError>)
}

/// The threads that serve: the workers, and the enrolment service if this process enrols devices. Used on the main
/// thread only.
final class ServingThreads {
    /// The number of the enrolment service, among those of the workers.
    static let enrolmentNumber = -1

    let workers: WorkerGroup
    private(set) var enrolment: EnrolmentService?
    private var isEnrolmentRunning = false
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
    var running: Set<Int> { workers.running.union(isEnrolmentRunning ? [Self.enrolmentNumber] : []) }
    /// The numbers of those that do not serve yet.
    var starting: Set<Int> { running.subtracting(begun) }

    /// Starts the enrolment service, if the generation has one.
    ///
    /// - Parameter sockets: Descriptors by name, whose ownership passes to the service.
    func startEnrolment(_ order: GenerationOrder, sockets: [String: Int32]) throws {
        guard let blueprint = order.blueprint.enrolment, let (settings, registry) = order.enforcement else { return }
        let enrolmentSettings = try blueprint.settings(settings, registry)
        let (logger, events) = (logger, events)
        enrolment?.join()
        enrolment = try EnrolmentService(
            enrolmentSettings, sockets: sockets, registry: registry, memory: order.memory,
            audit: { decision in
                logger.log(
                    level: decision.isOurFault ? .error : .notice, "enrolment: \(decision)",
                    metadata: decision.members.mapValues { "\($0)" })
            },
            report: { report in
                switch Worker.Report(report) {
                case let report?: events.post(.thread(Self.enrolmentNumber, report))
                case nil: report.log(logger)
                }
            },
            failed: { reason in
                // The blueprint has built the same before: only memory or descriptors can be missing here.
                logger.critical("enrolment cannot start: \(reason)")
                exit(1)
            })
        isEnrolmentRunning = true
        logger.info(
            "enrolling at \(blueprint.addresses.map(\.name).joined(separator: ", ")), admission: \(blueprint.admission)"
        )
    }

    func began(_ thread: Int) { begun.insert(thread) }

    func ended(_ thread: Int) {
        if thread == Self.enrolmentNumber { isEnrolmentRunning = false } else { workers.ended(thread) }
    }

    /// Waits until every thread has ended.
    func join() {
        workers.join()
        enrolment?.join()
    }

    // MARK: - Commands to all

    /// Sends a generation.
    ///
    /// - Parameters:
    ///   - sockets: For each worker its new listening sockets by address, whose ownership passes to it.
    ///   - enrolment: Its settings and new sockets; nil if it keeps what it has.
    func prepare(
        _ order: GenerationOrder, sockets: [[String: Int32]],
        enrolment settings: (EnrolmentSettings, sockets: [String: Int32])?
    ) {
        workers.prepare(order, sockets: sockets)
        if let (settings, sockets) = settings { enrolment?.prepare(settings, sockets: sockets) }
    }

    func adopt() {
        workers.tellAll(.adopt)
        enrolment?.adopt()
    }

    func discard() {
        workers.tellAll(.discard)
        enrolment?.discard()
    }

    func ping() {
        workers.tellAll(.ping)
        if isEnrolmentRunning { enrolment?.ping() }
    }

    func duplicateSockets() {
        workers.tellAll(.duplicateSockets)
        if isEnrolmentRunning { enrolment?.duplicateSockets() }
    }

    func windUp() {
        workers.tellAll(.windUp)
        enrolment?.drain()
    }

    func drain() {
        workers.tellAll(.drain)
        enrolment?.drain()
    }

    func stop() {
        workers.tellAll(.stop)
        enrolment?.stop()
    }

    /// Stops the enrolment service.
    ///
    /// - Returns: Whether it was running; it reports its end.
    func stopEnrolment() -> Bool {
        if isEnrolmentRunning { enrolment?.stop() }
        return isEnrolmentRunning
    }
}

extension Worker.Report {
    /// Translates a report of the enrolment service; nil for what is only logged.
    fileprivate init?(_ report: EnrolmentService.Report) {
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

extension EnrolmentService.Report {
    fileprivate func log(_ logger: Logger) {
        switch self {
        case .failed(let reason): logger.error("enrolment: \(reason)")
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
