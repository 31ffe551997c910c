/// The store of registered devices and their counters.
public struct RegistryConfiguration: Equatable, Sendable {
    public enum Store: Equatable, Sendable {
        /// The SQLite file; it need not be there yet, its directory is.
        case file(String)
        case postgresql(PostgreSQLConfiguration)
    }

    public let store: Store
    /// The file with the challenge secret; it need not be there yet, its directory is. Never that of the store.
    public let secretPath: String
    /// The revocation journal; it need not be there yet, its directory is. The commit mark and a lock lie beside it.
    public let revocationsPath: String
    /// The maximum number of device records in memory, about 600 bytes each.
    public let devices: Int

    /// The SQLite file, if that is the store.
    public var path: String? { if case .file(let path) = store { path } else { nil } }
}

extension RegistryConfiguration {
    enum Keys {
        static let path = Key(
            "path", .fileToMake("the path of a file in a directory that exists"), whenMissing: .allowed,
            "The SQLite file of devices and counters; created at the first start.")
        static let postgresql = Key(
            "postgresql", .section(PostgreSQLConfiguration.Keys.section, PostgreSQLConfiguration.init),
            whenMissing: .allowed,
            "The PostgreSQL database of devices and counters, instead of a file; several gateways may share it.")
        static let secret = Key(
            "secret", .fileToMake("the path of a file in a directory that exists"), whenMissing: .refused,
            "The file with the secret for challenges; created at the first start.")
        static let revocations = Key(
            "revocations", .fileToMake("the path of a file in a directory that exists"), whenMissing: .allowed,
            "The journal of revocations outside the store, preferably on another disk; created at the first start.")
        static let devices = Key(
            "devices", .integer(16...16_777_216), unit: "devices", whenMissing: .means("65536"),
            "The maximum number of device records in memory, about 600 bytes each.")

        static let section = Section(
            path: "registry",
            settings: [
                path.setting, postgresql.setting, secret.setting, revocations.setting, devices.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let path = reader.read(Keys.path)
        let postgresql = reader.read(Keys.postgresql)
        let secretPath = reader.read(Keys.secret)
        let revocationsPath = reader.read(Keys.revocations)
        let devices = reader.read(Keys.devices)
        guard reader.has(Keys.path) != reader.has(Keys.postgresql) else {
            if reader.has(Keys.path) {
                reading.refuse(
                    reader.place(of: Keys.postgresql), "`path` already names a store",
                    expected: "`path` or `postgresql`, not both")
            } else {
                // As of a key that must be there.
                reading.refuse(
                    item.place, "`path` is missing", expected: "`path`: \(Keys.path.setting.type); or `postgresql`")
            }
            return nil
        }
        guard let secretPath, let devices, let store = path.map(Store.file) ?? postgresql.map(Store.postgresql) else {
            return nil
        }
        self.store = store
        self.secretPath = secretPath
        // Beside what is there in any case.
        self.revocationsPath = revocationsPath ?? (path ?? secretPath) + ".revocations"
        if revocationsPath == nil {
            // The setting that says where it lies all the same.
            let place = path == nil ? reader.place(of: Keys.secret) : reader.place(of: Keys.path)
            reading.mention(.file(self.revocationsPath), at: place)
        }
        self.devices = devices
    }
}
