internal import Telemetry

/// Counts of receipt refreshes since the process began, and their present state.
public struct ReceiptMetrics: Equatable, Sendable {
    /// The result of a call.
    enum Result: String, CaseIterable {
        case refreshed
        case unchanged
        case malformed
        case tokenRefused = "token_refused"
        case unknown
        case throttled
        /// The received receipt was refused.
        case refused
        case failed
    }

    /// The counts by index of the result.
    private var calls = [UInt64](repeating: 0, count: Result.allCases.count)
    /// The number of devices above the limit of each app that has one, counted up to ten thousand.
    public internal(set) var aboveCeiling: [AppCount] = []
    /// The greatest number of seconds by which a device is overdue. 0 if none is.
    public internal(set) var oldestOverdue: Int64 = 0
    /// The reason why calls are paused. Nil if they are not.
    var pause: RefreshSchedule.Pause?

    public struct AppCount: Equatable, Sendable {
        public let app: String
        public let count: Int
    }

    public var pauseReason: String? { pause?.rawValue }
    public var callCount: UInt64 { calls.reduce(0, +) }
    /// The number of newer receipts received.
    public var refreshedCount: UInt64 { calls[0] }

    mutating func count(_ result: Result) {
        guard let place = Result.allCases.firstIndex(of: result) else { return }
        calls[place] += 1
    }

    /// The metrics for a scrape.
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
