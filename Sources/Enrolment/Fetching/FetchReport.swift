/// The reporter of one fetched content. It keeps the metrics, and writes a line in the log when a fetch ends and when the
/// content becomes stale or current.
struct FetchReport {
    /// What the log says of the content. Each begins in the middle of a sentence.
    struct Words {
        let missing: String
        let stale: String
        let current: String
    }

    private let subject: EnrolmentNotice.Subject
    private let metrics: WritableKeyPath<EnrolmentMetrics, FetchMetrics?>
    private let words: Words
    private let context: EnrolmentContext

    init(
        _ subject: EnrolmentNotice.Subject, _ metrics: WritableKeyPath<EnrolmentMetrics, FetchMetrics?>, _ words: Words,
        _ context: EnrolmentContext
    ) {
        self.subject = subject
        self.metrics = metrics
        self.words = words
        self.context = context
    }

    /// Begins, with the counts of the previous generation if there was one.
    func begin(source: String) {
        context.shared.count { all in
            if all[keyPath: metrics] == nil { all[keyPath: metrics] = FetchMetrics() }
            all[keyPath: metrics]?.source = source
        }
    }

    /// Publishes the state of the content.
    ///
    /// - Parameters:
    ///   - age: The number of seconds since the source confirmed the content. Nil if there is none.
    ///   - entries: How many parts it has.
    func publish(age: Int64?, isStale: Bool, entries: Int) {
        let state: FetchMetrics.State = age == nil ? .missing : isStale ? .stale : .current
        var before = state
        context.shared.count { all in
            before = all[keyPath: metrics]?.state ?? state
            all[keyPath: metrics]?.state = state
            all[keyPath: metrics]?.age = age
            all[keyPath: metrics]?.entries = entries
        }
        switch (before, state) {
        case (.current, .stale), (.missing, .stale):
            notify(.error, [LogFact("state", "stale"), LogFact("age", age ?? 0)], because: words.stale)
        case (.stale, .current): notify(.info, [LogFact("state", "current")], because: words.current)
        default: break
        }
    }

    /// Reports the end of a fetch.
    ///
    /// - Parameters:
    ///   - reason: The reason why it had no effect. Nil if it succeeded.
    ///   - isMissing: Whether there is no content even so.
    func ended(
        _ result: FetchMetrics.Result, _ details: [LogFact] = [], because reason: String? = nil, isMissing: Bool
    ) {
        context.shared.count { all in
            all[keyPath: metrics]?.count(result)
            all[keyPath: metrics]?.failure = reason
        }
        let severity: EnrolmentNotice.Severity =
            switch result {
            case .updated, .unchanged: .info
            case .refused: .error
            case .failed: .warning
            }
        let reasons = [reason, isMissing ? words.missing : nil].compactMap(\.self)
        notify(
            severity, [LogFact("outcome", result.rawValue)] + details,
            because: reasons.isEmpty ? nil : reasons.joined(separator: "; "))
    }

    func notify(_ severity: EnrolmentNotice.Severity, _ facts: [LogFact] = [], because reason: String? = nil) {
        context.notify(EnrolmentNotice(subject, severity, facts, because: reason))
    }
}
