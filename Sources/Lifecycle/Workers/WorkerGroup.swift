internal import EventLoop
internal import Glibc
internal import Logging

/// The workers' threads and mailboxes. Used on the main thread only.
final class WorkerGroup {
    private let logger: Logger
    private let report: @Sendable (Int, Worker.Report) -> Void
    private var workers: [(mailbox: Mailbox<Worker.Command>, thread: LoopThread)] = []
    /// The numbers of the workers that have not ended.
    private(set) var running: Set<Int> = []

    /// Creates a group without workers.
    ///
    /// - Parameter report: Called on a worker's thread, with its number.
    init(logger: Logger, report: @escaping @Sendable (Int, Worker.Report) -> Void) {
        self.logger = logger
        self.report = report
    }

    /// Starts one more worker.
    ///
    /// - Parameter sockets: Its listening sockets by address, whose ownership passes to it.
    func start(_ order: GenerationOrder, sockets: [String: Int32]) throws {
        let index = workers.count
        let mailbox = try Mailbox<Worker.Command>(limit: Self.limit)
        let (report, logger) = (report, logger)
        let thread = try LoopThread(name: "worker-\(index)") {
            do {
                try Worker(order, sockets: sockets, report: { report(index, $0) }).run(mailbox)
            } catch {
                // The blueprint has built the same contexts before: only memory or descriptors can be missing here.
                logger.critical("worker \(index) cannot start: \(error)")
                exit(1)
            }
        }
        workers.append((mailbox, thread))
        running.insert(index)
    }

    func ended(_ worker: Int) { running.remove(worker) }

    /// Sends a generation to all workers.
    ///
    /// - Parameter sockets: For each worker its new listening sockets by address, whose ownership passes to it.
    func prepare(_ order: GenerationOrder, sockets: [[String: Int32]]) {
        for (index, sockets) in sockets.enumerated() { tell(index, .prepare(order, sockets: sockets)) }
    }

    /// Sends a command. None is lost: otherwise workers would miss half of a reload, or a stop. A command that is
    /// answered (prepare, ping, snapshot, decisions, addresses, sockets, wind up) is sent again only after its
    /// answer; all others are sent once. So however long a worker is blocked, no more commands wait than these: the
    /// end of one change, the next one, a ping, a snapshot, decisions, addresses, sockets, wind up, drain, stop.
    func tell(_ worker: Int, _ command: Worker.Command) {
        let isTaken = workers[worker].mailbox.post(command)
        precondition(isTaken, "a worker received more replies than it expects")
    }

    /// Sends a command to all workers that have not ended.
    func tellAll(_ command: Worker.Command) {
        for worker in running { tell(worker, command) }
    }

    private static let limit = 16

    /// Waits until every thread has ended.
    func join() {
        for worker in workers { worker.thread.join() }
    }
}

/// The new addresses of servers that each worker has yet to receive. Each receives one change at a time, and after
/// taking it over all changes that came meanwhile: so at most one message waits for a blocked worker. A value without
/// I/O: the caller sends what it returns.
struct AddressDelivery {
    /// By worker: what to send after the last message is taken over.
    private var waiting: [Int: Set<NamedServer>] = [:]

    /// Records changed servers.
    ///
    /// - Returns: The workers to notify now.
    mutating func changed(_ servers: some Sequence<NamedServer>, for workers: Set<Int>) -> Set<Int> {
        var idle: Set<Int> = []
        for worker in workers {
            if waiting[worker] == nil {
                waiting[worker] = []
                idle.insert(worker)
            } else {
                waiting[worker]?.formUnion(servers)
            }
        }
        return idle
    }

    /// Records that a worker uses the last addresses.
    ///
    /// - Returns: What to send next; nil if there is nothing.
    mutating func taken(by worker: Int) -> Set<NamedServer>? {
        guard let servers = waiting[worker], !servers.isEmpty else {
            waiting[worker] = nil
            return nil
        }
        waiting[worker] = []
        return servers
    }

    mutating func ended(_ worker: Int) { waiting[worker] = nil }
}
