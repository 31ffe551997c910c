internal import EventLoop

/// The health of one server as one worker sees it, from failed requests and from checks.
///
/// A value: the caller passes each event and its time. The two sources are independent; only if both agree does the
/// server get requests.
struct ServerHealth {
    private let ejection: EjectionRules
    private let checks: HealthCheckRules?

    /// The number of consecutive failures.
    private var failures = 0
    private var isOnProbation = false
    /// The number of ejections without a long healthy time in between.
    private var ejections = 0
    private var ejectedUntil = Instant(nanoseconds: .min)

    private enum Verdict {
        /// No check has finished yet. The server counts as healthy until then, and the first check decides.
        case never
        /// With the number of consecutive checks that contradict the state.
        case healthy(failures: Int)
        case unhealthy(passes: Int)
    }

    private var verdict = Verdict.never

    init(ejection: EjectionRules, checks: HealthCheckRules?) {
        self.ejection = ejection
        self.checks = checks
    }

    func standing(at now: Instant) -> ServerCondition {
        if case .unhealthy = verdict { return .unhealthy }
        if now < ejectedUntil { return .ejected }
        return isOnProbation ? .onProbation : .usable
    }

    // MARK: - Requests

    /// Records a success.
    ///
    /// - Returns: whether it ends the probation.
    mutating func succeeded(at now: Instant) -> Bool {
        guard failures > 0 || isOnProbation || ejections > 0 else { return false }
        failures = 0
        // A request that began before the ejection is older than the observed failures.
        guard now >= ejectedUntil else { return false }
        let wasOnProbation = isOnProbation
        isOnProbation = false
        // The server has been healthy for as long as it was ejected: earlier ejections no longer count.
        if ejections > 0, now >= ejectedUntil + time(of: ejections) { ejections = 0 }
        return wasOnProbation
    }

    /// Records a failure.
    ///
    /// - Returns: whether the server should be ejected with `eject(at:)`, if enough others are left.
    mutating func failed(at now: Instant) -> Bool {
        // Requests that were in flight during the ejection do not count again.
        guard now >= ejectedUntil else { return false }
        failures = min(failures + 1, ejection.failures)
        return isOnProbation || failures >= ejection.failures
    }

    /// Ejects the server.
    ///
    /// - Returns: the duration.
    mutating func eject(at now: Instant) -> TimeSpan {
        // Earlier ejections no longer count once the server has served for as long again as the last one lasted.
        if ejections > 0, !isOnProbation, now >= ejectedUntil + time(of: ejections) { ejections = 0 }
        ejections += 1
        failures = 0
        isOnProbation = true
        let span = time(of: ejections)
        ejectedUntil = now + span
        return span
    }

    /// Returns the duration of the ejection with this number, from 1.
    private func time(of number: Int) -> TimeSpan {
        let doublings = min(number - 1, 20)
        let (span, overflow) = ejection.time.nanoseconds.multipliedReportingOverflow(by: 1 << Int64(doublings))
        return overflow ? ejection.longest : min(TimeSpan(nanoseconds: span), ejection.longest)
    }

    // MARK: - Checks

    /// Records a check.
    ///
    /// - Returns: whether the server is healthy from now on, or nil if the state has not changed.
    mutating func checked(passed: Bool) -> Bool? {
        guard let checks else { return nil }
        switch (verdict, passed) {
        case (.never, true), (.healthy, true): verdict = .healthy(failures: 0)
        case (.unhealthy, false): verdict = .unhealthy(passes: 0)
        case (.healthy(let failures), false) where failures + 1 < checks.unhealthyAfter:
            verdict = .healthy(failures: failures + 1)
        case (.unhealthy(let passes), true) where passes + 1 < checks.healthyAfter:
            verdict = .unhealthy(passes: passes + 1)
        case (.never, false), (.healthy, false):
            verdict = .unhealthy(passes: 0)
            return false
        case (.unhealthy, true):
            verdict = .healthy(failures: 0)
            return true
        }
        return nil
    }
}

/// The condition of a server as a worker sees it.
public enum ServerCondition: Int, CaseIterable, Sendable {
    case usable
    /// The ejection is over, and no request has succeeded since: one request at a time.
    case onProbation
    /// Too many requests have failed, so the server gets none for a while.
    case ejected
    /// The checks fail.
    case unhealthy
    /// No address of the server is known.
    case unresolved

    /// The name in metrics and status.
    public var name: String {
        switch self {
        case .usable: "usable"
        case .onProbation: "probation"
        case .ejected: "ejected"
        case .unhealthy: "unhealthy"
        case .unresolved: "unresolved"
        }
    }
}
