internal import EventLoop
internal import GRDB
public import Registry
internal import Vocabulary

/// An import into a file. Each record has its own statements, because there are no round trips to save.
final class SQLiteLoader {
    private let database: Database
    private var head: ExportHead?

    private init(_ database: Database) {
        self.database = database
    }

    /// Imports an export in one transaction.
    ///
    /// - Parameters:
    ///   - time: The current time, in seconds since 1970-01-01T00:00:00Z.
    ///   - fill: Adds the records in order, starting with the head. If it throws, the transaction is rolled back.
    /// - Returns: The new identity of the store.
    static func load(
        into store: RegistryStore, at time: Int64, _ fill: (RegistryLoading) throws(RegistryLoadError) -> Void
    ) throws(RegistryLoadError) -> StoreIdentity {
        let identity = StoreIdentity(store: RandomID(), epoch: RandomID())
        var reason: RegistryLoadError?
        do throws(StoreError) {
            try store.transaction { database in
                do {
                    let isEmpty = try Int.fetchOne(database, sql: "SELECT 1 FROM device LIMIT 1") == nil
                    guard isEmpty else { throw RegistryLoadError.notEmpty }
                    let loader = SQLiteLoader(database)
                    let loading = RegistryLoading(at: time) { record, line throws(RegistryLoadError) in
                        do { try loader.add(record, line: line) } catch let error as RegistryLoadError {
                            throw error
                        } catch {
                            throw .failed(StoreFault(error).detail)
                        }
                    }
                    try fill(loading)
                    try loader.finish(identity, at: time)
                } catch let error as RegistryLoadError {
                    // Any refusal rolls the transaction back and keeps the connection. The reason is thrown below.
                    reason = error
                    throw StoreError.keyRegistered
                }
            }
        } catch {
            throw reason ?? .failed(store.lastFault ?? "\(store.path): \(error)")
        }
        store.adopt(identity)
        // The log has the size of the export.
        do throws(StoreError) { try store.moveLog() } catch {
            throw .failed(store.lastFault ?? "\(store.path): \(error)")
        }
        // As at a start, a witness with other revocations finds another store and repeats them in it.
        do throws(StoreOpenError) { try store.reopen() } catch {
            throw .failed("everything was imported, but the registry cannot be reopened: \(error)")
        }
        return store.identity
    }

    // MARK: - Records

    private func add(_ record: ExportRecord, line: Int) throws {
        switch record {
        case .head(let head): self.head = head
        case .device(let device): try insert(device, line)
        case .certificate(let certificate):
            // The key was bound after its device had been exported, so the certificate is left out like the binding.
            try run(
                """
                INSERT INTO issued_certificate (serial, binding, not_after)
                SELECT ?, key, ? FROM binding WHERE key = ?
                """, [certificate.serial.bytes.blob, certificate.notAfter, certificate.key.blob])
        case .usedToken(let token):
            try run(
                "INSERT INTO used_token (id, expires_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
                [token.id.blob, token.expiresAt])
        case .revokedSubject(let subject, let time):
            try run(
                "INSERT INTO revoked_subject (subject, revoked_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
                [subject.blob, time])
        case .barredKey(let barred):
            try run(
                "INSERT INTO barred_key (key, kind, barred_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [barred.key.blob, barred.kind.rawValue, barred.barredAt])
        case .end: break
        }
    }

    private func run(_ sql: String, _ arguments: StatementArguments) throws {
        try database.cachedStatement(sql: sql).execute(arguments: arguments)
    }

    private func isThere(_ sql: String, _ key: KeyID) throws -> Bool {
        try Int.fetchOne(try database.cachedStatement(sql: sql), arguments: [key.blob]) != nil
    }

    private func insert(_ device: ExportedDevice, _ line: Int) throws {
        let identity = device.identity
        if try isThere("SELECT 1 FROM device WHERE hardware_key = ?", identity.hardwareKey) {
            throw RegistryLoadError.refused(line: line, .hardwareKeyTwice)
        }
        try run(
            """
            INSERT INTO device (
                hardware_key, app, platform, environment, point, registered_at, activated_at, approved_at, revoked_at,
                subject, shown_extensions)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                identity.hardwareKey.blob, identity.app.description, identity.platform.rawValue,
                identity.environment.rawValue, identity.point.bytes.blob, device.registeredAt, device.activatedAt,
                device.approvedAt, device.revokedAt, device.subject?.blob, device.shown.rawValue,
            ])
        let number = database.lastInsertedRowID
        try run(
            "INSERT INTO counter (device, highest, bits) VALUES (?, ?, ?)",
            [number, device.window.highest, device.window.bits.blob])
        for binding in device.bindings {
            if try isThere("SELECT 1 FROM binding WHERE key = ?", binding.key) {
                throw RegistryLoadError.refused(line: line, .bindingKeyTwice)
            }
            try run(
                "INSERT INTO binding (key, device, created_at, ended_at, ends_at) VALUES (?, ?, ?, ?, ?)",
                [binding.key.blob, number, binding.createdAt, binding.endedAt, binding.endsAt])
        }
        if let attestation = device.attestation {
            try run(
                "INSERT INTO attestation (device, digest, certificate_key, os_version) VALUES (?, ?, ?, ?)",
                [
                    number, attestation.digest.blob, attestation.certificateKey?.blob,
                    attestation.systemVersion?.description,
                ])
        }
        if let receipt = device.receipt {
            try run(
                """
                INSERT INTO receipt (
                    device, risk_metric, created_at, next_at, asked_at, outcome, failures, content)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """,
                [
                    number, receipt.riskMetric, receipt.refresh.createdAt, receipt.refresh.nextAt,
                    receipt.refresh.askedAt, receipt.refresh.outcome?.rawValue, receipt.refresh.failures,
                    receipt.content.blob,
                ])
        }
    }

    /// Completes the import. Keys that the store barred before stay barred. Earlier challenges, nonces and tokens are
    /// refused.
    private func finish(_ identity: StoreIdentity, at time: Int64) throws {
        try database.execute(
            sql: """
                UPDATE device SET revoked_at = ?
                WHERE revoked_at IS NULL AND hardware_key IN (SELECT key FROM barred_key WHERE kind = 'hardware')
                """, arguments: [time])
        try database.execute(
            sql: """
                UPDATE binding SET ended_at = ?
                WHERE ended_at IS NULL AND key IN (SELECT key FROM barred_key WHERE kind = 'mtls')
                """, arguments: [time])
        try database.execute(
            sql: """
                UPDATE store SET id = ?, epoch = ?, epoch_number = epoch_number + 1, nonces_removed = 0,
                    tokens_removed = max(tokens_removed, ?, ?), revocation_list = max(revocation_list, ?),
                    secret_check = ?, is_loading = 0
                """,
            arguments: [
                identity.store.bytes.blob, identity.epoch.bytes.blob, head?.tokensRefused(at: time) ?? 0,
                time + SingleUse.longestTokenLife, head?.revocationList ?? 0,
                head?.secretCheck?.blob,
            ])
        try database.execute(sql: "DELETE FROM used_nonce")
    }
}

extension RegistryStore: RegistryAtRest {
    public func exportPage(from cursor: ExportCursor, at time: Int64) throws(RegistryLoadError) -> ExportPage {
        do throws(StoreError) {
            // Only the caller waits.
            return try SQLiteExporter(self).exportPage(
                from: cursor, limit: ExportPage.rows, until: .now + .seconds(1), at: time)
        } catch {
            throw .failed("\(path): \(lastFault ?? "\(error)")")
        }
    }

    public func otherUsers() throws(RegistryLoadError) -> Int { 0 }

    public func load(
        at time: Int64, _ fill: (RegistryLoading) throws(RegistryLoadError) -> Void
    ) throws(RegistryLoadError) {
        _ = try SQLiteLoader.load(into: self, at: time, fill)
    }
}
