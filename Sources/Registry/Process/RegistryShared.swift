internal import EventLoop
internal import Synchronization

/// What the workers' clients and the store's thread have in common.
final class RegistryShared: Sendable {
    let limits: RegistryLimits
    let requests: Mailbox<StoreRequest>
    let records: SharedRecords
    let apps = AppNumbers()
    let health = StoreHealth()
    let counts = RegistryCounts()
    /// Nil while all is well, as far as the store's thread has said.
    let trouble = Mutex<StoreOutage?>(nil)
    /// When the store drew an epoch that was not there before, in seconds since 1970; 0 if this process has seen none.
    let epochChange = Atomic<Int64>(0)
    /// As the store's thread knows it; workers hear of a change after that.
    let epoch: Mutex<RandomID>

    init(limits: RegistryLimits, epoch: RandomID) throws(EventLoopError) {
        self.limits = limits
        self.epoch = Mutex(epoch)
        records = SharedRecords(limit: limits.devices, apps: apps)
        // The senders count each kind, so there is room for all of them; the rest is for workers that come and go and
        // for the thread's own messages.
        requests = try Mailbox(
            limit: limits.waitingCounters + limits.waitingLookups + RegistryLimits.waitingCommands + 1_024)
    }
}

/// How much of the registry is kept in memory, and how much may wait for the store.
public struct RegistryLimits: Sendable {
    /// Devices whose records are in memory, at about 600 bytes each: the workers' and the writer's.
    public var devices = 65_536
    /// Counters that may wait for the store. Further ones are refused at once, unspent.
    public var waitingCounters = 4_096
    /// Lookups that may wait for the store. Further ones are refused at once.
    public var waitingLookups = 16_384

    public init() {}

    /// Commands that may wait; operators and enrolment send few.
    public static let waitingCommands = 256
    /// How many may wait when a further one of enrolment is refused: strangers can keep enrolment busy, and an operator's
    /// revocation must have a place then.
    public static let enrolmentCommands = 192
}

/// Why the store takes no counters.
public struct StoreOutage: Equatable, Sendable {
    /// For people.
    public let reason: String
    /// In seconds since 1970-01-01T00:00:00Z.
    public let since: Int64

    public init(reason: String, since: Int64) {
        self.reason = reason
        self.since = since
    }
}

/// Whether the store can be relied on, as its own thread last said.
final class StoreHealth: Sendable {
    private let confirmedAt: Atomic<Int64>
    private let isWritable = Atomic<Bool>(true)

    /// Without a word from the store for so long, a revocation may have been missed.
    static let patience = TimeSpan.seconds(5)

    init() {
        confirmedAt = Atomic(Instant.now.nanoseconds)
    }

    /// The store's thread has read or written the store, and knows what was true at that time.
    func confirm(at time: Instant) {
        confirmedAt.store(time.nanoseconds, ordering: .releasing)
        isWritable.store(true, ordering: .releasing)
    }

    func fail() {
        isWritable.store(false, ordering: .releasing)
    }

    /// There is no store any more, and nothing is known of it from here on.
    func end() {
        fail()
        confirmedAt.store(Instant.now.nanoseconds - Self.patience.nanoseconds, ordering: .releasing)
    }

    /// Whether what memory knows of devices is still good.
    func isFresh(_ now: Instant) -> Bool {
        now - Instant(nanoseconds: confirmedAt.load(ordering: .acquiring)) < Self.patience
    }

    /// How long ago the store was found to be good, by now.
    func silence(_ now: Instant) -> TimeSpan {
        now - Instant(nanoseconds: confirmedAt.load(ordering: .acquiring))
    }

    /// Whether a counter can be expected to become durable.
    func takesCounters(_ now: Instant) -> Bool {
        isWritable.load(ordering: .acquiring) && isFresh(now)
    }
}

/// The registry's figures since the process began.
public struct RegistryMetrics: Equatable, Sendable {
    /// Transactions that made counters durable.
    public var commits = 0
    /// Counters in them.
    public var counters = 0
    /// Transactions by their number of counters: the first row 1, then up to 4, 16, 64, 256, 1024, and more.
    public var batchSizes = [Int](repeating: 0, count: RegistryMetrics.batchBounds.count + 1)
    /// Counters that wait for the store, or are being committed, now.
    public var waiting = 0
    /// Lookups that wait for the store now.
    public var waitingLookups = 0
    /// Commands of operators that wait for the store now.
    public var waitingCommands = 0
    /// Requests refused because as many as allowed were waiting.
    public var overflows = 0
    /// Lookups answered from the file.
    public var loads = 0
    /// Errors after which the connection was dropped.
    public var storeErrors = 0

    /// The largest batch that each row of `batchSizes` but the last counts.
    public static let batchBounds = [1, 4, 16, 64, 256, 1024]
}

/// The same, being counted. All threads; each count for itself.
final class RegistryCounts: Sendable {
    let commits = Atomic<Int>(0)
    let counters = Atomic<Int>(0)
    let batchSizes: InlineArray<7, Atomic<Int>> = InlineArray { _ in Atomic(0) }
    let waiting = Atomic<Int>(0)
    let looking = Atomic<Int>(0)
    let commanding = Atomic<Int>(0)
    let overflows = Atomic<Int>(0)
    let loads = Atomic<Int>(0)
    let storeErrors = Atomic<Int>(0)

    func countCommit(of size: Int) {
        commits.add(1, ordering: .relaxed)
        counters.add(size, ordering: .relaxed)
        let row = RegistryMetrics.batchBounds.firstIndex { size <= $0 } ?? RegistryMetrics.batchBounds.count
        batchSizes[row].add(1, ordering: .relaxed)
    }

    var metrics: RegistryMetrics {
        var metrics = RegistryMetrics()
        metrics.commits = commits.load(ordering: .relaxed)
        metrics.counters = counters.load(ordering: .relaxed)
        for row in batchSizes.indices { metrics.batchSizes[row] = batchSizes[row].load(ordering: .relaxed) }
        metrics.waiting = waiting.load(ordering: .relaxed)
        metrics.waitingLookups = looking.load(ordering: .relaxed)
        metrics.waitingCommands = commanding.load(ordering: .relaxed)
        metrics.overflows = overflows.load(ordering: .relaxed)
        metrics.loads = loads.load(ordering: .relaxed)
        metrics.storeErrors = storeErrors.load(ordering: .relaxed)
        return metrics
    }
}
