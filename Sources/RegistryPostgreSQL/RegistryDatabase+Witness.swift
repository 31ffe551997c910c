internal import Registry
internal import RevocationJournal
internal import Vocabulary

// The interface for the witness of this gateway.
extension RegistryDatabase: WitnessedStore {
    /// The progress of a database as read from it.
    struct FoundProgress {
        let progress: StoreProgress
        let isJournaled: Bool
        /// Whether the database is not the one in which its epoch was drawn.
        let hasMoved: Bool

        func progress(at position: Int64) -> StoreProgress {
            StoreProgress(
                store: progress.store, lineage: progress.lineage, position: position, standing: progress.standing,
                epochNumber: progress.epochNumber)
        }
    }

    func readProgress() throws -> FoundProgress {
        let row = try run(
            """
            SELECT \(LogPosition.columns(kind)), last, epoch_number, is_journaled, mark, id FROM store CROSS JOIN feed
            """)
        guard row.rows == 1, let store = RandomID(row.bytes(0, 6)) else { throw UnreadableRow(table: "store") }
        return FoundProgress(
            progress: StoreProgress(
                store: store, lineage: mark, position: try row.integer(0, 0), standing: try row.integer(0, 2),
                epochNumber: try row.integer(0, 3)),
            isJournaled: try row.integer(0, 4) != 0,
            hasMoved: !row.isNull(0, 5) && row.optionalText(0, 5) != mark)
    }

    func standing() throws -> Int64 { try readProgress().progress.standing }

    func becomeJournaled() throws {
        try transaction(.unordered) { _ = try run("UPDATE store SET is_journaled = 1") }
    }

    private static let slice = 2_000

    func eachRevocation(_ body: ([WitnessEntry]) -> Void) throws {
        var last: Int64 = 0
        while true {
            let rows = try run(
                """
                SELECT hardware_key, revoked_at, id FROM device WHERE id > $1 AND revoked_at IS NOT NULL
                ORDER BY id LIMIT \(Self.slice)
                """, [.integer(last)])
            body(try (0..<rows.rows).map { .revoked(try rows.key($0, 0, "device"), at: try rows.integer($0, 1)) })
            guard rows.rows == Self.slice else { break }
            last = try rows.integer(rows.rows - 1, 2)
        }
        try eachKey(
            "SELECT key, barred_at FROM barred_key WHERE key > $1 AND kind = 'hardware' ORDER BY key",
            { .revoked($0, at: $1) }, body)
        try eachKey(
            """
            SELECT key, coalesce(ended_at, ends_at) FROM binding
            WHERE key > $1 AND (ended_at IS NOT NULL OR ends_at IS NOT NULL) ORDER BY key
            """, { .ended($0, at: $1) }, body)
        try eachKey(
            "SELECT key, barred_at FROM barred_key WHERE key > $1 AND kind = 'mtls' ORDER BY key",
            { .ended($0, at: $1) }, body)
        body(try barredSubjects())
    }

    /// Returns all barred people. There are few, because operators bar them.
    func barredSubjects() throws -> [WitnessEntry] {
        let rows = try run("SELECT subject, revoked_at FROM revoked_subject")
        return try (0..<rows.rows).map { row in
            guard let subject = Fingerprint(rows.bytes(row, 0)) else { throw UnreadableRow(table: "revoked_subject") }
            return .barred(subject, at: try rows.integer(row, 1))
        }
    }

    private func eachKey(
        _ sql: String, _ entry: (KeyID, Int64) -> WitnessEntry, _ body: ([WitnessEntry]) -> Void
    ) throws {
        var last: [UInt8] = []
        while true {
            let rows = try run("\(sql) LIMIT \(Self.slice)", [.bytes(last)])
            body(try (0..<rows.rows).map { entry(try rows.key($0, 0, "barred_key"), try rows.integer($0, 1)) })
            guard rows.rows == Self.slice else { return }
            last = rows.bytes(rows.rows - 1, 0)
        }
    }

    // MARK: - Entries that the database lacks

    func replay(_ entries: [WitnessEntry], at time: Int64) throws {
        let devices = DatabaseDevices(self)
        try transaction(.changing) {
            for entry in try lacking(entries, at: time) {
                switch entry {
                case .revoked(let key, let then):
                    if let device = try devices.device(withHardwareKey: key) {
                        try devices.revokeRow(device, then)
                    } else {
                        try bar(key, .hardware, then)
                    }
                case .restored: break
                case .ended(let key, let end):
                    if let device = try devices.device(ofBinding: key) {
                        try self.end(key, of: device, end, time)
                    } else {
                        try bar(key, .mTLS, end)
                    }
                case .barred(let subject, let then): _ = try devices.revokeSubjectRows(subject, then)
                }
            }
        }
    }

    /// Returns the entries that change something. It asks once for each kind, because most entries are known.
    private func lacking(_ entries: [WitnessEntry], at time: Int64) throws -> [WitnessEntry] {
        var keys: [BarredKeyKind: [[UInt8]]] = [:]
        for entry in entries {
            switch entry {
            case .revoked(let key, _): keys[.hardware, default: []].append(key.bytes)
            case .ended(let key, _): keys[.mTLS, default: []].append(key.bytes)
            default: break
            }
        }
        let barred = "SELECT key FROM barred_key WHERE key = ANY($1)"
        let revoked = try known(
            "SELECT hardware_key FROM device WHERE hardware_key = ANY($1) AND revoked_at IS NOT NULL "
                + "UNION ALL \(barred) AND kind = 'hardware'", keys[.hardware])
        let ended = try known(
            "SELECT key FROM binding WHERE key = ANY($1) AND ended_at IS NOT NULL UNION ALL \(barred) AND kind = 'mtls'",
            keys[.mTLS])
        return entries.filter { entry in
            switch entry {
            case .revoked(let key, _): !revoked.contains(key)
            case .ended(let key, _): !ended.contains(key)
            case .restored: false
            case .barred: true
            }
        }
    }

    private func known(_ sql: String, _ keys: [[UInt8]]?) throws -> Set<KeyID> {
        guard let keys else { return [] }
        let rows = try run(sql, [.bytesList(keys)])
        return Set(try (0..<rows.rows).map { try rows.key($0, 0, "device") })
    }

    /// Sets the end of a binding. A binding that ends earlier is not prolonged.
    private func end(_ key: KeyID, of device: DeviceID, _ end: Int64, _ time: Int64) throws {
        guard end > time else {
            let ended = try run(
                "UPDATE binding SET ended_at = $1 WHERE key = $2 AND ended_at IS NULL", [.integer(end), .key(key)])
            guard ended.changed == 1 else { return }
            try changeStanding(of: device)
            return try note(device, ended: key, at: time)
        }
        let shortened = try run(
            """
            UPDATE binding SET ends_at = $1 WHERE key = $2 AND ended_at IS NULL AND (ends_at IS NULL OR ends_at > $1)
            """, [.integer(end), .key(key)])
        if shortened.changed == 1 { try note(device, at: time) }
    }

    private func bar(_ key: KeyID, _ kind: BarredKeyKind, _ time: Int64) throws {
        _ = try run(
            "INSERT INTO barred_key (key, kind, barred_at) VALUES ($1, $2, $3) ON CONFLICT (key, kind) DO NOTHING",
            [.key(key), .text(kind.rawValue), .integer(time)])
    }
}
