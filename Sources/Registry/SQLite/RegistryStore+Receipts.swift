internal import struct Foundation.Data
internal import GRDB
public import Vocabulary

// Receipts that are exchanged for newer ones. Times are seconds since 1970-01-01T00:00:00Z.
extension RegistryStore {
    /// Takes devices whose receipts are due, those first that were due for longest. Writes nothing if there are none.
    public func claimReceipts(_ claim: ReceiptClaim) throws(StoreError) -> ClaimedReceipts {
        let limit = max(0, claim.limit)
        let rows = max(limit, Self.leastRows)
        let due = try read { database in
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
        return try transaction { database in
            let statement = try database.cachedStatement(sql: "UPDATE receipt SET next_at = ? WHERE device = ?")
            var claimed: [DeviceDetails] = []
            var passed = 0
            for (device, isRevoked) in due where claimed.count < limit {
                passed += 1
                // Not asked about; and out of the way of others, however many are revoked.
                let next = isRevoked ? claim.time + Self.revokedPause : claim.until
                try statement.execute(arguments: [next, device.number])
                if !isRevoked { claimed.append(try existing(device, database)) }
            }
            return ClaimedReceipts(devices: claimed, isMoreDue: passed < due.count || due.count == rows)
        }
    }

    /// Writes down what came of a claimed one.
    public func recordReceipt(_ result: ReceiptResult) throws(StoreError) -> ReceiptVerdict {
        let details = try transaction { database -> DeviceDetails? in
            // Only in place of the very receipt that was looked at, and never of one that was made later.
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
            return database.changesCount == 1 ? try existing(result.device, database) : nil
        }
        guard let details else { return .superseded }
        // Records change after the transaction only: it may still fail.
        if let newer = result.newer { devices.update(result.device) { $0.riskMetric = newer.riskMetric } }
        return .recorded(details)
    }

    /// - Parameter ceilings: of apps, each the highest metric that is admitted.
    public func receiptFigures(
        _ ceilings: [(app: AppID, highest: UInt32)], at time: Int64
    ) throws(StoreError) -> ReceiptFigures {
        try read { database in
            // The inner limit bounds the work: there may be many devices of other apps.
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

    func insertReceipt(
        _ receipt: [UInt8], riskMetric: UInt32?, _ device: DeviceID, _ time: Int64, _ database: Database
    ) throws {
        // Due at once: the refresher finds when it makes sense to ask.
        try database.cachedStatement(
            sql: "INSERT INTO receipt (device, risk_metric, next_at, content) VALUES (?, ?, ?, ?)"
        ).execute(arguments: [device.number, riskMetric, time, receipt.blob])
    }

    /// How many rows are looked at in any case, so that revoked devices are passed quickly.
    static let leastRows = 64
    /// One that is restored before is due then.
    static let revokedPause: Int64 = 7 * 86_400
}

extension ReceiptRefresh {
    /// The columns this is read from, in order.
    static let columns = "created_at, next_at, asked_at, outcome, failures"

    init(row: Row) throws {
        let outcome: String? = row[3]
        self.init(
            createdAt: row[0], nextAt: row[1], askedAt: row[2],
            outcome: try outcome.map { text in
                guard let outcome = ReceiptOutcome(rawValue: text) else { throw UnreadableRow(table: "receipt") }
                return outcome
            }, failures: row[4])
    }
}
