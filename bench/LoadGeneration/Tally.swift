internal import EventLoop
internal import Histogram

/// What has been counted during one stretch of a run.
struct Tally {
    private(set) var requests = 0
    private(set) var handshakes = 0
    private(set) var resumed = 0
    /// Bytes of responses, heads and framing included, TLS excluded.
    var bytes = 0
    private(set) var failures: [FailureKind: Int] = [:]
    private(set) var reasons: [FailureKind: String] = [:]
    /// Requests begun with a proof, by `ProofOrigin`.
    private var proofs = [0, 0, 0]
    private var statuses = [Int](repeating: 0, count: 600)
    /// In nanoseconds.
    private var latencies = Histogram<UInt64>(
        lowestDiscernibleValue: 1, highestTrackableValue: Tally.latencyLimit, numberOfSignificantValueDigits: .three)

    /// An hour: longer than any request may take, and than an open loop may fall behind.
    private static let latencyLimit: UInt64 = 3_600_000_000_000

    init() {}

    /// A fresh start that forgets no failure.
    init(failuresOf earlier: Tally) {
        failures = earlier.failures
        reasons = earlier.reasons
    }

    var failed: Int { failures.values.reduce(0, +) }

    /// Status codes that occurred, with how often.
    var statusCounts: [(status: Int, count: Int)] {
        statuses.enumerated().filter { $0.element > 0 }.map { ($0.offset, $0.element) }
    }

    /// In microseconds; 0 if nothing was answered.
    func latency(atPercentile percentile: Double) -> Double {
        latencies.totalCount == 0 ? 0 : Double(latencies.valueAtPercentile(percentile)) / 1000
    }

    /// A response came completely.
    mutating func record(status: UInt16, latency: TimeSpan) {
        requests += 1
        // The parser admits 100 to 599 only.
        statuses[Int(status)] += 1
        latencies.record(min(Self.latencyLimit, UInt64(max(0, latency.nanoseconds))))
        if !(200...399).contains(status) { record(Failure(kind: .status, reason: "status \(status)")) }
    }

    mutating func recordProof(_ origin: ProofOrigin) {
        proofs[origin.rawValue] += 1
    }

    func proofs(_ origin: ProofOrigin) -> Int { proofs[origin.rawValue] }

    mutating func recordHandshake(resumed isResumed: Bool) {
        handshakes += 1
        if isResumed { resumed += 1 }
    }

    mutating func record(_ failure: Failure) {
        failures[failure.kind, default: 0] += 1
        if reasons[failure.kind] == nil { reasons[failure.kind] = failure.reason }
    }
}
