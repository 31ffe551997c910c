internal import Registry

/// Expiry in the database, in slices. Any gateway may do it. Times are in seconds since 1970-01-01T00:00:00Z.
struct DatabaseUpkeep {
    private let database: RegistryDatabase

    init(_ database: RegistryDatabase) {
        self.database = database
    }

    private static let slice = 256

    /// Expires a slice. Nothing is written if nothing is due.
    ///
    /// - Returns: Whether there may be more.
    func expire(at time: Int64) throws -> Bool {
        let ended = try isMoreLeft(UpkeepRules.endDueBindings(at: time, limit: Self.slice), time)
        // The clock of the database is the upper limit, so that a gateway whose clock is ahead does not make others
        // refuse valid tokens. Ending bindings early is the lesser harm.
        let time = min(time, try database.clock())
        let nonces = try isMoreLeft(UpkeepRules.removeUsed(.nonce, at: time, limit: Self.slice), time)
        let tokens = try isMoreLeft(UpkeepRules.removeUsed(.token, at: time, limit: Self.slice), time)
        let certificates = try isMoreLeft(UpkeepRules.removeCertificates(at: time, limit: Self.slice), time)
        let federation = try isMoreLeft(UpkeepRules.removeTokens(at: time, limit: Self.slice), time)
        let changes = try removeChanges(at: time)
        return ended || nonces || tokens || certificates || federation || changes
    }

    private func isMoreLeft(_ rule: StoreRule<UpkeepResult>, _ time: Int64) throws -> Bool {
        try database.decide(rule, at: time).isMoreLeft
    }

    /// The time for which changes are kept, in seconds. A gateway that did not look for that long finds a gap and
    /// reloads everything.
    private static let changeLife: Int64 = 3_600

    private func removeChanges(at time: Int64) throws -> Bool {
        let due = "FROM change WHERE changed_at <= $1"
        let until = SQLValue.integer(time - Self.changeLife)
        // The first change is the oldest, apart from differences between clocks.
        let oldest = try database.run("SELECT changed_at FROM change ORDER BY seq LIMIT 1")
        guard oldest.rows > 0, try oldest.integer(0, 0) <= time - Self.changeLife else { return false }
        return try database.transaction(.changing) {
            let rows = try database.run("SELECT seq \(due) ORDER BY seq LIMIT \(Self.slice)", [until])
            _ = try database.run(
                "DELETE FROM change WHERE seq = ANY($1)",
                [.integers(try (0..<rows.rows).map { try rows.integer($0, 0) })])
            return rows.rows == Self.slice
        }
    }
}
