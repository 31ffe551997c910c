internal import EventLoop

/// How much one client address may ask for: a bucket of requests that fills again evenly, and connections open at once.
///
/// Bounded: of addresses that come and go, those of the two last generations are remembered; whoever has more addresses than
/// that is held back by nothing that looks at addresses.
struct AddressLimits {
    /// What a configuration sets; nil for no limit.
    struct Rates: Equatable, Sendable {
        /// As many may come at once, too.
        var requestsPerMinute: Int?
        var connections: Int?
    }

    private struct Bucket {
        /// In requests.
        var tokens: Double
        var at: Instant
    }

    private let limit: Int
    private var recent: [AddressBlock: Bucket] = [:]
    private var older: [AddressBlock: Bucket] = [:]
    /// By whom connections are open; as many as the server admits at most.
    private var connections: [AddressBlock: Int] = [:]

    /// - Parameter limit: addresses in one generation.
    init(limit: Int = 16_384) {
        self.limit = limit
    }

    /// Takes one request.
    ///
    /// - Returns: nil if it may come; else in how many seconds one may.
    mutating func takeRequest(of client: AddressBlock, _ rates: Rates, now: Instant) -> Int? {
        guard let perMinute = rates.requestsPerMinute else { return nil }
        let full = Double(perMinute)
        var bucket = recent[client] ?? older[client] ?? Bucket(tokens: full, at: now)
        let perNanosecond = full / 60_000_000_000
        bucket.tokens = min(full, bucket.tokens + Double(max(0, (now - bucket.at).nanoseconds)) * perNanosecond)
        bucket.at = now
        let isAdmitted = bucket.tokens >= 1
        if isAdmitted { bucket.tokens -= 1 }
        if recent[client] == nil, recent.count >= limit {
            older = recent
            recent = [:]
        }
        recent[client] = bucket
        guard !isAdmitted else { return nil }
        let wait = (1 - bucket.tokens) / perNanosecond / 1_000_000_000
        return max(1, Int(wait.rounded(.up)))
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
