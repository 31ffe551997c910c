internal import Telemetry

/// Counts of fetches of the issuer's keys since the process began, and the state of the keys.
public struct IssuerKeyMetrics: Equatable, Sendable {
    /// The result of a fetch.
    enum Result: String, CaseIterable {
        case updated
        case unchanged
        /// What was received was not used.
        case refused
        case failed
    }

    /// Whether admission tokens can be verified.
    public enum State: String, Sendable {
        case current
        /// There are no keys yet.
        case missing
        case stale
    }

    /// The URL of the keys, or of the issuer.
    public internal(set) var source = ""
    public internal(set) var state = State.missing
    public internal(set) var keys = 0
    /// The number of seconds since the keys were confirmed. Nil if there are none.
    public internal(set) var age: Int64?
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
            .counter, "attestgate_issuer_keys_fetches_total", "Fetches of the keys of admission tokens, by result.")
        for (place, result) in Result.allCases.enumerated() { results.add(fetches[place], ["result": result.rawValue]) }
        var ages = MetricFamily(
            .gauge, "attestgate_issuer_keys_age_seconds",
            "Time since the issuer confirmed the keys of admission tokens, in seconds; no sample without keys.")
        if let age { ages.add(age) }
        return [
            results, ages,
            MetricFamily(
                .gauge, "attestgate_issuer_keys_stale",
                "1 while the keys of admission tokens are missing or too old, so that no token is accepted.",
                state == .current ? 0 : 1),
        ]
    }
}
