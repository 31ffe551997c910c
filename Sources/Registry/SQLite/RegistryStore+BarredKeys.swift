internal import GRDB
internal import Vocabulary

// Keys that the revocation journal knows to be no good, when rows of devices and bindings do not say so.
extension RegistryStore {
    func isBarred(_ key: KeyID, _ kind: BarredKeyKind, _ database: Database) throws -> Bool {
        let statement = try database.cachedStatement(sql: "SELECT 1 FROM barred_key WHERE key = ? AND kind = ?")
        return try Int.fetchOne(statement, arguments: [key.blob, kind.rawValue]) != nil
    }

    /// Whether the mTLS key is or was bound, as far as anybody knows.
    func isTaken(_ key: KeyID, _ database: Database) throws -> Bool {
        if try binding(of: key, database) != nil { return true }
        return try isBarred(key, .mTLS, database)
    }
}
