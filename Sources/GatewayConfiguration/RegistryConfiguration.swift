/// The store of registered devices and their counters.
public struct RegistryConfiguration: Equatable, ConfigurationSection {
    /// Nil if the store is a database.
    @Setting(
        .fileToMake("the path of a file in a directory that exists"),
        "The SQLite file of devices and counters; created at the first start.")
    public var path: String?
    @Setting(
        .section, "The PostgreSQL database of devices and counters, instead of a file; several gateways may share it.")
    var postgresql: PostgreSQLConfiguration?
    /// It differs from the store's path.
    @Setting(
        key: "secret", required: .fileToMake("the path of a file in a directory that exists"),
        "The file with the secret for challenges; created at the first start.")
    public var secretPath: String
    @Setting(
        key: "revocations", .fileToMake("the path of a file in a directory that exists"), isIndependent: true,
        "The journal of revocations outside the store, preferably on another disk; created at the first start.")
    var journalPath: String?
    @Setting(
        .integer(16...16_777_216), unit: "devices", default: "65536",
        "The maximum number of device records in memory, about 700 bytes each.")
    public var devices: Int

    static let section = Section("registry", of: Self.self, former: ["file": "path"])

    public enum Store: Equatable, Sendable {
        /// The path of the SQLite file. It need not exist; its directory does.
        case file(String)
        case postgresql(PostgreSQLConfiguration)
    }

    public var store: Store {
        switch (path, postgresql) {
        case (let path?, _): .file(path)
        case (nil, let database?): .postgresql(database)
        case (nil, nil): preconditionFailure("a registry without a store is refused")
        }
    }

    /// The path of the revocation journal. It need not exist; its directory does. The commit mark and a lock file lie
    /// beside it.
    public var revocationsPath: String {
        guard let journalPath else { preconditionFailure("the default is beside the store") }
        return journalPath
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard _path.isWritten != _postgresql.isWritten else {
            if _path.isWritten {
                reading.refuse(
                    _postgresql.place, "`path` already names a store", expected: "`path` or `postgresql`, not both")
            } else {
                // The same message as for a required key.
                reading.refuse(
                    item.place, "`path` is missing",
                    expected: "`path`: \(Self.section.expectedValue(of: "path")); or `postgresql`")
            }
            return false
        }
        guard isComplete else { return false }
        if journalPath == nil {
            // Not beside the store's name: moving or removing `registry.sqlite*` must leave the journal.
            _journalPath.derive(formerJournalPath(reading) ?? secretPath + Self.journalSuffix)
            reading.mention(.file(revocationsPath), at: _secretPath.place)
        }
        return true
    }

    private static let journalSuffix = ".revocations"

    /// Returns the default path of earlier versions if there is a journal, and none at the present default.
    private func formerJournalPath(_ reading: Reading) -> String? {
        guard let path else { return nil }
        let (former, present) = (path + Self.journalSuffix, secretPath + Self.journalSuffix)
        guard reading.exists(former), !reading.exists(present) else { return nil }
        reading.warn(
            _path.place,
            "the revocation journal \(Printable.quoted(former)) would be moved together with the registry's files",
            expected:
                "the gateway stopped, and the journal with its .mark moved to \(Printable.quoted(present)); or `revocations: \(former)`"
        )
        return former
    }
}

/// A PostgreSQL database that holds the registry.
public struct PostgreSQLConfiguration: Equatable, ConfigurationSection {
    /// Names, addresses, or directories of Unix sockets, in the order of attempts. At least one, none twice.
    @Setting(
        required: .distinct(.text(DatabaseHost.expected, DatabaseHost.parse), minimum: 1),
        "The database servers, or the directory of a Unix socket; of several servers, the one that accepts writes is used."
    )
    public var hosts: [String]
    @Setting(.integer(1...65_535), default: "5432", "The port of all servers.")
    public var port: Int
    @Setting(
        .text(DatabaseName.expected, shape: .textOrNumber, DatabaseName.parse), default: "attestgate",
        "The name of the database; its schema attestgate holds the tables.")
    public var database: String
    @Setting(
        .text(DatabaseName.expected, shape: .textOrNumber, DatabaseName.parse), default: "attestgate",
        "The role to connect as.")
    public var user: String
    /// Nil if the database requires none.
    @Setting(
        key: "password_file", .secretFile("a readable file"),
        "The file with the role's password; only its owner may be able to read it.")
    public var passwordPath: String?
    @Setting(
        .section, "The authentication of the servers; required for every host that is not on this machine.")
    public var tls: TLS?

    static let section = Section("registry.postgresql", of: Self.self)

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard isComplete else { return false }
        if tls == nil, let remote = hosts.first(where: { !DatabaseHost.isLocal($0) }) {
            reading.refuse(
                _hosts.place, "\(remote) is not authenticated, and the connection to it is not encrypted",
                expected: "`tls`, or a host on this machine: a directory, such as /run/postgresql, or 127.0.0.1")
            return false
        }
        for host in hosts { reading.mention(.server(host), at: _hosts.place) }
        return true
    }

    /// The authentication of the database servers, and ours.
    public struct TLS: Equatable, ConfigurationSection {
        @Setting(
            key: "authorities", required: .file("a readable PEM file"),
            "The authorities of the servers' certificates, which must also name the host.")
        public var authoritiesPath: String
        @Setting(
            key: "certificate", .file("a readable PEM file"),
            "The gateway's client certificate, for databases that require one.")
        public var certificatePath: String?
        @Setting(key: "key", .keyFile("a readable PEM file"), "The private key of the certificate.")
        public var keyPath: String?

        static let section = Section("registry.postgresql.tls", of: Self.self)

        /// The place at which the section begins.
        public var place: Place { beginning }

        func check(_ item: Item, _ reading: Reading) -> Bool {
            CertificateWithKey.check(certificate: _certificatePath, key: _keyPath, reading)
        }
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
