internal import Vocabulary

// What may be used once, and what ends with time. Times are seconds since 1970-01-01T00:00:00Z.
extension RegistryDatabase {
    /// The two kinds, each with a table of its own.
    enum SingleUses: CaseIterable {
        case nonces
        case tokens

        fileprivate var table: String { self == .nonces ? "used_nonce" : "used_token" }
        fileprivate var removed: String { self == .nonces ? "nonces_removed" : "tokens_removed" }
    }

    enum SingleUseState {
        case unused
        case used
        case expired
    }

    /// What is looked at before anything is used: of which epoch the store is, and what was removed from the lists.
    static let useLook = DatabaseStatement("SELECT epoch, nonces_removed, tokens_removed FROM store")

    static func look(at item: SingleUse, in uses: SingleUses) -> DatabaseStatement {
        DatabaseStatement("SELECT 1::bigint FROM \(uses.table) WHERE id = $1", [.bytes(item.id.bytes)])
    }

    /// Fails if somebody else has used it since it was looked at, and undoes all that was written with it.
    static func use(_ item: SingleUse, in uses: SingleUses) -> DatabaseStatement {
        DatabaseStatement(
            "INSERT INTO \(uses.table) (id, expires_at) VALUES ($1, $2)",
            [.bytes(item.id.bytes), .integer(item.expiresAt)])
    }

    /// - Parameters:
    ///   - store: answers `useLook`.
    ///   - known: answers `look`.
    static func standing(
        of item: SingleUse, in uses: SingleUses, _ store: DatabaseResult, _ known: DatabaseResult, _ time: Int64
    ) throws -> SingleUseState {
        let removed = try store.integer(0, uses == .nonces ? 1 : 2)
        // A clock that went back must not bring back what was removed.
        guard item.expiresAt > max(time, removed) else { return .expired }
        return known.rows == 0 ? .unused : .used
    }

    /// One slice of what ends with time; any gateway may do it. Writes nothing if nothing is due.
    ///
    /// - Returns: whether there may be more.
    func expire(at time: Int64) throws -> Bool {
        let ended = try endDueBindings(at: time)
        // One gateway whose clock is ahead must not have all others forget, or refuse, what is good for them. (That it ends keys early
        // hurts least.)
        let time = min(time, try clock())
        let used = try removeExpired(at: time)
        let certificates = try removeEndedCertificates(at: time)
        let changes = try removeChanges(at: time)
        return ended || used || certificates || changes
    }

    private static let slice = 256

    /// Written down, not only computed from the time: a clock that goes back brings no binding back.
    private func endDueBindings(at time: Int64) throws -> Bool {
        let due = "FROM binding WHERE ends_at IS NOT NULL AND ended_at IS NULL AND ends_at <= $1"
        guard try run("SELECT 1::bigint \(due) LIMIT 1", [.integer(time)]).rows > 0 else { return false }
        return try transaction(.changing) {
            // Looked at again: another gateway may have come first.
            let rows = try run(
                "SELECT key, device \(due) ORDER BY ends_at LIMIT \(Self.slice)", [.integer(time)])
            for row in 0..<rows.rows {
                let key = try rows.key(row, 0, "binding")
                let device = try rows.device(row, 1, "binding")
                _ = try run("UPDATE binding SET ended_at = ends_at WHERE key = $1 AND ended_at IS NULL", [.key(key)])
                try changeStanding(of: device)
                try note(device, ended: key, at: time)
            }
            return rows.rows == Self.slice
        }
    }

    private func removeExpired(at time: Int64) throws -> Bool {
        var isLeft = false
        for uses in SingleUses.allCases {
            let due = "FROM \(uses.table) WHERE expires_at <= $1"
            guard try run("SELECT 1::bigint \(due) LIMIT 1", [.integer(time)]).rows > 0 else { continue }
            let removed = try transaction(.changing) {
                let rows = try run(
                    "SELECT id, expires_at \(due) ORDER BY expires_at LIMIT \(Self.slice)", [.integer(time)])
                guard rows.rows > 0 else { return 0 }
                _ = try run(
                    "UPDATE store SET \(uses.removed) = greatest(\(uses.removed), $1)",
                    [.integer(try rows.integer(rows.rows - 1, 1))])
                _ = try run(
                    "DELETE FROM \(uses.table) WHERE id = ANY($1)",
                    [.bytesList((0..<rows.rows).map { rows.bytes($0, 0) })])
                return rows.rows
            }
            if removed == Self.slice { isLeft = true }
        }
        return isLeft
    }

    private func removeEndedCertificates(at time: Int64) throws -> Bool {
        let due = "FROM issued_certificate WHERE not_after <= $1"
        let until = DatabaseValue.integer(time - CertificateRecord.listedAfterEnd)
        guard try run("SELECT 1::bigint \(due) LIMIT 1", [until]).rows > 0 else { return false }
        return try transaction(.changing) {
            let rows = try run("SELECT serial \(due) ORDER BY not_after LIMIT \(Self.slice)", [until])
            _ = try run(
                "DELETE FROM issued_certificate WHERE serial = ANY($1)",
                [.bytesList((0..<rows.rows).map { rows.bytes($0, 0) })])
            return rows.rows == Self.slice
        }
    }

    /// A gateway that has not looked for so long finds a gap, and forgets what it knew.
    static let changeLife: Int64 = 3_600

    private func removeChanges(at time: Int64) throws -> Bool {
        let due = "FROM change WHERE changed_at <= $1"
        let until = DatabaseValue.integer(time - Self.changeLife)
        // The first is the oldest, but for clocks that differ.
        let oldest = try run("SELECT changed_at FROM change ORDER BY seq LIMIT 1")
        guard oldest.rows > 0, try oldest.integer(0, 0) <= time - Self.changeLife else { return false }
        return try transaction(.changing) {
            let rows = try run("SELECT seq \(due) ORDER BY seq LIMIT \(Self.slice)", [until])
            _ = try run(
                "DELETE FROM change WHERE seq = ANY($1)",
                [.integers(try (0..<rows.rows).map { try rows.integer($0, 0) })])
            return rows.rows == Self.slice
        }
    }

    /// Writes down values that are spent in memory, and may or may not be here.
    func pay(_ owed: [DeviceID: [UInt32]]) throws {
        for (device, values) in owed.sorted(by: { $0.key < $1.key }) {
            try transaction(.unordered) {
                let row = try run("SELECT highest, bits FROM counter WHERE device = $1 FOR UPDATE", [.device(device)])
                guard row.rows == 1 else { return }
                var window = try row.window(0, 0)
                // Further behind than the window reaches counts as spent anyway.
                for value in values { _ = window.accept(value, mode: .unspent) }
                _ = try run(
                    "UPDATE counter SET highest = $1, bits = $2 WHERE device = $3",
                    [.integer(Int64(window.highest)), .bytes(window.bits), .device(device)])
            }
        }
    }
}
