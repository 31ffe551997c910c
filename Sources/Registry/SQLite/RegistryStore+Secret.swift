internal import struct Foundation.Data
internal import GRDB

// Which secret the names in the store were made with.
extension RegistryStore {
    /// Its check value; nil if none was ever shown.
    package func secretCheck() throws(StoreError) -> Fingerprint? {
        try read { database in
            guard let check = try Data.fetchOne(database, sql: "SELECT secret_check FROM store") else { return nil }
            guard let known = Fingerprint(blob: check) else { throw UnreadableRow(table: "store") }
            return known
        }
    }

    /// Before anybody uses the store with the secret.
    func confirm(_ claim: SecretClaim) throws(StoreOpenError) {
        do {
            let store = SecretClaim.Registered(
                check: try secretCheck(), isPopulated: try isPopulated(), isShared: false, name: path)
            let check = try claim.check(for: store)
            if check != store.check {
                try transaction { try $0.execute(sql: "UPDATE store SET secret_check = ?", arguments: [check.blob]) }
            }
            claim.confirm(check, in: store)
        } catch let error as StoreOpenError {
            throw error
        } catch {
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
    }
}
