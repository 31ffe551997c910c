internal import Metrics
internal import Registry
internal import Vocabulary

/// What has come of asking for newer receipts since the process began, and how they stand.
public struct ReceiptMetrics: Equatable, Sendable {
    /// How a call may end.
    enum Result: String, CaseIterable {
        case refreshed
        case unchanged
        case malformed
        case tokenRefused = "token_refused"
        case unknown
        case throttled
        /// What came was refused here.
        case refused
        case failed
    }

    /// By the place of the result.
    private var calls = [UInt64](repeating: 0, count: Result.allCases.count)
    /// Of each app that has a ceiling: its id and how many devices are above, counted up to ten thousand.
    public internal(set) var aboveCeiling: [AppCount] = []
    /// For how many seconds the one that waits for longest has been due; 0 if none is.
    public internal(set) var oldestOverdue: Int64 = 0
    /// Why nobody is asked about at the moment; nil if calls are made.
    var pause: RefreshSchedule.Pause?

    public struct AppCount: Equatable, Sendable {
        public let app: String
        public let count: Int
    }

    public var pauseReason: String? { pause?.rawValue }
    public var callCount: UInt64 { calls.reduce(0, +) }
    /// Newer receipts that were got.
    public var refreshedCount: UInt64 { calls[0] }

    mutating func count(_ result: Result) {
        guard let place = Result.allCases.firstIndex(of: result) else { return }
        calls[place] += 1
    }

    /// For a scrape.
    var families: [MetricFamily] {
        var results = MetricFamily(
            .counter, "attestgate_receipt_calls_total", "Calls to Apple for newer receipts of devices, by result.")
        for (place, result) in Result.allCases.enumerated() { results.add(calls[place], ["result": result.rawValue]) }
        var above = MetricFamily(
            .gauge, "attestgate_receipt_devices_above_ceiling",
            "Devices whose risk metric is above their app's maximum_risk; counted up to 10000.")
        for app in aboveCeiling { above.add(app.count, ["app": app.app]) }
        var paused = MetricFamily(
            .gauge, "attestgate_receipt_calls_paused", "1 while calls are paused, by reason.")
        for reason in RefreshSchedule.Pause.allCases {
            paused.add(pause == reason ? 1 : 0, ["reason": reason.rawValue])
        }
        return [
            results, above, paused,
            MetricFamily(
                .gauge, "attestgate_receipt_oldest_overdue_seconds",
                "Time since the oldest overdue receipt was due, in seconds.", oldestOverdue),
        ]
    }
}

/// Keeps up to date what of receipts only the registry can tell: how many devices are above their app's risk, and how late it is.
final class ReceiptFigureCollector {
    private let ceilings: [(app: AppID, highest: UInt32)]
    private let questions: RegistryRequests
    private let shared: EnrolmentShared
    private var isAsking = false

    init(_ apps: [EnrolmentSettings.App], _ surroundings: EnrolmentGeneration.EnrolmentContext) {
        ceilings = apps.compactMap { app in app.maximumRisk.map { (app.id, $0) } }
        questions = surroundings.questions
        shared = surroundings.shared
    }

    func ask(at time: Int64) {
        guard !isAsking else { return }
        isAsking = true
        questions.ask(.receiptFigures(ceilings: ceilings, at: time)) { [weak self] result in
            guard let self else { return }
            isAsking = false
            guard case .success(.receiptFigures(let figures)) = result else { return }
            let counts = zip(ceilings, figures.aboveCeiling).map {
                ReceiptMetrics.AppCount(app: $0.app.description, count: $1)
            }
            shared.count { metrics in
                metrics.receipts?.aboveCeiling = counts
                metrics.receipts?.oldestOverdue = figures.oldestDue.map { max(0, time - $0) } ?? 0
            }
        }
    }
}
