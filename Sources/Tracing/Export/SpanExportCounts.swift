internal import Synchronization

/// Counts of the outcomes of spans, and of the calls that carry them. Read on another thread, for metrics.
package final class SpanExportCounts: Sendable {
    /// Of a span.
    package enum SpanOutcome: Int, CaseIterable, Sendable {
        /// The collector has taken it.
        case exported
        /// The collector took the call it came in, but not the span.
        case rejected
        /// The collector refuses the call for good: it would again.
        case refused
        /// The collector could not be reached for too long.
        case expired
        /// As much as may wait does.
        case queueFull
        /// More requests than are recorded in a second.
        case rateLimited

        package var name: String {
            switch self {
            case .exported: "exported"
            case .rejected: "rejected"
            case .refused: "refused"
            case .expired: "expired"
            case .queueFull: "queue_full"
            case .rateLimited: "rate_limited"
            }
        }
    }

    /// Of a call.
    package enum Outcome: Int, CaseIterable, Sendable {
        case accepted
        case refused
        /// It is made again.
        case failed

        package var name: String {
            switch self {
            case .accepted: "accepted"
            case .refused: "refused"
            case .failed: "failed"
            }
        }
    }

    private let spans = Mutex([Int](repeating: 0, count: SpanOutcome.allCases.count))
    private let calls = Mutex([Int](repeating: 0, count: Outcome.allCases.count))

    package init() {}

    /// Once for a block, or for what is dropped: not for each span that goes its way.
    func add(_ count: Int, _ fate: SpanOutcome) { spans.withLock { $0[fate.rawValue] += count } }
    func add(_ outcome: Outcome) { calls.withLock { $0[outcome.rawValue] += 1 } }

    package func count(of fate: SpanOutcome) -> Int { spans.withLock { $0[fate.rawValue] } }
    package func count(of outcome: Outcome) -> Int { calls.withLock { $0[outcome.rawValue] } }
}
