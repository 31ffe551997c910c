internal import EventLoop
internal import GRDB
internal import Registry
internal import Vocabulary

/// The issued certificates in a SQLite store. Times are in seconds since 1970-01-01T00:00:00Z.
struct SQLiteCertificates {
    private let store: RegistryStore

    init(_ store: RegistryStore) {
        self.store = store
    }

    static func isIssued(_ serial: CertificateSerial, _ database: Database) throws -> Bool {
        let statement = try database.cachedStatement(sql: "SELECT 1 FROM issued_certificate WHERE serial = ?")
        return try Int.fetchOne(statement, arguments: [serial.bytes.blob]) != nil
    }

    /// Inserts a certificate.
    ///
    /// - Parameter serial: A serial number that was not issued before.
    static func insert(
        _ serial: CertificateSerial, of binding: KeyID, until notAfter: Int64, _ database: Database
    ) throws {
        try database.cachedStatement(
            sql: "INSERT INTO issued_certificate (serial, binding, not_after) VALUES (?, ?, ?)"
        ).execute(arguments: [serial.bytes.blob, binding.blob, notAfter])
    }

    /// Returns the revoked ones in a page of certificates, sorted by serial number. A certificate is revoked with its
    /// device or by the end of its binding.
    ///
    /// - Parameters:
    ///   - after: The end of the previous page.
    ///   - limit: The maximum number of examined certificates.
    func revokedCertificates(
        after: CertificateSerial?, limit: Int, at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> RevokedCertificatePage {
        try store.read { database in
            let rows = try Row.fetchAll(
                try database.cachedStatement(
                    sql: """
                        SELECT serial, not_after, revoked_at, ended_at, ends_at
                        FROM (SELECT * FROM issued_certificate WHERE serial > ? ORDER BY serial LIMIT ?) AS page
                        JOIN binding ON binding.key = page.binding JOIN device ON device.id = binding.device
                        ORDER BY serial
                        """),
                arguments: [(after?.bytes ?? []).blob, max(0, limit)])
            let certificates = try rows.map { try $0.certificateRecord() }
            return RevokedCertificatePage(
                certificates: certificates.compactMap { $0.revocation(at: time) },
                next: rows.count == limit ? certificates.last?.serial : nil)
        }
    }

    /// Draws the number of a revocation list. It exceeds all earlier ones and is at least the time, so that numbers
    /// grow even after an earlier copy of the store is restored.
    func drawRevocationListNumber(at time: Int64 = WallClock.seconds) throws(StoreError) -> Int64 {
        try store.transaction { database in
            try database.execute(
                sql: "UPDATE store SET revocation_list = max(revocation_list + 1, ?)", arguments: [time])
            guard let number = try Int64.fetchOne(database, sql: "SELECT revocation_list FROM store") else {
                throw UnreadableRow(table: "store")
            }
            return number
        }
    }

    /// Removes the oldest rows of certificates that expired long ago. Writes nothing if there are none.
    ///
    /// - Returns: Whether there may be more.
    func removeEndedCertificates(at time: Int64, limit: Int = 500) throws(StoreError) -> Bool {
        let ended = try store.read { database in
            try Int64.fetchAll(
                try database.cachedStatement(
                    sql: "SELECT not_after FROM issued_certificate WHERE not_after <= ? ORDER BY not_after LIMIT ?"),
                arguments: [time - CertificateRecord.listedAfterEnd, limit])
        }
        guard let last = ended.last else { return false }
        try store.transaction { database in
            try database.execute(
                sql: """
                    DELETE FROM issued_certificate WHERE serial IN (
                        SELECT serial FROM issued_certificate WHERE not_after <= ? ORDER BY not_after LIMIT ?)
                    """, arguments: [last, limit])
        }
        return ended.count == limit
    }
}

/// The receipts in a SQLite store. Times are in seconds since 1970-01-01T00:00:00Z.
struct SQLiteReceipts {
    private let store: RegistryStore

    init(_ store: RegistryStore) {
        self.store = store
    }

    /// Claims devices whose receipts are due, the longest due first. Writes nothing if there are none.
    func claimReceipts(_ claim: ReceiptClaim) throws(StoreError) -> ClaimedReceipts {
        let limit = max(0, claim.limit)
        let rows = max(limit, ReceiptClaim.leastRows)
        let due = try store.read { database in
            try Row.fetchAll(
                try database.cachedStatement(
                    sql: """
                        SELECT receipt.device, revoked_at IS NOT NULL
                        FROM receipt JOIN device ON device.id = receipt.device
                        WHERE next_at <= ? ORDER BY next_at, receipt.device LIMIT ?
                        """), arguments: [claim.time, rows]
            ).map { row in
                guard let device = DeviceID(row[0]) else { throw UnreadableRow(table: "receipt") }
                return (device: device, isRevoked: row[1] as Bool)
            }
        }
        guard !due.isEmpty, limit > 0 else { return ClaimedReceipts(devices: [], isMoreDue: !due.isEmpty) }
        return try store.transaction { database in
            let statement = try database.cachedStatement(sql: "UPDATE receipt SET next_at = ? WHERE device = ?")
            var claimed: [DeviceDetails] = []
            var passed = 0
            for (device, isRevoked) in due where claimed.count < limit {
                passed += 1
                // Revoked devices are postponed, so that they do not delay others.
                let next = isRevoked ? claim.time + ReceiptClaim.revokedPause : claim.until
                try statement.execute(arguments: [next, device.number])
                if !isRevoked { claimed.append(try store.existing(device, database)) }
            }
            return ClaimedReceipts(devices: claimed, isMoreDue: passed < due.count || due.count == rows)
        }
    }

    /// Records the result for a claimed device.
    func recordReceipt(_ result: ReceiptResult) throws(StoreError) -> ReceiptVerdict {
        let details = try store.transaction { database -> DeviceDetails? in
            // Only the examined receipt is replaced, and never by an older one.
            try database.cachedStatement(
                sql: """
                    UPDATE receipt SET
                        content = coalesce(:newer, content),
                        risk_metric = CASE WHEN :newer IS NULL THEN risk_metric ELSE :risk END,
                        created_at = coalesce(:created, created_at), next_at = :next,
                        asked_at = coalesce(:asked, asked_at), outcome = coalesce(:outcome, outcome),
                        failures = :failures
                    WHERE device = :device AND content = :previous
                        AND (created_at IS NULL OR :created IS NULL OR created_at <= :created)
                    """
            ).execute(arguments: [
                "newer": result.newer?.content.blob, "risk": result.newer?.riskMetric, "created": result.createdAt,
                "next": result.nextAt, "asked": result.askedAt, "outcome": result.outcome?.rawValue,
                "failures": max(0, result.failures), "device": result.device.number,
                "previous": result.previous.blob,
            ])
            return database.changesCount == 1 ? try store.existing(result.device, database) : nil
        }
        guard let details else { return .superseded }
        // Records in memory change only after the transaction, because it may fail.
        if let newer = result.newer { store.devices.update(result.device) { $0.riskMetric = newer.riskMetric } }
        return .recorded(details)
    }

    /// Returns statistics of receipts.
    ///
    /// - Parameter ceilings: The highest admitted risk metric of each app.
    func receiptFigures(
        _ ceilings: [(app: AppID, highest: UInt32)], at time: Int64
    ) throws(StoreError) -> ReceiptFigures {
        try store.read { database in
            // The inner limit bounds the work if other apps have many devices.
            let statement = try database.cachedStatement(
                sql: """
                    SELECT count(*) FROM (SELECT device FROM receipt WHERE risk_metric > ? LIMIT ?) AS risky
                    JOIN device ON device.id = risky.device WHERE app = ? AND revoked_at IS NULL
                    """)
            let counts = try ceilings.map { app, highest in
                try Int.fetchOne(statement, arguments: [highest, ReceiptFigures.countLimit, app.description]) ?? 0
            }
            let oldest = try Int64.fetchOne(
                try database.cachedStatement(sql: "SELECT min(next_at) FROM receipt WHERE next_at <= ?"),
                arguments: [time])
            return ReceiptFigures(aboveCeiling: counts, oldestDue: oldest)
        }
    }

    static func insert(
        _ receipt: [UInt8], riskMetric: UInt32?, _ device: DeviceID, _ time: Int64, _ database: Database
    ) throws {
        // The receipt is due at once. The refresher finds the right time for a request.
        try database.cachedStatement(
            sql: "INSERT INTO receipt (device, risk_metric, next_at, content) VALUES (?, ?, ?, ?)"
        ).execute(arguments: [device.number, riskMetric, time, receipt.blob])
    }
}
