internal import Synchronization

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
