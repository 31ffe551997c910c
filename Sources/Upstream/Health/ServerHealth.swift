public import EventLoop

/// What one worker thinks of one server: by the requests that failed there, and by its answers to checks.
///
/// A value: the caller reports what happened and when. The two judge independently; only where both have no objection
/// does the server get requests.
struct ServerHealth {
    private let ejection: EjectionRules
    private let checks: HealthCheckRules?

    /// One after the other.
    private var failures = 0
    private var isOnProbation = false
    /// How often it was ejected without having been well for long since.
    private var ejections = 0
    private var ejectedUntil = Instant(nanoseconds: .min)

    /// Until the first check has said something, it is taken for healthy.
    private var isUnchecked = true
    private var isUnhealthy = false
    /// Checks, one after the other, that speak against what it is taken for.
    private var contradictions = 0

    init(ejection: EjectionRules, checks: HealthCheckRules?) {
        self.ejection = ejection
        self.checks = checks
    }

    func standing(at now: Instant) -> ServerCondition {
        if isUnhealthy { return .unhealthy }
        if now < ejectedUntil { return .ejected }
        return isOnProbation ? .onProbation : .usable
    }

    // MARK: - Requests

    /// - Returns: whether that ends its probation.
    mutating func succeeded(at now: Instant) -> Bool {
        guard failures > 0 || isOnProbation || ejections > 0 else { return false }
        failures = 0
        // A request that began before the ejection says nothing of what was seen since.
        guard now >= ejectedUntil else { return false }
        let wasOnProbation = isOnProbation
        isOnProbation = false
        // It has been well for as long as it was away: what was before is forgotten.
        if ejections > 0, now >= ejectedUntil + time(of: ejections) { ejections = 0 }
        return wasOnProbation
    }

    /// - Returns: whether it is to be ejected: `eject(at:)`, if enough others are left.
    mutating func failed(at now: Instant) -> Bool {
        // Requests that were under way when it was ejected do not count again.
        guard now >= ejectedUntil else { return false }
        failures = min(failures + 1, ejection.failures)
        return isOnProbation || failures >= ejection.failures
    }

    /// - Returns: for how long.
    mutating func eject(at now: Instant) -> TimeSpan {
        // Earlier ejections no longer count once the server has served as long again as the last one lasted.
        if ejections > 0, !isOnProbation, now >= ejectedUntil + time(of: ejections) { ejections = 0 }
        ejections += 1
        failures = 0
        isOnProbation = true
        let span = time(of: ejections)
        ejectedUntil = now + span
        return span
    }

    /// Of the ejection with this number, from 1.
    private func time(of number: Int) -> TimeSpan {
        let doublings = min(number - 1, 20)
        let (span, overflow) = ejection.time.nanoseconds.multipliedReportingOverflow(by: 1 << Int64(doublings))
        return overflow ? ejection.longest : min(TimeSpan(nanoseconds: span), ejection.longest)
    }

    // MARK: - Checks

    /// - Returns: whether it is healthy from now on; nil if that is as it was.
    mutating func checked(passed: Bool) -> Bool? {
        guard let checks else { return nil }
        guard passed == isUnhealthy else {
            isUnchecked = false
            contradictions = 0
            return nil
        }
        contradictions += 1
        // The first one decides: there is nothing that speaks against it.
        guard isUnchecked || contradictions >= (passed ? checks.healthyAfter : checks.unhealthyAfter) else {
            return nil
        }
        isUnchecked = false
        contradictions = 0
        isUnhealthy = !passed
        return passed
    }
}

/// When a server that fails requests gets none for a while.
public struct EjectionRules: Sendable {
    /// Failures, one after the other, after which it is ejected.
    public var failures = 5
    /// For how long the first time; twice as long each time after.
    public var time = TimeSpan.seconds(10)
    /// For how long at most.
    public var longest = TimeSpan.seconds(300)
    /// Servers that are never ejected, whatever they do: somebody has to be asked.
    public var minimumServers = 1

    public init() {}
}

/// What a worker thinks of a server now.
public enum ServerCondition: Int, CaseIterable, Sendable {
    case usable
    /// Back from an ejection, and nothing has succeeded yet: one request at a time.
    case onProbation
    /// It has failed too many requests, and gets none for a while.
    case ejected
    /// Its checks fail.
    case unhealthy
    /// No address of it is known.
    case unresolved

    /// In metrics and status.
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
