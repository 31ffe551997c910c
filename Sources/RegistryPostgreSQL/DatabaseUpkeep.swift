internal import Registry
internal import Vocabulary

/// Background work on the database: receipts and expiry. Times are in seconds since 1970-01-01T00:00:00Z.
struct DatabaseUpkeep {
    private let database: RegistryDatabase

    init(_ database: RegistryDatabase) {
        self.database = database
    }

    // MARK: - Receipts

    func claimReceipts(_ claim: ReceiptClaim) throws -> ClaimedReceipts {
        let limit = max(0, claim.limit)
        let count = max(limit, ReceiptClaim.leastRows)
        let due = """
            SELECT receipt.device, revoked_at IS NOT NULL
            FROM receipt JOIN device ON device.id = receipt.device
            WHERE next_at <= $1 ORDER BY next_at, receipt.device LIMIT $2
            """
        let arguments: [DatabaseValue] = [.integer(claim.time), .integer(Int64(count))]
        let isDue = try database.run(due, arguments).rows > 0
        guard isDue, limit > 0 else { return ClaimedReceipts(devices: [], isMoreDue: isDue) }
        return try database.transaction(.changing) {
            // The rows are read again, because another gateway may have claimed them.
            let rows = try database.run(due, arguments)
            var claimed: [DeviceDetails] = []
            var passed = 0
            while passed < rows.rows, claimed.count < limit {
                let device = try rows.device(passed, 0, "receipt")
                let isRevoked = try rows.boolean(passed, 1)
                passed += 1
                // Revoked devices are postponed, so that they do not delay others.
                let next = isRevoked ? claim.time + ReceiptClaim.revokedPause : claim.until
                _ = try database.run(
                    "UPDATE receipt SET next_at = $1 WHERE device = $2", [.integer(next), .device(device)])
                if !isRevoked { claimed.append(try DatabaseDevices(database).existing(device)) }
            }
            return ClaimedReceipts(devices: claimed, isMoreDue: passed < rows.rows || rows.rows == count)
        }
    }

    func recordReceipt(_ result: ReceiptResult, at time: Int64) throws -> ReceiptVerdict {
        try database.transaction(.changing) {
            // Only the examined receipt is replaced, and never by an older one.
            let written = try database.run(
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
            try database.note(result.device, at: time)
            return .recorded(try DatabaseDevices(database).existing(result.device))
        }
    }

    func receiptFigures(_ ceilings: [(app: AppID, highest: UInt32)], at time: Int64) throws -> ReceiptFigures {
        let counts = try ceilings.map { app, highest in
            // The inner limit bounds the work if other apps have many devices.
            Int(
                try database.run(
                    """
                    SELECT count(*) FROM (SELECT device FROM receipt WHERE risk_metric > $1 LIMIT $2) AS risky
                    JOIN device ON device.id = risky.device WHERE app = $3 AND revoked_at IS NULL
                    """,
                    [
                        .integer(Int64(highest)), .integer(Int64(ReceiptFigures.countLimit)), .text(app.description),
                    ]
                ).integer(0, 0))
        }
        let oldest = try database.run("SELECT min(next_at) FROM receipt WHERE next_at <= $1", [.integer(time)])
        return ReceiptFigures(aboveCeiling: counts, oldestDue: try oldest.optionalInteger(0, 0))
    }

    // MARK: - Expiry

    /// Expires a slice. Any gateway may do it. Nothing is written if nothing is due.
    ///
    /// - Returns: Whether there may be more.
    func expire(at time: Int64) throws -> Bool {
        let ended = try endDueBindings(at: time)
        // The clock of the database is the upper limit, so that a gateway whose clock is ahead does not make others
        // refuse valid tokens. Ending bindings early is the lesser harm.
        let time = min(time, try database.clock())
        let used = try removeExpired(at: time)
        let certificates = try removeEndedCertificates(at: time)
        let changes = try removeChanges(at: time)
        return ended || used || certificates || changes
    }

    private static let slice = 256

    /// Ends bindings whose time has come. The end is written, so that it stays after a clock was set back.
    private func endDueBindings(at time: Int64) throws -> Bool {
        let due = "FROM binding WHERE ends_at IS NOT NULL AND ended_at IS NULL AND ends_at <= $1"
        guard try database.run("SELECT 1::bigint \(due) LIMIT 1", [.integer(time)]).rows > 0 else { return false }
        return try database.transaction(.changing) {
            // The rows are read again, because another gateway may have ended them.
            let rows = try database.run(
                "SELECT key, device \(due) ORDER BY ends_at LIMIT \(Self.slice)", [.integer(time)])
            for row in 0..<rows.rows {
                let key = try rows.key(row, 0, "binding")
                let device = try rows.device(row, 1, "binding")
                _ = try database.run(
                    "UPDATE binding SET ended_at = ends_at WHERE key = $1 AND ended_at IS NULL", [.key(key)])
                try database.changeStanding(of: device)
                try database.note(device, ended: key, at: time)
            }
            return rows.rows == Self.slice
        }
    }

    private func removeExpired(at time: Int64) throws -> Bool {
        var isLeft = false
        for uses in DeviceStatements.SingleUses.allCases {
            let due = "FROM \(uses.table) WHERE expires_at <= $1"
            guard try database.run("SELECT 1::bigint \(due) LIMIT 1", [.integer(time)]).rows > 0 else { continue }
            let removed = try database.transaction(.changing) {
                let rows = try database.run(
                    "SELECT id, expires_at \(due) ORDER BY expires_at LIMIT \(Self.slice)", [.integer(time)])
                guard rows.rows > 0 else { return 0 }
                _ = try database.run(
                    "UPDATE store SET \(uses.removed) = greatest(\(uses.removed), $1)",
                    [.integer(try rows.integer(rows.rows - 1, 1))])
                _ = try database.run(
                    "DELETE FROM \(uses.table) WHERE id = ANY($1)",
                    [.bytesList((0..<rows.rows).map { rows.bytes($0, 0) })])
                return rows.rows
            }
            if removed == Self.slice { isLeft = true }
        }
        return isLeft
    }

    private func removeEndedCertificates(at time: Int64) throws -> Bool {
        let due = "FROM issued_certificate WHERE not_after <= $1"
        let until = DatabaseValue.integer(time - CertificateRecord.listedAfterEnd)
        guard try database.run("SELECT 1::bigint \(due) LIMIT 1", [until]).rows > 0 else { return false }
        return try database.transaction(.changing) {
            let rows = try database.run("SELECT serial \(due) ORDER BY not_after LIMIT \(Self.slice)", [until])
            _ = try database.run(
                "DELETE FROM issued_certificate WHERE serial = ANY($1)",
                [.bytesList((0..<rows.rows).map { rows.bytes($0, 0) })])
            return rows.rows == Self.slice
        }
    }

    /// The time for which changes are kept, in seconds. A gateway that did not look for that long finds a gap and
    /// reloads everything.
    private static let changeLife: Int64 = 3_600

    private func removeChanges(at time: Int64) throws -> Bool {
        let due = "FROM change WHERE changed_at <= $1"
        let until = DatabaseValue.integer(time - Self.changeLife)
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
