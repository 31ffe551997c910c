internal import Vocabulary

// Keys that a revocation journal knows to be no good, when rows of devices and bindings do not say so.
extension RegistryDatabase {
    func isBarred(_ key: KeyID, _ kind: BarredKeyKind) throws -> Bool {
        try run([Self.look(atBarred: key, kind)])[0].rows > 0
    }

    /// Whether the mTLS key is or was bound, as far as anybody knows.
    func isTaken(_ key: KeyID) throws -> Bool {
        try run(Self.looks(atTaken: key)).contains { $0.rows > 0 }
    }

    static func look(atBarred key: KeyID, _ kind: BarredKeyKind) -> DatabaseStatement {
        DatabaseStatement(
            "SELECT 1::bigint FROM barred_key WHERE key = $1 AND kind = $2", [.key(key), .text(kind.rawValue)])
    }

    /// - Returns: two statements. The key is taken if either finds a row.
    static func looks(atTaken key: KeyID) -> [DatabaseStatement] {
        [DatabaseStatement("SELECT device FROM binding WHERE key = $1", [.key(key)]), look(atBarred: key, .mTLS)]
    }
}
