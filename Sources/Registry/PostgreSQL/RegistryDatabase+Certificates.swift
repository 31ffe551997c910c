internal import Vocabulary

// Certificates that were issued, and receipts. Times are seconds since 1970-01-01T00:00:00Z.
extension RegistryDatabase {
    /// Finds a row if there is a certificate of the number.
    static func look(atIssued serial: CertificateSerial) -> DatabaseStatement {
        DatabaseStatement("SELECT 1::bigint FROM issued_certificate WHERE serial = $1", [.bytes(serial.bytes)])
    }

    func revokedCertificates(
        after: CertificateSerial?, limit: Int, at time: Int64
    ) throws -> RevokedCertificatePage {
        let rows = try run(
            """
            SELECT serial, not_after, revoked_at, ended_at, ends_at
            FROM (SELECT * FROM issued_certificate WHERE serial > $1 ORDER BY serial LIMIT $2) AS page
            JOIN binding ON binding.key = page.binding JOIN device ON device.id = binding.device
            ORDER BY serial
            """, [.bytes(after?.bytes ?? []), .integer(Int64(max(0, limit)))])
        let certificates = try (0..<rows.rows).map { row in
            guard let serial = CertificateSerial(rows.bytes(row, 0)) else {
                throw UnreadableRow(table: "issued_certificate")
            }
            return CertificateRecord(
                serial: serial, notAfter: try rows.integer(row, 1), deviceRevokedAt: try rows.optionalInteger(row, 2),
                bindingEndedAt: try rows.optionalInteger(row, 3), bindingEndsAt: try rows.optionalInteger(row, 4))
        }
        return RevokedCertificatePage(
            certificates: certificates.compactMap { $0.revocation(at: time) },
            next: rows.rows == limit ? certificates.last?.serial : nil)
    }

    func drawRevocationListNumber(at time: Int64) throws -> Int64 {
        try transaction(.changing) {
            let row = try run(
                "UPDATE store SET revocation_list = greatest(revocation_list + 1, $1) RETURNING revocation_list",
                [.integer(time)])
            return try row.integer(0, 0)
        }
    }

    // MARK: - Receipts

    func claimReceipts(_ claim: ReceiptClaim) throws -> ClaimedReceipts {
        let limit = max(0, claim.limit)
        let count = max(limit, RegistryStore.leastRows)
        let due = """
            SELECT receipt.device, revoked_at IS NOT NULL
            FROM receipt JOIN device ON device.id = receipt.device
            WHERE next_at <= $1 ORDER BY next_at, receipt.device LIMIT $2
            """
        let arguments: [DatabaseValue] = [.integer(claim.time), .integer(Int64(count))]
        let isDue = try run(due, arguments).rows > 0
        guard isDue, limit > 0 else { return ClaimedReceipts(devices: [], isMoreDue: isDue) }
        return try transaction(.changing) {
            // Looked at again: another gateway may have claimed them.
            let rows = try run(due, arguments)
            var claimed: [DeviceDetails] = []
            var passed = 0
            while passed < rows.rows, claimed.count < limit {
                let device = try rows.device(passed, 0, "receipt")
                let isRevoked = try rows.boolean(passed, 1)
                passed += 1
                // Not asked about; and out of the way of others, however many are revoked.
                let next = isRevoked ? claim.time + RegistryStore.revokedPause : claim.until
                _ = try run(
                    "UPDATE receipt SET next_at = $1 WHERE device = $2", [.integer(next), .device(device)])
                if !isRevoked { claimed.append(try existing(device)) }
            }
            return ClaimedReceipts(devices: claimed, isMoreDue: passed < rows.rows || rows.rows == count)
        }
    }

    func recordReceipt(_ result: ReceiptResult, at time: Int64) throws -> ReceiptVerdict {
        try transaction(.changing) {
            // Only in place of the very receipt that was looked at, and never of one that was made later.
            let written = try run(
                """
                UPDATE receipt SET
                    content = coalesce($1::bytea, content),
                    risk_metric = CASE WHEN $1::bytea IS NULL THEN risk_metric ELSE $2::bigint END,
                    created_at = coalesce($3::bigint, created_at), next_at = $4::bigint,
                    asked_at = coalesce($5::bigint, asked_at), outcome = coalesce($6::text, outcome),
                    failures = $7
                WHERE device = $8 AND content = $9
                    AND (created_at IS NULL OR $3::bigint IS NULL OR created_at <= $3::bigint)
                """,
                [
                    .bytes(result.newer?.content), .integer(result.newer?.riskMetric.map(Int64.init)),
                    .integer(result.createdAt), .integer(result.nextAt), .integer(result.askedAt),
                    .text(result.outcome?.rawValue), .integer(Int64(max(0, result.failures))), .device(result.device),
                    .bytes(result.previous),
                ])
            guard written.changed == 1 else { return .superseded }
            try note(result.device, at: time)
            return .recorded(try existing(result.device))
        }
    }

    func receiptFigures(_ ceilings: [(app: AppID, highest: UInt32)], at time: Int64) throws -> ReceiptFigures {
        let counts = try ceilings.map { app, highest in
            // The inner limit bounds the work: there may be many devices of other apps.
            Int(
                try run(
                    """
                    SELECT count(*) FROM (SELECT device FROM receipt WHERE risk_metric > $1 LIMIT $2) AS risky
                    JOIN device ON device.id = risky.device WHERE app = $3 AND revoked_at IS NULL
                    """,
                    [
                        .integer(Int64(highest)), .integer(Int64(ReceiptFigures.countLimit)), .text(app.description),
                    ]
                ).integer(0, 0))
        }
        let oldest = try run("SELECT min(next_at) FROM receipt WHERE next_at <= $1", [.integer(time)])
        return ReceiptFigures(aboveCeiling: counts, oldestDue: try oldest.optionalInteger(0, 0))
    }
}
