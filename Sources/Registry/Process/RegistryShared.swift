internal import EventLoop
internal import Synchronization

/// The state that workers' clients and the store's thread share.
final class RegistryShared: Sendable {
    let limits: RegistryLimits
    let requests: Mailbox<StoreRequest>
    let records: SharedRecords
    let apps = AppNumbers()
    let health = StoreHealth()
    let counts = RegistryCounts()
    /// The current outage, according to the store's thread. Nil without one.
    let trouble = Mutex<StoreOutage?>(nil)
    /// When the store drew an epoch that was not there before, in seconds since 1970; 0 if this process has seen none.
    let epochChange = Atomic<Int64>(0)
    /// Whether the store is closed and another process is asked.
    let isReleased = Atomic<Bool>(false)
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

/// Limits for the part of the registry in memory and for waiting requests.
public struct RegistryLimits: Sendable {
    /// The number of devices with records in memory. The workers' and the writer's records take about 700 bytes
    /// together.
    public var devices = 65_536
    /// The number of counters that may wait for the store. Further ones are refused at once and stay unspent.
    public var waitingCounters = 4_096
    /// The number of look-ups that may wait for the store. Further ones are refused at once.
    public var waitingLookups = 16_384

    public init() {}

    /// The number of commands that may wait. Operators and enrolment send few.
    public static let waitingCommands = 256
    /// The number of waiting commands from which those of enrolment are refused. Strangers can keep enrolment busy, and
    /// an operator's revocation must still have a place.
    public static let enrolmentCommands = 192
}

/// The reason why the store accepts no counters.
public struct StoreOutage: Equatable, Sendable {
    /// The text for people.
    public let reason: String
    /// The start of the outage, in seconds since 1970-01-01T00:00:00Z.
    public let since: Int64

    public init(reason: String, since: Int64) {
        self.reason = reason
        self.since = since
    }
}

/// The health of the store, as last reported by its thread.
final class StoreHealth: Sendable {
    private let confirmedAt: Atomic<Int64>
    private let isWritable = Atomic<Bool>(true)

    /// The time without a report of the store after which a revocation may have been missed.
    static let patience = TimeSpan.seconds(5)

    init() {
        confirmedAt = Atomic(Instant.now.nanoseconds)
    }

    /// Records that the store was read or written successfully at a time.
    ///
    /// - Parameter takesCounters: False if another process has the store.
    func confirm(at time: Instant, takesCounters: Bool = true) {
        isWritable.store(takesCounters, ordering: .releasing)
        confirmedAt.store(time.nanoseconds, ordering: .releasing)
    }

    func fail() {
        isWritable.store(false, ordering: .releasing)
    }

    /// Records the end of the store. Nothing is known of it afterwards.
    func end() {
        fail()
        confirmedAt.store(Instant.now.nanoseconds - Self.patience.nanoseconds, ordering: .releasing)
    }

    /// Returns whether the state of devices in memory is current.
    func isFresh(_ now: Instant) -> Bool {
        now - Instant(nanoseconds: confirmedAt.load(ordering: .acquiring)) < Self.patience
    }

    /// Returns the time since the store was last known to be healthy.
    func silence(_ now: Instant) -> TimeSpan {
        now - Instant(nanoseconds: confirmedAt.load(ordering: .acquiring))
    }

    /// Returns whether a counter is expected to become durable.
    func takesCounters(_ now: Instant) -> Bool {
        isWritable.load(ordering: .acquiring) && isFresh(now)
    }
}

/// Statistics of the registry since the start of the process.
public struct RegistryMetrics: Equatable, Sendable {
    /// The number of transactions that made counters durable.
    public var commits = 0
    /// The number of counters in these transactions.
    public var counters = 0
    /// The number of transactions by their number of counters: 1, then up to 4, 16, 64, 256, 1024, and more.
    public var batchSizes = [Int](repeating: 0, count: RegistryMetrics.batchBounds.count + 1)
    /// The number of counters that wait for the store or are being committed.
    public var waiting = 0
    /// The number of look-ups that wait for the store.
    public var waitingLookups = 0
    /// The number of commands that wait for the store.
    public var waitingCommands = 0
    /// The number of requests that were refused because of a full queue.
    public var overflows = 0
    /// The number of look-ups that the store answered.
    public var loads = 0
    /// The number of errors that closed the connection.
    public var storeErrors = 0

    /// The upper bounds of the rows of `batchSizes`, except the last.
    public static let batchBounds = [1, 4, 16, 64, 256, 1024]
}

/// The counters behind `RegistryMetrics`. All threads update them independently.
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
