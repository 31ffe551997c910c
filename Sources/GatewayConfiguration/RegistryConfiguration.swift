/// Where registered devices and their counters are kept.
public struct RegistryConfiguration: Equatable, Sendable {
    /// The SQLite file; it need not be there yet, its directory is.
    public let path: String
    /// The file with the challenge secret; it need not be there yet, its directory is. Never `path`.
    public let secretPath: String
    /// How many devices' records are kept in memory, at about 600 bytes each.
    public let devices: Int
}

extension RegistryConfiguration {
    enum Keys {
        static let path = Key(
            "path", .fileToMake("the path of a file in a directory that exists"), whenMissing: .refused,
            "The SQLite file of devices and counters; made at the first start.")
        static let secret = Key(
            "secret", .fileToMake("the path of a file in a directory that exists"), whenMissing: .refused,
            "The file with the secret that challenges are made from; made at the first start.")
        static let devices = Key(
            "devices", .integer(16...16_777_216), unit: "devices", whenMissing: .means("65536"),
            "How many devices' records are kept in memory, at about 600 bytes each.")

        static let section = Section(path: "registry", settings: [path.setting, secret.setting, devices.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let path = reader.read(Keys.path)
        let secretPath = reader.read(Keys.secret)
        let devices = reader.read(Keys.devices)
        guard let path, let secretPath, let devices else { return nil }
        self.path = path
        self.secretPath = secretPath
        self.devices = devices
    }
}
