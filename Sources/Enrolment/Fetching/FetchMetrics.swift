internal import Telemetry

/// Counts of fetches of one content since the process began, and the state of the content.
public struct FetchMetrics: Equatable, Sendable {
    /// The result of a fetch, or of reading the file.
    enum Result: String, CaseIterable {
        case updated
        case unchanged
        /// What was received was not used.
        case refused
        case failed
    }

    /// Whether the content can be used.
    public enum State: String, Sendable {
        case current
        /// There is none yet.
        case missing
        case stale
    }

    /// The URL or the path.
    public internal(set) var source = ""
    public internal(set) var state = State.missing
    public internal(set) var entries = 0
    /// The number of seconds since the source confirmed the content. Nil if there is none.
    public internal(set) var age: Int64?
    /// The reason why the last fetch had no effect. Nil if it succeeded.
    public internal(set) var failure: String?
    /// The counts by index of the result.
    private var fetches = [UInt64](repeating: 0, count: Result.allCases.count)

    mutating func count(_ result: Result) {
        guard let place = Result.allCases.firstIndex(of: result) else { return }
        fetches[place] += 1
    }

    /// Returns the metrics for a scrape.
    ///
    /// - Parameters:
    ///   - name: The start of their names.
    ///   - content: The content in words.
    ///   - consequence: What does not work without current content.
    func families(_ name: String, of content: String, else consequence: String) -> [MetricFamily] {
        var results = MetricFamily(.counter, "\(name)_fetches_total", "Fetches of \(content), by result.")
        for (place, result) in Result.allCases.enumerated() { results.add(fetches[place], ["result": result.rawValue]) }
        var ages = MetricFamily(
            .gauge, "\(name)_age_seconds",
            "Time since the source confirmed \(content), in seconds; no sample if there is none.")
        if let age { ages.add(age) }
        let stale = MetricFamily(
            .gauge, "\(name)_stale", "1 while there is no current content, so that \(consequence).",
            state == .current ? 0 : 1)
        return [results, ages, stale]
    }
}
