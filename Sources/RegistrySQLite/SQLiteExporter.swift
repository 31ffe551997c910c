internal import EventLoop
internal import struct Foundation.Data
internal import GRDB
internal import Registry
internal import Vocabulary

/// A reader of exports, page by page.
struct SQLiteExporter {
    private let store: RegistryStore

    init(_ store: RegistryStore) {
        self.store = store
    }

    /// Reads a page.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of rows.
    ///   - deadline: The time after which a page of devices ends. It has at least one device.
    ///   - time: The time of the export for the head, in seconds since 1970-01-01T00:00:00Z.
    func exportPage(
        from cursor: ExportCursor, limit: Int, until deadline: Instant, at time: Int64
    ) throws(StoreError) -> ExportPage {
        try store.read { database in
            var records: [ExportRecord] = []
            if cursor == .start { records.append(.head(try exportHead(database, time))) }
            let next: ExportCursor?
            if cursor.section == .devices {
                let (devices, last) = try exportDevices(after: cursor.device, limit, until: deadline, database)
                records += devices
                next = last.map { ExportCursor(behind: $0) } ?? ExportCursor(behind: .devices)
            } else {
                let (rows, last) = try exportRows(after: cursor, limit, database)
                records += rows
                next =
                    last.map { ExportCursor(section: cursor.section, after: $0) }
                    ?? ExportCursor(behind: cursor.section)
            }
            return ExportPage(store: store.identity.store, records: records, next: next)
        }
    }

    private func exportHead(_ database: Database, _ time: Int64) throws -> ExportHead {
        let sql = "SELECT revocation_list, tokens_removed, secret_check FROM store"
        guard let row = try Row.fetchOne(database, sql: sql) else { throw UnreadableRow(table: "store") }
        let check: Data? = row[2]
        return ExportHead(
            time: time, store: store.identity.store, revocationList: row[0], tokensRemoved: row[1],
            secretCheck: check.flatMap { Fingerprint(blob: $0) })
    }

    /// Reads devices.
    ///
    /// - Returns: The devices and the number of the last one. The number is nil if there are no more.
    private func exportDevices(
        after number: Int64, _ limit: Int, until deadline: Instant, _ database: Database
    ) throws -> ([ExportRecord], Int64?) {
        var records: [ExportRecord] = []
        var weight = 0
        let rows = try Row.fetchCursor(
            try database.cachedStatement(sql: Self.deviceQuery), arguments: [number])
        while let row = try rows.next() {
            let device = try exportedDevice(row, database)
            records.append(.device(device))
            weight += device.weight
            if records.count >= limit || weight >= ExportPage.weight || Instant.now >= deadline {
                return (records, row[0])
            }
        }
        return (records, nil)
    }

    private static let deviceQuery = """
        SELECT \(SharedSQL.deviceColumns), bits, digest, certificate_key, content, risk_metric, created_at, next_at,
            asked_at, outcome, failures, os_version
        FROM \(SharedSQL.deviceTables)
        LEFT JOIN attestation ON attestation.device = device.id LEFT JOIN receipt ON receipt.device = device.id
        WHERE device.id > ? ORDER BY device.id
        """

    private func exportedDevice(_ row: Row, _ database: Database) throws -> ExportedDevice {
        let device = try row.device(highest: nil)
        guard let stored = CounterWindow(highest: row[8], bits: [UInt8](row[13] as Data)) else {
            throw UnreadableRow(table: "counter")
        }
        let bindings = try Row.fetchAll(
            try database.cachedStatement(
                sql: "SELECT \(SharedSQL.bindingColumns) FROM binding WHERE device = ? ORDER BY created_at, key"),
            arguments: [device.id.number]
        ).map { try $0.binding() }
        return ExportedDevice(
            identity: device.identity, registeredAt: device.registeredAt, activatedAt: row[9],
            approvedAt: device.approvedAt, revokedAt: device.revokedAt, subject: device.subject, shown: device.shown,
            // The record in memory is ahead of the row while the journal has values of the device.
            window: store.devices.use(device.id)?.window ?? stored,
            bindings: bindings.map {
                ExportedBinding(key: $0.key, createdAt: $0.createdAt, endsAt: $0.endsAt, endedAt: $0.endedAt)
            },
            attestation: try attestation(row), receipt: try receipt(row))
    }

    private func attestation(_ row: Row) throws -> ExportedAttestation? {
        guard let digest: Data = row[14] else { return nil }
        let key: Data? = row[15]
        let certificateKey = key.flatMap(KeyID.init(blob:))
        guard let digest = Fingerprint(blob: digest), (key == nil) == (certificateKey == nil) else {
            throw UnreadableRow(table: "attestation")
        }
        return ExportedAttestation(
            digest: digest, certificateKey: certificateKey, systemVersion: try SystemVersion(stored: row[23]))
    }

    private func receipt(_ row: Row) throws -> ExportedReceipt? {
        guard let content: Data = row[16] else { return nil }
        let outcome: String? = row[21]
        return ExportedReceipt(
            content: [UInt8](content), riskMetric: row[17],
            refresh: ReceiptRefresh(
                createdAt: row[18], nextAt: row[19], askedAt: row[20],
                outcome: try outcome.map { text in
                    guard let outcome = ReceiptOutcome(rawValue: text) else { throw UnreadableRow(table: "receipt") }
                    return outcome
                }, failures: row[22]))
    }

    /// Reads rows of the sections after the devices.
    private func exportRows(
        after cursor: ExportCursor, _ limit: Int, _ database: Database
    ) throws -> ([ExportRecord], [UInt8]?) {
        let query = SharedSQL.exportQuery(cursor.section, parameters: ("?", "?", "?"))
        let after: StatementArguments =
            cursor.section == .barredKeys
            ? [cursor.barred.key.blob, cursor.barred.kind, limit] : [cursor.after.blob, limit]
        let rows = try Row.fetchAll(try database.cachedStatement(sql: query), arguments: after)
        var place: [UInt8]?
        let records = try rows.map { row -> ExportRecord in
            let key: Data = row[0]
            place = [UInt8](key)
            guard let record = try exportRecord(cursor.section, row) else { throw UnreadableRow(table: "of an export") }
            if case .barredKey(let barred) = record { place = barred.place }
            return record
        }
        return (records, rows.count == limit ? place : nil)
    }

    private func exportRecord(_ section: ExportSection, _ row: Row) throws -> ExportRecord? {
        let first = [UInt8](row[0] as Data)
        switch section {
        case .devices: return nil
        case .certificates:
            guard let serial = CertificateSerial(first), let key = KeyID(blob: row[1]) else { return nil }
            return .certificate(ExportedCertificate(serial: serial, key: key, notAfter: row[2]))
        case .usedTokens:
            return Fingerprint(first).map { .usedToken(SingleUse(id: $0, expiresAt: row[1])) }
        case .revokedSubjects:
            return Fingerprint(first).map { .revokedSubject($0, at: row[1]) }
        case .barredKeys:
            guard let key = KeyID(digest: first.span), let kind = BarredKeyKind(rawValue: row[1]) else { return nil }
            return .barredKey(BarredKey(key: key, kind: kind, barredAt: row[2]))
        }
    }
}
