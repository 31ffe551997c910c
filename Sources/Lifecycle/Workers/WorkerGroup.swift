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

    /// No command is lost: a reload would be half told, a stop never come about. Whoever asks something (a generation to be
    /// made ready, a ping, a snapshot, decisions, other addresses, its sockets, to wind up) asks again only when it is answered, and the
    /// rest is told once. So however long a worker stands still, no more than these wait: how one change ended, the next one, a
    /// ping, a snapshot, decisions, addresses, lend, wind up, drain, stop.
    func tell(_ worker: Int, _ command: Worker.Command) {
        let isTaken = workers[worker].mailbox.post(command)
        precondition(isTaken, "a worker was told more than it was asked to answer")
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
