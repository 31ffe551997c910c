internal import GRDB

// What may be used once: remembered for as long as it would be good.
extension RegistryStore {
    /// The two kinds, each with a table of its own.
    enum SingleUses: CaseIterable {
        case nonces
        case tokens

        fileprivate var table: String { self == .nonces ? "used_nonce" : "used_token" }
        /// Of `store`: the latest expiry that was removed from the table.
        fileprivate var removed: String { self == .nonces ? "nonces_removed" : "tokens_removed" }
    }

    enum SingleUseState {
        case unused
        case used
        case expired
    }

    func standing(
        of item: SingleUse, in uses: SingleUses, _ time: Int64, _ database: Database
    ) throws -> SingleUseState {
        let removed = try Int64.fetchOne(database, sql: "SELECT \(uses.removed) FROM store") ?? 0
        // A clock that went back must not bring back what was removed.
        guard item.expiresAt > max(time, removed) else { return .expired }
        let statement = try database.cachedStatement(sql: "SELECT 1 FROM \(uses.table) WHERE id = ?")
        return try Int.fetchOne(statement, arguments: [item.id.blob]) == nil ? .unused : .used
    }

    /// - Parameter item: an unused one. The table's key refuses any other.
    func markUsed(_ item: SingleUse, in uses: SingleUses, _ database: Database) throws {
        try database.cachedStatement(sql: "INSERT INTO \(uses.table) (id, expires_at) VALUES (?, ?)")
            .execute(arguments: [item.id.blob, item.expiresAt])
    }

    /// A word if no admission token passes for longer than any lives: one was removed when the clock was ahead.
    func refusedTokens(at time: Int64) throws(StoreOpenError) -> WitnessNotice? {
        do {
            let end = try read { try Int64.fetchOne($0, sql: "SELECT tokens_removed FROM store") ?? 0 }
            return WitnessNotice(tokensRefusedUntil: end, at: time)
        } catch {
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
    }

    /// Removes rows of what has expired: the oldest, at most so many of each kind. Writes nothing if there are none.
    ///
    /// - Returns: whether there are more.
    func removeExpired(at time: Int64, limit: Int = 500) throws(StoreError) -> Bool {
        var isLeft = false
        for uses in SingleUses.allCases {
            let expired = try read { database in
                try Int64.fetchAll(
                    try database.cachedStatement(
                        sql: "SELECT expires_at FROM \(uses.table) WHERE expires_at <= ? ORDER BY expires_at LIMIT ?"),
                    arguments: [time, limit])
            }
            guard let last = expired.last else { continue }
            try transaction { database in
                try database.execute(
                    sql: "UPDATE store SET \(uses.removed) = max(\(uses.removed), ?)", arguments: [last])
                try database.execute(
                    sql: """
                        DELETE FROM \(uses.table) WHERE id IN (
                            SELECT id FROM \(uses.table) WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)
                        """, arguments: [last, limit])
            }
            if expired.count == limit { isLeft = true }
        }
        return isLeft
    }
}
