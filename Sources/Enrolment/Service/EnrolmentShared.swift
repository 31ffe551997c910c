internal import EventLoop
internal import Server
internal import Synchronization

/// What all generations of one service have in common. Belongs to the service's thread; the counts may be read by any.
final class EnrolmentShared {
    var limits = AddressLimits()
    /// Until when Apple is not asked; set by the generation that received the refusal.
    var receiptPause: (reason: RefreshSchedule.Pause, until: Instant)?
    private let counts: EnrolmentCounts

    init(_ counts: EnrolmentCounts) {
        self.counts = counts
    }

    func count(_ change: (inout EnrolmentMetrics) -> Void) { counts.change(change) }
}

/// The counts of one service, written by its thread.
final class EnrolmentCounts: Sendable {
    private let metrics = Mutex(EnrolmentMetrics())

    var current: EnrolmentMetrics { metrics.withLock { $0 } }

    func change(_ change: (inout EnrolmentMetrics) -> Void) { metrics.withLock { change(&$0) } }
}

/// How much one client address may ask for: a bucket of requests that fills again evenly, and connections open at once.
///
/// Bounded: when there are more addresses than buckets, several addresses share one.
struct AddressLimits {
    /// What a configuration sets; nil for no limit.
    struct Rates: Equatable, Sendable {
        /// As many may come at once, too.
        var requestsPerMinute: Int?
        var connections: Int?
    }

    private var buckets: BucketTable
    /// By whom connections are open; as many as the server admits at most.
    private var connections: [AddressBlock: Int] = [:]

    /// - Parameter limit: of buckets, 16 bytes each.
    init(limit: Int = 32_768) {
        buckets = BucketTable(limit: limit)
    }

    /// Takes one request.
    ///
    /// - Returns: nil if it may come; else in how many seconds one may.
    mutating func takeRequest(of client: AddressBlock, _ rates: Rates, now: Instant) -> Int? {
        guard let perMinute = rates.requestsPerMinute else { return nil }
        let rate = Rate(perMinute, per: .seconds(60), burst: perMinute)
        return buckets.take(of: client.hashValue, rate, now: now)?.wholeSeconds
    }

    /// - Returns: whether one more connection may be opened; it is counted then.
    mutating func openConnection(of client: AddressBlock, _ rates: Rates) -> Bool {
        let open = connections[client] ?? 0
        if let limit = rates.connections, open >= limit { return false }
        connections[client] = open + 1
        return true
    }

    mutating func closeConnection(of client: AddressBlock) {
        guard let open = connections[client] else { return }
        connections[client] = open > 1 ? open - 1 : nil
    }
}
