internal import EventLoop
internal import Synchronization

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
