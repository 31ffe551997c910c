/// The store of registered devices and their counters.
public struct RegistryConfiguration: Equatable, Sendable {
    public enum Store: Equatable, Sendable {
        /// The path of the SQLite file. It need not exist; its directory does.
        case file(String)
        case postgresql(PostgreSQLConfiguration)
    }

    public let store: Store
    /// The path of the challenge secret. It need not exist; its directory does. It differs from the store's path.
    public let secretPath: String
    /// The path of the revocation journal. It need not exist; its directory does. The commit mark and a lock file lie
    /// beside it.
    public let revocationsPath: String
    /// The maximum number of device records in memory, about 600 bytes each.
    public let devices: Int

    /// The path of the SQLite file, if that is the store.
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
                // The same message as for a required key.
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
        // Beside a file that exists in any case.
        self.revocationsPath = revocationsPath ?? (path ?? secretPath) + ".revocations"
        if revocationsPath == nil {
            // The setting from which the path was derived.
            let place = path == nil ? reader.place(of: Keys.secret) : reader.place(of: Keys.path)
            reading.mention(.file(self.revocationsPath), at: place)
        }
        self.devices = devices
    }
}

/// A PostgreSQL database that holds the registry.
public struct PostgreSQLConfiguration: Equatable, Sendable {
    /// Names, addresses, or directories of Unix sockets, in the order of attempts. At least one, none twice.
    public let hosts: [String]
    public let port: Int
    public let database: String
    public let user: String
    /// The file with the password. Nil if the database requires none.
    public let passwordPath: String?
    /// TLS to the database. Present unless every host is on this machine.
    public let tls: TLS?

    public struct TLS: Equatable, Sendable {
        /// The path of a PEM file.
        public let authoritiesPath: String
        /// The paths of PEM files with our certificate and key. Nil if the database requires none.
        public let certificatePath: String?
        public let keyPath: String?
    }
}

extension PostgreSQLConfiguration {
    enum Keys {
        static let hosts = Key(
            "hosts", .distinct(.text(DatabaseHost.expected, DatabaseHost.parse), minimum: 1), whenMissing: .refused,
            "The database servers, or the directory of a Unix socket; of several servers, the one that accepts writes is used."
        )
        static let port = Key(
            "port", .integer(1...65_535), whenMissing: .means("5432"), "The port of all servers.")
        static let database = Key(
            "database", .text(DatabaseName.expected, shape: .textOrNumber, DatabaseName.parse),
            whenMissing: .means("attestgate"),
            "The name of the database; its schema attestgate holds the tables.")
        static let user = Key(
            "user", .text(DatabaseName.expected, shape: .textOrNumber, DatabaseName.parse),
            whenMissing: .means("attestgate"),
            "The role to connect as.")
        static let passwordFile = Key(
            "password_file", .secretFile("a readable file"), whenMissing: .allowed,
            "The file with the role's password; only its owner may be able to read it.")
        static let tls = Key(
            "tls", .section(TLS.Keys.section, TLS.init), whenMissing: .allowed,
            "The authentication of the servers; required for every host that is not on this machine.")

        static let section = Section(
            path: "registry.postgresql",
            settings: [
                hosts.setting, port.setting, database.setting, user.setting, passwordFile.setting, tls.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let hosts = reader.read(Keys.hosts)
        let port = reader.read(Keys.port)
        let database = reader.read(Keys.database)
        let user = reader.read(Keys.user)
        let passwordPath = reader.read(Keys.passwordFile)
        let tls = reader.read(Keys.tls)
        guard let hosts, let port, let database, let user, passwordPath != nil || !reader.has(Keys.passwordFile),
            tls != nil || !reader.has(Keys.tls)
        else { return nil }
        if tls == nil, let remote = hosts.first(where: { !DatabaseHost.isLocal($0) }) {
            reading.refuse(
                reader.place(of: Keys.hosts),
                "\(remote) is not authenticated, and the connection to it is not encrypted",
                expected: "`tls`, or a host on this machine: a directory, such as /run/postgresql, or 127.0.0.1")
            return nil
        }
        for host in hosts { reading.mention(.server(host), at: reader.place(of: Keys.hosts)) }
        self.hosts = hosts
        self.port = port
        self.database = database
        self.user = user
        self.passwordPath = passwordPath
        self.tls = tls
    }
}

extension PostgreSQLConfiguration.TLS {
    enum Keys {
        static let authorities = Key(
            "authorities", .file("a readable PEM file"), whenMissing: .refused,
            "The authorities of the servers' certificates, which must also name the host.")
        static let certificate = Key(
            "certificate", .file("a readable PEM file"), whenMissing: .allowed,
            "The gateway's client certificate, for databases that require one.")
        static let key = Key(
            "key", .keyFile("a readable PEM file"), whenMissing: .allowed, "The private key of the certificate.")

        static let section = Section(
            path: "registry.postgresql.tls", settings: [authorities.setting, certificate.setting, key.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let authoritiesPath = reader.read(Keys.authorities)
        let certificatePath = reader.read(Keys.certificate)
        let keyPath = reader.read(Keys.key)
        if reader.has(Keys.certificate) != reader.has(Keys.key) {
            let (there, missing) = reader.has(Keys.key) ? (Keys.key, "certificate") : (Keys.certificate, "key")
            reading.refuse(
                reader.place(of: there), "`\(there.setting.name)` requires `\(missing)`",
                expected: "both `certificate` and `key`, or neither")
            return nil
        }
        guard let authoritiesPath, certificatePath != nil || !reader.has(Keys.certificate),
            keyPath != nil || !reader.has(Keys.key)
        else { return nil }
        self.authoritiesPath = authoritiesPath
        self.certificatePath = certificatePath
        self.keyPath = keyPath
    }
}

/// The host of a database server, as libpq takes it. A comma would separate two hosts.
private enum DatabaseHost {
    static let expected = "a host: a name or address without a port, or the absolute path of a socket's directory"

    static func parse(_ text: String) throws(InvalidValue) -> String {
        if text.hasPrefix("/") {
            guard !text.contains(",") else { throw InvalidValue("\(Printable.quoted(text)) has a comma") }
            return text
        }
        let host = try HostName.parse(text)
        return host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
    }

    static func isLocal(_ host: String) -> Bool {
        host.hasPrefix("/") || host == "localhost" || host == "::1" || host.hasPrefix("127.") && IPLiteral(host) != nil
    }
}

private enum DatabaseName {
    static let expected = "a name of at most 63 bytes"

    static func parse(_ text: String) throws(InvalidValue) -> String {
        // libpq takes a name with `=` for a list of parameters.
        guard !text.isEmpty, text.utf8.count <= 63, !text.contains("="), !text.hasPrefix("postgres://"),
            !text.hasPrefix("postgresql://")
        else { throw InvalidValue("\(Printable.quoted(text)) is not the name of a database or role") }
        return text
    }
}
