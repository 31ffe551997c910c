public import EventLoop
internal import GRDB
internal import Vocabulary

// Who may come in, and for how long. Times are seconds since 1970-01-01T00:00:00Z.
extension RegistryStore {
    /// Lets a pending device bind its first key. One that is approved or active stays as it is.
    public func approve(_ device: DeviceID, at time: Int64 = WallClock.seconds) throws(StoreError) -> DeviceDetails {
        try transaction { database in
            guard try existing(device, database).device.state != .revoked else { throw StoreError.deviceRevoked }
            try database.execute(
                sql: """
                    UPDATE device SET approved_at = ? WHERE id = ? AND approved_at IS NULL AND activated_at IS NULL
                    """, arguments: [time, device.number])
            return try existing(device, database)
        }
    }

    /// Revokes all devices that were admitted for somebody, and bars new ones, for good.
    ///
    /// - Returns: the devices that were not revoked before.
    public func revokeSubject(
        _ subject: Fingerprint, at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> [DeviceDetails] {
        let revoked = try transaction { database in
            try database.execute(
                sql: "INSERT OR IGNORE INTO revoked_subject (subject, revoked_at) VALUES (?, ?)",
                arguments: [subject.blob, time])
            let numbers = try Int64.fetchAll(
                database, sql: "SELECT id FROM device WHERE subject = ? AND revoked_at IS NULL ORDER BY id",
                arguments: [subject.blob])
            try database.execute(
                sql: "UPDATE device SET revoked_at = ? WHERE subject = ? AND revoked_at IS NULL",
                arguments: [time, subject.blob])
            try raiseStanding(database)
            return try numbers.compactMap(DeviceID.init).map { try existing($0, database) }
        }
        // Records change after the transaction only: it may still fail.
        for details in revoked { devices.update(details.device.id) { $0.isRevoked = true } }
        attest([.barred(subject, at: time)] + revoked.flatMap { WitnessEntry.all(of: $0, at: time) })
        return revoked
    }

    func isRevoked(_ subject: Fingerprint, _ database: Database) throws -> Bool {
        let statement = try database.cachedStatement(sql: "SELECT 1 FROM revoked_subject WHERE subject = ?")
        return try Int.fetchOne(statement, arguments: [subject.blob]) != nil
    }

    /// Ends bindings whose time has come: at most so many. Writes nothing if there are none.
    ///
    /// Written down, not only computed from the time: a clock that goes back brings no binding back.
    ///
    /// - Returns: their keys; if as many as the limit, there may be more.
    func endDueBindings(at time: Int64, limit: Int) throws(StoreError) -> [KeyID] {
        let due = try read { database in
            try Row.fetchAll(
                try database.cachedStatement(
                    sql: """
                        SELECT key FROM binding WHERE ends_at IS NOT NULL AND ended_at IS NULL AND ends_at <= ?
                        ORDER BY ends_at LIMIT ?
                        """),
                arguments: [time, limit]
            )
            .map { row in
                guard let key = KeyID(blob: row[0]) else { throw UnreadableRow(table: "binding") }
                return key
            }
        }
        guard !due.isEmpty else { return [] }
        try transaction { database in
            let statement = try database.cachedStatement(
                sql: "UPDATE binding SET ended_at = ends_at WHERE key = ? AND ended_at IS NULL")
            for key in due { try statement.execute(arguments: [key.blob]) }
        }
        for key in due { bindings.update(key) { $0.isActive = false } }
        return due
    }
}
