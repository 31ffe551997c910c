public import EventLoop
internal import struct Foundation.Data
internal import GRDB
public import Vocabulary

// The certificates that were issued for bound keys, and which of them are revoked: what revocation lists are made of. Times
// are seconds since 1970-01-01T00:00:00Z.
extension RegistryStore {
    func isIssued(_ serial: CertificateSerial, _ database: Database) throws -> Bool {
        let statement = try database.cachedStatement(sql: "SELECT 1 FROM issued_certificate WHERE serial = ?")
        return try Int.fetchOne(statement, arguments: [serial.bytes.blob]) != nil
    }

    /// - Parameter serial: one that was not issued yet.
    func insertCertificate(
        _ serial: CertificateSerial, of binding: KeyID, until notAfter: Int64, _ database: Database
    ) throws {
        try database.cachedStatement(
            sql: "INSERT INTO issued_certificate (serial, binding, not_after) VALUES (?, ?, ?)"
        ).execute(arguments: [serial.bytes.blob, binding.blob, notAfter])
    }

    /// Looks through some of the certificates, in the order of their serial numbers, for those that are revoked: because
    /// their device is, or because their binding has ended.
    ///
    /// - Parameters:
    ///   - after: where the page before ended.
    ///   - limit: how many are looked through, revoked or not.
    public func revokedCertificates(
        after: CertificateSerial?, limit: Int, at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> RevokedCertificatePage {
        try read { database in
            let rows = try Row.fetchAll(
                try database.cachedStatement(
                    sql: """
                        SELECT serial, not_after, revoked_at, ended_at, ends_at
                        FROM (SELECT * FROM issued_certificate WHERE serial > ? ORDER BY serial LIMIT ?) AS page
                        JOIN binding ON binding.key = page.binding JOIN device ON device.id = binding.device
                        ORDER BY serial
                        """),
                arguments: [(after?.bytes ?? []).blob, max(0, limit)])
            let certificates = try rows.map { try CertificateRecord(row: $0) }
            return RevokedCertificatePage(
                certificates: certificates.compactMap { $0.revocation(at: time) },
                next: rows.count == limit ? certificates.last?.serial : nil)
        }
    }

    /// Draws the number of a revocation list: greater than any before, and no less than the time, so that numbers go on
    /// growing when an earlier copy of the store is put back.
    public func drawRevocationListNumber(at time: Int64 = WallClock.seconds) throws(StoreError) -> Int64 {
        try transaction { database in
            try database.execute(
                sql: "UPDATE store SET revocation_list = max(revocation_list + 1, ?)", arguments: [time])
            guard let number = try Int64.fetchOne(database, sql: "SELECT revocation_list FROM store") else {
                throw UnreadableRow(table: "store")
            }
            return number
        }
    }

    /// Removes rows of certificates that ended long ago: the oldest, at most so many. Writes nothing if there are none.
    ///
    /// - Returns: whether there may be more.
    func removeEndedCertificates(at time: Int64, limit: Int = 500) throws(StoreError) -> Bool {
        let ended = try read { database in
            try Int64.fetchAll(
                try database.cachedStatement(
                    sql: "SELECT not_after FROM issued_certificate WHERE not_after <= ? ORDER BY not_after LIMIT ?"),
                arguments: [time - CertificateRecord.listedAfterEnd, limit])
        }
        guard let last = ended.last else { return false }
        try transaction { database in
            try database.execute(
                sql: """
                    DELETE FROM issued_certificate WHERE serial IN (
                        SELECT serial FROM issued_certificate WHERE not_after <= ? ORDER BY not_after LIMIT ?)
                    """, arguments: [last, limit])
        }
        return ended.count == limit
    }
}

extension CertificateRecord {
    init(row: Row) throws {
        guard let serial = CertificateSerial([UInt8](row[0] as Data)) else {
            throw UnreadableRow(table: "issued_certificate")
        }
        self.init(
            serial: serial, notAfter: row[1], deviceRevokedAt: row[2], bindingEndedAt: row[3], bindingEndsAt: row[4])
    }
}
