package import Registry
internal import Vocabulary

/// The rule for what a store lacks of its journal.
package enum JournalReplay {
    /// Applies entries of the journal to a store. It only revokes, ends and bars. Unknown keys are barred.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    package static func rule(for entries: [WitnessEntry], at time: Int64) -> StoreRule<Void> {
        var look = StoreLook()
        for entry in entries {
            switch entry {
            case .revoked(let key, _): look.hardwareKeys.append(key)
            case .restored: break
            case .ended(let key, _): look.bindingKeys.append(key)
            case .barred(let subject, _): look.subjects.append(subject)
            }
        }
        return StoreRule(look: look) { facts in
            StoreDecision(entries.flatMap { writes(for: $0, facts, at: time) }, reply: ())
        }
    }

    /// Returns the writes that a store needs to agree with the entry.
    private static func writes(for entry: WitnessEntry, _ facts: StoreFacts, at time: Int64) -> [StoreWrite] {
        switch entry {
        case .revoked(let key, let then):
            if let device = facts.devices[key] { return device.isRevoked ? [] : [.revoke(device.id, at: then)] }
            return isBarred(key, .hardware, facts) ? [] : [.barKey(key, .hardware, at: then)]
        case .restored: return []
        case .ended(let key, let end):
            guard let binding = facts.bindings[key] else {
                return isBarred(key, .mTLS, facts) ? [] : [.barKey(key, .mTLS, at: end)]
            }
            guard binding.isActive else { return [] }
            guard end > time else { return [.endBinding(key, of: binding.device, at: end)] }
            // A binding that ends earlier is not prolonged.
            return binding.endsAt.map { $0 > end } ?? true ? [.scheduleEnd(key, of: binding.device, at: end)] : []
        case .barred(let subject, let then):
            let bar = facts.barredSubjects.contains(subject) ? [] : [StoreWrite.barSubject(subject, at: then)]
            return bar + (facts.devicesOfSubject[subject] ?? []).map { .revoke($0, at: then) }
        }
    }

    private static func isBarred(_ key: KeyID, _ kind: BarredKeyKind, _ facts: StoreFacts) -> Bool {
        facts.barredKeys[kind]?.contains(key) ?? false
    }
}

extension SQLReader {
    /// Calls `body` with all revocations, ends and bars of the store, in slices.
    package func eachRevocation(_ body: ([WitnessEntry]) -> Void) throws {
        try eachSlice(
            "SELECT hardware_key, revoked_at, id FROM device WHERE id > $1 AND revoked_at IS NOT NULL ORDER BY id",
            from: .integer(0), next: { .integer(try $0.integer(2)) }
        ) { body(try $0.map { .revoked(try $0.key(0, "device"), at: try $0.integer(1)) }) }
        try eachSlice(Self.barred("hardware")) {
            body(try $0.map { .revoked(try $0.key(0, "barred_key"), at: try $0.integer(1)) })
        }
        try eachSlice(
            """
            SELECT key, coalesce(ended_at, ends_at) FROM binding
            WHERE key > $1 AND (ended_at IS NOT NULL OR ends_at IS NOT NULL) ORDER BY key
            """
        ) { body(try $0.map { .ended(try $0.key(0, "binding"), at: try $0.integer(1)) }) }
        try eachSlice(Self.barred("mtls")) {
            body(try $0.map { .ended(try $0.key(0, "barred_key"), at: try $0.integer(1)) })
        }
        body(try barredSubjects())
    }

    /// Returns all barred people. There are few, because operators bar them.
    package func barredSubjects() throws -> [WitnessEntry] {
        try rows([SQLStatement("SELECT subject, revoked_at FROM revoked_subject")])[0].map {
            .barred(try $0.fingerprint(0, "revoked_subject"), at: try $0.integer(1))
        }
    }

    private static func barred(_ kind: String) -> String {
        "SELECT key, barred_at FROM barred_key WHERE key > $1 AND kind = '\(kind)' ORDER BY key"
    }

    /// Reads rows in slices.
    ///
    /// - Parameters:
    ///   - sql: A query for the rows after $1, sorted.
    ///   - next: Returns the place of a row. By default it is its first column.
    private func eachSlice(
        _ sql: String, from start: SQLValue = .bytes([]),
        next: (Row) throws -> SQLValue = { .bytes(try $0.bytes(0)) }, _ body: ([Row]) throws -> Void
    ) throws {
        let limit = 2_000
        var place = start
        while true {
            let rows = try rows([SQLStatement("\(sql) LIMIT \(limit)", [place])])[0]
            try body(rows)
            guard rows.count == limit, let last = rows.last else { return }
            place = try next(last)
        }
    }
}
