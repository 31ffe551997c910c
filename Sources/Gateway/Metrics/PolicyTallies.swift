package import Vocabulary

/// A table of counts that only grow, of which a history is kept.
package protocol ObservationTable: Sendable {
    associatedtype Rows: Sendable

    init()

    /// Adds what another table has counted.
    mutating func add(_ rows: Rows)

    /// Returns what was counted since an earlier moment.
    func since(_ earlier: Self) -> Rows
}

extension ObservedRequests: ObservationTable {}

/// Decisions of policies, by policy: from these an operator sees whom a policy locks out, or would.
package struct PolicyTallies: ObservationTable, Equatable {
    package struct Key: Hashable, Sendable {
        package let policy: String
        package let isSimulated: Bool
    }

    package struct Row: Equatable, Sendable {
        package fileprivate(set) var decisions: UInt64 = 0
        package fileprivate(set) var denied: UInt64 = 0
        package fileprivate(set) var unavailable: UInt64 = 0
        /// Of these, those with a violation that the policy's conditions found.
        package fileprivate(set) var violations: [Violation: UInt64] = [:]
    }

    package private(set) var rows: [Key: Row] = [:]

    package init() {}

    package mutating func add(_ rows: [Key: Row]) {
        for (key, row) in rows { self.rows[key, default: Row()].add(row) }
    }

    package func since(_ earlier: PolicyTallies) -> [Key: Row] {
        var difference: [Key: Row] = [:]
        for (key, row) in rows {
            let new = row.since(earlier.rows[key] ?? Row())
            if new.decisions > 0 { difference[key] = new }
        }
        return difference
    }
}

extension PolicyTallies.Row {
    fileprivate mutating func add(_ other: Self) {
        decisions += other.decisions
        denied += other.denied
        unavailable += other.unavailable
        violations.merge(other.violations, uniquingKeysWith: +)
    }

    fileprivate func since(_ earlier: Self) -> Self {
        var row = Self()
        row.decisions = decisions &- earlier.decisions
        row.denied = denied &- earlier.denied
        row.unavailable = unavailable &- earlier.unavailable
        for (violation, count) in violations where count > earlier.violations[violation] ?? 0 {
            row.violations[violation] = count - (earlier.violations[violation] ?? 0)
        }
        return row
    }
}

extension WorkerCounts {
    /// The decisions of policies.
    package var policyTallies: PolicyTallies {
        var tallies = PolicyTallies()
        let outcomes = PolicyOutcome.allCases.count
        for (place, name) in policies.names.enumerated() where !SeriesNames.isReserved(name) {
            for half in 0..<2 {
                let decisions = policyDecisions[(2 * place + half) * outcomes..<(2 * place + half + 1) * outcomes]
                guard decisions.contains(where: { $0 > 0 }) else { continue }
                let first = (2 * place + half) * Violation.allCases.count
                var row = PolicyTallies.Row()
                row.decisions = decisions.reduce(0, +)
                row.denied = decisions[decisions.startIndex + PolicyOutcome.deny.rawValue]
                row.unavailable = decisions[decisions.startIndex + PolicyOutcome.unavailable.rawValue]
                for violation in Violation.allCases {
                    let count = policyViolations[first + Int(violation.rawValue)]
                    if count > 0 { row.violations[violation] = count }
                }
                tallies.add([PolicyTallies.Key(policy: name, isSimulated: half == 1): row])
            }
        }
        return tallies
    }
}
