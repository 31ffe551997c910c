internal import Telemetry

/// Counts of fetches of the status list since the process began, and the state of the list.
public struct StatusListMetrics: Equatable, Sendable {
    /// The result of a fetch, or of reading the file.
    enum Result: String, CaseIterable {
        case updated
        case unchanged
        /// The received list was not taken.
        case refused
        case failed
    }

    /// Whether Android phones can be attested.
    public enum State: String, Sendable {
        case current
        /// There is no list yet.
        case missing
        case stale
    }

    /// The URL or the path of the list.
    public internal(set) var source = ""
    public internal(set) var state = State.missing
    public internal(set) var entries = 0
    /// The number of seconds since the list was confirmed. Nil if there is none.
    public internal(set) var age: Int64?
    /// The number of enrolled devices whose keys rest on a listed certificate, at the last review.
    public internal(set) var revokedDevices = 0
    /// The reason why the last fetch had no effect. Nil if it succeeded.
    public internal(set) var failure: String?
    /// The counts by index of the result.
    private var fetches = [UInt64](repeating: 0, count: Result.allCases.count)

    mutating func count(_ result: Result) {
        guard let place = Result.allCases.firstIndex(of: result) else { return }
        fetches[place] += 1
    }

    /// The metrics for a scrape.
    var families: [MetricFamily] {
        var results = MetricFamily(
            .counter, "attestgate_status_list_fetches_total", "Fetches of Android's status list, by result.")
        for (place, result) in Result.allCases.enumerated() { results.add(fetches[place], ["result": result.rawValue]) }
        var ages = MetricFamily(
            .gauge, "attestgate_status_list_age_seconds",
            "Time since the source confirmed the status list, in seconds; no sample without a list.")
        if let age { ages.add(age) }
        return [
            results, ages,
            MetricFamily(
                .gauge, "attestgate_status_list_entries", "Entries of the status list that is in use.", entries),
            MetricFamily(
                .gauge, "attestgate_status_list_revoked_devices",
                "Enrolled devices that are refused because a certificate that attests their key is listed.",
                revokedDevices),
            MetricFamily(
                .gauge, "attestgate_status_list_stale",
                "1 while the status list is missing or too old, so that no Android phone can enrol.",
                state == .current ? 0 : 1),
        ]
    }
}
