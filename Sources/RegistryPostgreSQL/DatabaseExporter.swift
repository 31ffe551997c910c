internal import Registry
internal import Vocabulary

/// A reader of exports, page by page. Each page is read in one transaction.
struct DatabaseExporter {
    private let database: RegistryDatabase

    init(_ database: RegistryDatabase) {
        self.database = database
    }

    /// Reads a page.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of rows.
    ///   - time: The time of the export for the head, in seconds since 1970-01-01T00:00:00Z.
    func exportPage(from cursor: ExportCursor, limit: Int, at time: Int64) throws -> ExportPage {
        try database.transaction(.reading) {
            let store = try database.run("SELECT id, revocation_list, tokens_removed, secret_check FROM store")
            guard store.rows == 1, let id = RandomID(store.bytes(0, 0)) else { throw UnreadableRow(table: "store") }
            var records: [ExportRecord] = []
            if cursor == .start {
                records.append(
                    .head(
                        ExportHead(
                            time: time, store: id, revocationList: try store.integer(0, 1),
                            tokensRemoved: try store.integer(0, 2),
                            secretCheck: store.optionalBytes(0, 3).flatMap(Fingerprint.init))))
            }
            let next: ExportCursor?
            if cursor.section == .devices {
                let (devices, last) = try exportDevices(after: cursor.device, limit)
                records += devices.map { .device($0) }
                next = last.map { ExportCursor(behind: $0) } ?? ExportCursor(behind: .devices)
            } else {
                let (rows, last) = try exportRows(after: cursor, limit)
                records += rows
                next =
                    last.map { ExportCursor(section: cursor.section, after: $0) }
                    ?? ExportCursor(behind: cursor.section)
            }
            return ExportPage(store: id, records: records, next: next)
        }
    }

    /// Reads devices.
    ///
    /// - Returns: The devices and the number of the last one. The number is nil if there are no more.
    private func exportDevices(after number: Int64, _ limit: Int) throws -> ([ExportedDevice], Int64?) {
        let rows = try database.run(
            """
            SELECT \(SharedSQL.deviceColumns), bits, digest, certificate_key, content, risk_metric, created_at,
                next_at, asked_at, outcome, failures, os_version
            FROM \(SharedSQL.deviceTables)
            LEFT JOIN attestation ON attestation.device = device.id LEFT JOIN receipt ON receipt.device = device.id
            WHERE device.id > $1 ORDER BY device.id LIMIT $2
            """, [.integer(number), .integer(Int64(limit))])
        var devices = try (0..<rows.rows).map { try exportedDevice(rows, $0) }
        let numbers = try (0..<rows.rows).map { try rows.integer($0, 0) }
        try addBindings(to: &devices, numbers)
        var weight = 0
        // A page has at least one device.
        let count = devices.prefix { device in
            defer { weight += device.weight }
            return weight < ExportPage.weight
        }.count
        let isLeft = count < devices.count || devices.count == limit
        return (Array(devices.prefix(count)), isLeft ? numbers.prefix(count).last : nil)
    }

    private func exportedDevice(_ rows: DatabaseResult, _ row: Int) throws -> ExportedDevice {
        let device = try rows.device(row)
        guard let window = CounterWindow(highest: device.highestCounter, bits: rows.bytes(row, 13)) else {
            throw UnreadableRow(table: "counter")
        }
        return ExportedDevice(
            identity: device.identity, registeredAt: device.registeredAt, activatedAt: try rows.optionalInteger(row, 9),
            approvedAt: device.approvedAt, revokedAt: device.revokedAt, subject: device.subject, shown: device.shown,
            window: window, bindings: [], attestation: try attestation(rows, row), receipt: try receipt(rows, row))
    }

    private func addBindings(to devices: inout [ExportedDevice], _ numbers: [Int64]) throws {
        let places = Dictionary(uniqueKeysWithValues: zip(numbers, devices.indices))
        let rows = try database.run(
            "SELECT \(SharedSQL.bindingColumns) FROM binding WHERE device = ANY($1) ORDER BY device, created_at, key",
            [.integers(numbers)])
        for row in 0..<rows.rows {
            let binding = try rows.binding(row)
            guard let place = places[binding.device.number] else { throw UnreadableRow(table: "binding") }
            devices[place].bindings.append(
                ExportedBinding(
                    key: binding.key, createdAt: binding.createdAt, endsAt: binding.endsAt, endedAt: binding.endedAt))
        }
    }

    private func attestation(_ rows: DatabaseResult, _ row: Int) throws -> ExportedAttestation? {
        guard let bytes = rows.optionalBytes(row, 14) else { return nil }
        guard let digest = Fingerprint(bytes) else { throw UnreadableRow(table: "attestation") }
        let key = try rows.isNull(row, 15) ? nil : rows.key(row, 15, "attestation")
        return ExportedAttestation(
            digest: digest, certificateKey: key, systemVersion: try SystemVersion(stored: rows.optionalText(row, 23)))
    }

    private func receipt(_ rows: DatabaseResult, _ row: Int) throws -> ExportedReceipt? {
        guard let content = rows.optionalBytes(row, 16) else { return nil }
        return ExportedReceipt(
            content: content, riskMetric: try rows.isNull(row, 17) ? nil : rows.uint32(row, 17, "receipt"),
            refresh: ReceiptRefresh(
                createdAt: try rows.optionalInteger(row, 18), nextAt: try rows.optionalInteger(row, 19),
                askedAt: try rows.optionalInteger(row, 20),
                outcome: try rows.optionalText(row, 21).map { text in
                    guard let outcome = ReceiptOutcome(rawValue: text) else { throw UnreadableRow(table: "receipt") }
                    return outcome
                }, failures: Int(try rows.integer(row, 22))))
    }

    /// Reads rows of the sections after the devices.
    private func exportRows(after cursor: ExportCursor, _ limit: Int) throws -> ([ExportRecord], [UInt8]?) {
        let after: [DatabaseValue] =
            cursor.section == .barredKeys
            ? [.bytes(cursor.barred.key), .text(cursor.barred.kind)] : [.bytes(cursor.after)]
        let rows = try database.run(
            SharedSQL.exportQuery(cursor.section, parameters: ("$1", "$2", "$3")), after + [.integer(Int64(limit))])
        let records = try (0..<rows.rows).map { try exportRecord(cursor.section, rows, $0) }
        guard rows.rows == limit, let last = records.last else { return (records, nil) }
        if case .barredKey(let barred) = last { return (records, barred.place) }
        return (records, rows.bytes(limit - 1, 0))
    }

    private func exportRecord(_ section: ExportSection, _ rows: DatabaseResult, _ row: Int) throws -> ExportRecord {
        let first = rows.bytes(row, 0)
        switch section {
        case .devices: break
        case .certificates:
            guard let serial = CertificateSerial(first) else { break }
            return .certificate(
                ExportedCertificate(
                    serial: serial, key: try rows.key(row, 1, "issued_certificate"), notAfter: try rows.integer(row, 2))
            )
        case .usedTokens:
            guard let id = Fingerprint(first) else { break }
            return .usedToken(SingleUse(id: id, expiresAt: try rows.integer(row, 1)))
        case .revokedSubjects:
            guard let subject = Fingerprint(first) else { break }
            return .revokedSubject(subject, at: try rows.integer(row, 1))
        case .barredKeys:
            guard let kind = BarredKeyKind(rawValue: rows.text(row, 1)) else { break }
            return .barredKey(
                BarredKey(key: try rows.key(row, 0, "barred_key"), kind: kind, barredAt: try rows.integer(row, 2)))
        }
        throw UnreadableRow(table: "of an export")
    }
}
