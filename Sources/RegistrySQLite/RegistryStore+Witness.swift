internal import EventLoop
internal import struct Foundation.Data
internal import GRDB
internal import Registry
internal import RevocationJournal
internal import Vocabulary

// How the store in a file stands to its witness.
extension RegistryStore: WitnessedStore {
    /// Makes entries durable in the journal after the store has made their changes durable.
    func attest(_ entries: [WitnessEntry]) {
        witness?.append(entries)
        markProgress(isSynced: false)
    }

    /// Marks the progress of the store. Does nothing while the store is unavailable.
    func markProgress(isSynced: Bool) {
        guard let witness, isCompared, let progress = try? progress() else { return }
        witness.mark(progress, isSynced: isSynced)
    }

    /// Updates the witness, each half second.
    func tickWitness() throws(StoreError) {
        guard let witness else { return }
        witness.tick(try progress())
    }

    private func progress() throws(StoreError) -> StoreProgress {
        let found = try read(WitnessedProgress.init)
        var progress = found.progress(at: journal.position)
        progress.inFile = inFile
        return progress
    }

    /// Records a change of the validity of devices or bindings.
    func raiseStanding(_ database: Database) throws {
        try database.cachedStatement(sql: "UPDATE store SET standing = standing + 1").execute()
    }

    /// Compares the found progress with the witness and advances the position. An earlier copy of the file then differs
    /// even if nothing else is ever written.
    func reconcile(_ found: WitnessedProgress) throws(StoreOpenError) {
        guard let witness else { return }
        do {
            compared()
            let number = try witness.reconcile(
                self, found.progress(at: found.position), isJournaled: found.isJournaled, mayJoin: false)
            // As after an import, it is unknown which tokens were used since.
            if let number {
                try renewEpoch(
                    numbered: number, refusingTokensUntil: WallClock.seconds + SingleUse.longestTokenLife)
            }
            try writing { try journal.advance($0) }
            // At once, for a journal without its mark is taken for one that has lost it.
            witness.mark(try progress(), isSynced: true)
            // The earlier log was moved into the file: its mark is nothing to compare with.
            try moveLog()
            witness.mark(try progress(), isSynced: false)
        } catch let error as StoreOpenError {
            abandon()
            throw error
        } catch {
            abandon()
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
    }

    /// Draws a fresh epoch for a process that starts: if the file was set back without notice, no proof that was used before
    /// passes again. Durable when it returns.
    func beginEpoch() throws(StoreOpenError) {
        do throws(StoreError) { try renewEpoch(numbered: 0, refusingTokensUntil: 0) } catch {
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
    }

    // MARK: - What the witness asks

    func standing() throws -> Int64 { try read(WitnessedProgress.init).standing }

    func becomeJournaled() throws {
        try transaction { try $0.execute(sql: "UPDATE store SET is_journaled = 1") }
    }

    func eachRevocation(_ body: ([WitnessEntry]) -> Void) throws {
        try read { database in
            try each(
                """
                SELECT hardware_key, revoked_at FROM device WHERE revoked_at IS NOT NULL
                UNION ALL SELECT key, barred_at FROM barred_key WHERE kind = 'hardware'
                """, database, { KeyID(blob: $0) }, { .revoked($0, at: $1) }, body)
            try each(
                """
                SELECT key, coalesce(ended_at, ends_at) FROM binding WHERE ended_at IS NOT NULL OR ends_at IS NOT NULL
                UNION ALL SELECT key, barred_at FROM barred_key WHERE kind = 'mtls'
                """, database, { KeyID(blob: $0) }, { .ended($0, at: $1) }, body)
            try each(
                "SELECT subject, revoked_at FROM revoked_subject", database, { Fingerprint(blob: $0) },
                { .barred($0, at: $1) }, body)
        }
    }

    private func each<Key>(
        _ sql: String, _ database: Database, _ key: (Data) -> Key?, _ entry: (Key, Int64) -> WitnessEntry,
        _ body: ([WitnessEntry]) -> Void
    ) throws {
        var slice: [WitnessEntry] = []
        let rows = try Row.fetchCursor(database, sql: sql)
        while let row = try rows.next() {
            guard let key = key(row[0]) else { throw UnreadableRow(table: "barred_key") }
            slice.append(entry(key, row[1]))
            guard slice.count == 1_000 else { continue }
            body(slice)
            slice = []
        }
        body(slice)
    }

    func replay(_ entries: [WitnessEntry], at time: Int64) throws {
        var revoked: [DeviceID] = []
        try transaction { database in
            for entry in entries {
                switch entry {
                case .revoked(let key, let time): revoked += try revoke(key, time, database)
                case .restored: break
                case .ended(let key, let end):
                    try end > time ? shorten(key, end, database) : self.end(key, end, database)
                case .barred(let subject, let time): revoked += try bar(subject, time, database)
                }
            }
        }
        for device in revoked { devices.update(device) { $0.isRevoked = true } }
        bindings.removeAll { _ in true }
    }

    private func revoke(_ key: KeyID, _ time: Int64, _ database: Database) throws -> [DeviceID] {
        guard let device = try device(withHardwareKey: key, database) else {
            try bar(key, .hardware, time, database)
            return []
        }
        let statement = try database.cachedStatement(
            sql: "UPDATE device SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL")
        try statement.execute(arguments: [time, device.number])
        if database.changesCount > 0 { try raiseStanding(database) }
        return [device]
    }

    private func end(_ key: KeyID, _ end: Int64, _ database: Database) throws {
        guard try binding(of: key, database) != nil else { return try bar(key, .mTLS, end, database) }
        let statement = try database.cachedStatement(
            sql: "UPDATE binding SET ended_at = ? WHERE key = ? AND ended_at IS NULL")
        try statement.execute(arguments: [end, key.blob])
        if database.changesCount > 0 { try raiseStanding(database) }
    }

    /// Shortens a binding. A binding that ends earlier is not prolonged.
    private func shorten(_ key: KeyID, _ end: Int64, _ database: Database) throws {
        guard try binding(of: key, database) != nil else { return try bar(key, .mTLS, end, database) }
        let statement = try database.cachedStatement(
            sql: """
                UPDATE binding SET ends_at = ?
                WHERE key = ? AND ended_at IS NULL AND (ends_at IS NULL OR ends_at > ?)
                """)
        try statement.execute(arguments: [end, key.blob, end])
        if database.changesCount > 0 { try raiseStanding(database) }
    }

    private func bar(_ key: KeyID, _ kind: BarredKeyKind, _ time: Int64, _ database: Database) throws {
        try database.cachedStatement(sql: "INSERT OR IGNORE INTO barred_key (key, kind, barred_at) VALUES (?, ?, ?)")
            .execute(arguments: [key.blob, kind.rawValue, time])
        if database.changesCount > 0 { try raiseStanding(database) }
    }

    private func bar(_ subject: Fingerprint, _ time: Int64, _ database: Database) throws -> [DeviceID] {
        try database.cachedStatement(sql: "INSERT OR IGNORE INTO revoked_subject (subject, revoked_at) VALUES (?, ?)")
            .execute(arguments: [subject.blob, time])
        if database.changesCount > 0 { try raiseStanding(database) }
        let devices = try Int64.fetchAll(
            database, sql: "SELECT id FROM device WHERE subject = ? AND revoked_at IS NULL", arguments: [subject.blob]
        ).compactMap(DeviceID.init)
        try database.execute(
            sql: "UPDATE device SET revoked_at = ? WHERE subject = ? AND revoked_at IS NULL",
            arguments: [time, subject.blob])
        return devices
    }
}

/// The progress of a file as read from it.
struct WitnessedProgress {
    let store: RandomID
    /// The greatest number of all changes.
    let position: Int64
    let standing: Int64
    let epochNumber: Int64
    let isJournaled: Bool

    init(_ database: Database) throws {
        let statement = try database.cachedStatement(
            sql: """
                SELECT id, max(position, coalesce((SELECT max(seq) FROM journal), 0)), standing, epoch_number, is_journaled
                FROM store
                """)
        guard let row = try Row.fetchOne(statement), let store = RandomID([UInt8](row[0] as Data)) else {
            throw UnreadableRow(table: "store")
        }
        self.store = store
        (position, standing, epochNumber, isJournaled) = (row[1], row[2], row[3], row[4])
    }

    func progress(at position: Int64) -> StoreProgress {
        StoreProgress(store: store, lineage: "", position: position, standing: standing, epochNumber: epochNumber)
    }
}
