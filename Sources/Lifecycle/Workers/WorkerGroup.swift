internal import EventLoop
internal import Glibc
internal import Logging

/// The workers' threads, and the way to all of them. Belongs to the main thread.
final class WorkerGroup {
    private let logger: Logger
    private let report: @Sendable (Int, Worker.Report) -> Void
    private var workers: [(mailbox: Mailbox<Worker.Command>, thread: LoopThread)] = []
    /// The numbers of those that have not ended.
    private(set) var running: Set<Int> = []

    /// - Parameter report: called on a worker's thread, with its number.
    init(logger: Logger, report: @escaping @Sendable (Int, Worker.Report) -> Void) {
        self.logger = logger
        self.report = report
    }

    /// Starts one more worker. - Parameter sockets: descriptors of its listening sockets by address; taken over.
    func start(_ order: GenerationOrder, sockets: [String: Int32]) throws {
        let index = workers.count
        let mailbox = try Mailbox<Worker.Command>(limit: Self.limit)
        let (report, logger) = (report, logger)
        let thread = try LoopThread(name: "worker-\(index)") {
            do {
                try Worker(order, sockets: sockets, report: { report(index, $0) }).run(mailbox)
            } catch {
                // The blueprint has built the same contexts before; what fails here is memory or descriptors.
                logger.critical("worker \(index) cannot start: \(error)")
                exit(1)
            }
        }
        workers.append((mailbox, thread))
        running.insert(index)
    }

    func ended(_ worker: Int) { running.remove(worker) }

    /// - Parameter sockets: for each worker, descriptors of new listening sockets by address; taken over.
    func prepare(_ order: GenerationOrder, sockets: [[String: Int32]]) {
        for (index, sockets) in sockets.enumerated() { tell(index, .prepare(order, sockets: sockets)) }
    }

    /// No command is lost: workers would otherwise miss half of a reload, or a stop. A command that is answered (a
    /// generation to be prepared, a ping, a snapshot, decisions, other addresses, its sockets, winding up) is sent
    /// again only after its answer, and all others are sent once. So however long a worker stands still, no more than
    /// these wait: the end of one change, the next one, a ping, a snapshot, decisions, addresses, sockets, wind up,
    /// drain, stop.
    func tell(_ worker: Int, _ command: Worker.Command) {
        let isTaken = workers[worker].mailbox.post(command)
        precondition(isTaken, "a worker received more replies than it expects")
    }

    /// Those that have ended hear nothing any more.
    func tellAll(_ command: Worker.Command) {
        for worker in running { tell(worker, command) }
    }

    private static let limit = 16

    /// Waits until every thread has ended.
    func join() {
        for worker in workers { worker.thread.join() }
    }
}
