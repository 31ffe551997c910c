internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Gateway
internal import Glibc
internal import Server

/// A worker: a thread with a loop, the current generation, and earlier ones that still have connections. Workers
/// share only the session table, the registry's records and the log's mailbox.
final class Worker {
    enum Command: Sendable {
        /// Prepare a generation. Ownership of the new listening sockets, by address, passes to the worker.
        case prepare(GenerationOrder, sockets: [String: Int32])
        /// Serve what was prepared.
        case adopt
        /// Discard what was prepared.
        case discard
        /// Report that the loop runs.
        case ping
        /// Report the counts.
        case snapshot
        /// Report the latest decisions.
        case decisions
        /// Set the addresses of servers that are configured by name.
        case readdress([(server: NamedServer, addresses: [SocketAddress])])
        /// Duplicate each listening socket.
        case duplicateSockets
        /// Stop accepting, decide what is in flight or may be on its way, and report when that is done.
        case windUp
        /// Stop accepting, complete what is in flight, then end.
        case drain
        /// End now.
        case stop
    }

    enum Report: Sendable {
        /// The first generation serves.
        case serving
        /// - fault: Why the generation could not be prepared; nil if it is ready.
        case prepared(fault: String?)
        case adopted
        case pong
        case snapshot(WorkerSnapshot)
        case decisions(RecentDecisions.Batch)
        /// The addresses are used.
        case readdressed
        /// Duplicates by address, which the receiver owns. Nil if there are not enough descriptors left.
        case duplicated([String: Int32]?)
        /// Nothing in flight needs the registry.
        case woundUp
        case ended
    }

    private let loop: Loop
    private let pool: BufferPool
    private var relief: MemoryRelief?
    private let library: LibraryContext
    private let report: (Report) -> Void
    private let metrics = WorkerMetrics()
    private var lagTimer: LoopTimer?
    private var lagExpected = Instant.now
    private var current: Generation
    /// Earlier generations that still have connections, oldest first.
    private var retired: [Generation] = []
    private var prepared: (generation: Generation, sockets: [String: Int32])?
    /// Retired generations whose last connection has closed.
    private var emptied: [Generation] = []
    private var cleaner: LoopTimer?
    private var isDraining = false

    /// How many generations a connection may be behind: this limits the age of rules and the memory for them.
    private static let retiredLimit = 8

    /// Makes the first generation and listens.
    ///
    /// - Parameters:
    ///   - sockets: A listening socket for each address, whose ownership passes to the worker.
    ///   - report: Called on this worker's thread.
    init(_ order: GenerationOrder, sockets: [String: Int32], report: @escaping (Report) -> Void) throws {
        loop = try Loop()
        library = try LibraryContext()
        pool = BufferPool(meter: MemoryMeter(order.memory))
        self.report = report
        current = try Generation(order, loop: loop, pool: pool, library: library, metrics: metrics)
        current.listen(sockets)
        cleaner = LoopTimer(loop: loop, interval: .milliseconds(0)) { [unowned self] in clean() }
        relief = MemoryRelief(loop: loop, pool: pool) { [unowned self] in
            (retired + [current]).map(\.acceptor)
        }
    }

    /// Serves until a command ends the loop. Blocks the thread.
    func run(_ mailbox: Mailbox<Command>) {
        let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { [self] in receive($0) }
        watchLag()
        report(.serving)
        withExtendedLifetime(receiver) { loop.run() }
        for generation in retired + [current] { generation.close() }
        report(.snapshot(snapshot))
        report(.ended)
    }

    private func receive(_ command: Command) {
        switch command {
        case .prepare(let order, let sockets): prepare(order, sockets)
        case .adopt: adopt()
        case .discard: discard()
        case .ping: report(.pong)
        case .snapshot: report(.snapshot(snapshot))
        case .decisions: report(.decisions(metrics.recent.take()))
        case .readdress(let servers):
            for (server, addresses) in servers { readdress(server, to: addresses) }
            report(.readdressed)
        case .duplicateSockets: report(.duplicated(duplicateSockets()))
        case .windUp: windUp()
        case .drain: drain()
        case .stop:
            for generation in retired + [current] { generation.abort() }
            loop.stop()
        }
    }

    // MARK: - Generations

    /// Prepares a generation. Everything that can fail happens here, so that adopting it cannot.
    private func prepare(_ order: GenerationOrder, _ new: [String: Int32]) {
        discard()
        var sockets = new
        do {
            let generation = try Generation(order, loop: loop, pool: pool, library: library, metrics: metrics)
            for address in generation.addresses where sockets[address] == nil {
                guard let descriptor = current.duplicateListener(address) else {
                    throw StartupError("listener \(address): there is no free descriptor to hand it over")
                }
                sockets[address] = descriptor
            }
            prepared = (generation, sockets)
            report(.prepared(fault: nil))
        } catch {
            for descriptor in sockets.values { close(descriptor) }
            report(.prepared(fault: "\(error)"))
        }
    }

    private func discard() {
        guard let prepared else { return }
        for descriptor in prepared.sockets.values { close(descriptor) }
        self.prepared = nil
    }

    private func adopt() {
        guard let (next, sockets) = prepared, !isDraining else { return discard() }
        prepared = nil
        let previous = current
        next.listen(sockets)
        current = next
        retired.append(previous)
        previous.retire { [unowned self] in forget(previous) }
        // A copy: a generation that loses its last connection is removed in an event of its own, which may come
        // before this loop ends.
        for old in Array(retired) { old.bar(by: next) }
        for old in Array(retired) where !old.isDraining && next.number - old.number > Self.retiredLimit {
            old.expire { [unowned self] in forget(old) }
        }
        report(.adopted)
    }

    /// Releases a generation whose last connection has closed, in an event of its own: the current one may belong to
    /// one of its upstream connections.
    private func forget(_ generation: Generation) {
        emptied.append(generation)
        cleaner?.start()
    }

    private func clean() {
        for generation in emptied {
            generation.close()
            retired.removeAll { $0 === generation }
        }
        emptied.removeAll()
        if isDraining { endIfDrained() }
    }

    /// Also in the prepared generation, which was made with earlier addresses.
    private func readdress(_ server: NamedServer, to addresses: [SocketAddress]) {
        for generation in retired + [current] + [prepared?.generation].compactMap(\.self) {
            generation.readdress(server, to: addresses)
        }
    }

    // MARK: - Snapshot and loop lag

    private var snapshot: WorkerSnapshot {
        let generations = retired + [current]
        return WorkerSnapshot(
            counts: metrics.counts, serverCounts: metrics.serverCounts, generation: current.number,
            retiredGenerations: retired.count,
            connections: connections,
            upstreams: generations.flatMap(\.upstreams), buffersInUse: pool.outstanding,
            buffersIdle: pool.unused, spanBytes: metrics.spans.bytes)
    }

    private var connections: Int { retired.reduce(current.connections) { $0 + $1.connections } }

    /// Measures the delay of a timer, which is that of all other events of the loop.
    private func watchLag() {
        lagExpected = .now + Self.lagInterval
        lagTimer = LoopTimer(loop: loop, interval: Self.lagInterval) { [unowned self] in
            metrics.loopWasLate(by: loop.now - lagExpected)
            lagExpected = .now + Self.lagInterval
            lagTimer?.start()
        }
    }

    private static let lagInterval = TimeSpan.milliseconds(500)

    // MARK: - Handing over to another process

    private var windingUp: LoopTimer?

    private func duplicateSockets() -> [String: Int32]? {
        var sockets: [String: Int32] = [:]
        for address in current.addresses { sockets[address] = current.duplicateListener(address) }
        guard sockets.count < current.addresses.count else { return sockets }
        for descriptor in sockets.values { close(descriptor) }
        return nil
    }

    private func windUp() {
        guard !isDraining else { return report(.woundUp) }
        for generation in retired + [current] { generation.windUp() }
        windingUp = LoopTimer(loop: loop, interval: .milliseconds(10)) { [unowned self] in
            let isDecided = (retired + [current]).allSatisfy(\.isDecided)
            if isDecided { report(.woundUp) } else { windingUp?.start() }
        }
    }

    // MARK: - The end

    private var isCurrentDrained = false

    private func drain() {
        isDraining = true
        discard()
        // A copy: generations without connections are removed during the loop.
        for generation in Array(retired) { generation.drain { [unowned self] in forget(generation) } }
        current.drain { [unowned self] in
            isCurrentDrained = true
            endIfDrained()
        }
    }

    private func endIfDrained() {
        if isCurrentDrained, retired.isEmpty { loop.stop() }
    }
}
