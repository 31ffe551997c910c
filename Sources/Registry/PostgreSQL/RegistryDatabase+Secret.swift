// Which secret the names in the database were made with.
extension RegistryDatabase {
    /// Its check value; nil if none was ever shown.
    func secretCheck() throws -> Fingerprint? {
        let row = try run("SELECT secret_check FROM store")
        guard row.rows == 1 else { throw UnreadableRow(table: "store") }
        guard let bytes = row.optionalBytes(0, 0) else { return nil }
        guard let check = Fingerprint(bytes) else { throw UnreadableRow(table: "store") }
        return check
    }

    /// Before anybody uses the database with the secret. Of gateways that start together, each with a secret of its own, one is first.
    func confirm(_ claim: SecretClaim) throws {
        let (store, check) = try transaction(.changing) {
            let store = SecretClaim.Registered(
                check: try secretCheck(), isPopulated: try isPopulated(), isShared: true, name: settings.name)
            let check = try claim.check(for: store)
            if check != store.check {
                _ = try run("UPDATE store SET secret_check = $1", [.bytes(check.bytes)])
            }
            return (store, check)
        }
        claim.confirm(check, in: store)
    }
}
