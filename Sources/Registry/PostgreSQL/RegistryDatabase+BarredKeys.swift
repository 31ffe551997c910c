internal import Vocabulary

// Keys that a revocation journal knows to be no good, when rows of devices and bindings do not say so.
extension RegistryDatabase {
    func isBarred(_ key: KeyID, _ kind: BarredKeyKind) throws -> Bool {
        try run(
            "SELECT 1::bigint FROM barred_key WHERE key = $1 AND kind = $2", [.key(key), .text(kind.rawValue)]
        ).rows == 1
    }

    /// Whether the mTLS key is or was bound, as far as anybody knows.
    func isTaken(_ key: KeyID) throws -> Bool {
        if try device(ofBinding: key) != nil { return true }
        return try isBarred(key, .mTLS)
    }
}
