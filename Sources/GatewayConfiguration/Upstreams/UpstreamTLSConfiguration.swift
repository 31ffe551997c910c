/// TLS to the servers of an upstream: their required identity, and ours. Verification cannot be switched off.
public struct UpstreamTLSConfiguration: Equatable, Sendable {
    /// The paths of PEM files, at least one.
    public let authoritiesPaths: [String]
    /// The name that every server's certificate must contain, an address without brackets. Nil for each server's own
    /// host.
    public let serverName: String?
    /// Our certificate. Nil if services require none.
    public let identity: Identity?
    public let policy: TLSPolicyName

    public struct Identity: Equatable, Sendable {
        /// The path of a PEM file, leaf first.
        public let certificatePath: String
        /// The path of a PEM file.
        public let keyPath: String
    }
}

extension UpstreamTLSConfiguration {
    enum Keys {
        static let authorities = Key(
            "authorities", .files("a readable PEM file, or a list of them"), whenMissing: .refused,
            "The authorities of the servers' certificates; the system's authorities are not used.")
        static let serverName = Key(
            "server_name",
            .text("a host: a name or address, without a port", matching: HostName.pattern, HostName.parse),
            whenMissing: .allowed,
            "The name in the servers' certificates and in SNI; by default the server's host.")
        static let certificate = Key(
            "certificate", .file("a readable PEM file"), whenMissing: .allowed,
            "The gateway's client certificate for services that require one, leaf first.")
        static let key = Key(
            "key", .keyFile("a readable PEM file"), whenMissing: .allowed, "The private key of the certificate.")
        static let policy = TLSPolicyName.key

        static let section = Section(
            path: "upstreams.tls",
            settings: [authorities.setting, serverName.setting, certificate.setting, key.setting, policy.setting],
            former: TLSPolicyName.former)
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let authoritiesPaths = reader.read(Keys.authorities)
        let serverName = reader.read(Keys.serverName)
        let certificatePath = reader.read(Keys.certificate)
        let keyPath = reader.read(Keys.key)
        let policy = reader.read(Keys.policy)
        if reader.has(Keys.certificate) != reader.has(Keys.key) {
            let (there, missing) = reader.has(Keys.key) ? (Keys.key, "certificate") : (Keys.certificate, "key")
            reading.refuse(
                reader.place(of: there), "`\(there.setting.name)` requires `\(missing)`",
                expected: "both `certificate` and `key`, or neither")
            return nil
        }
        guard let authoritiesPaths, let policy, serverName != nil || !reader.has(Keys.serverName),
            certificatePath != nil || !reader.has(Keys.certificate), keyPath != nil || !reader.has(Keys.key)
        else { return nil }
        self.authoritiesPaths = authoritiesPaths
        self.serverName = serverName.map { $0.hasPrefix("[") ? String($0.dropFirst().dropLast()) : $0 }
        identity = certificatePath.flatMap { certificatePath in
            keyPath.map { Identity(certificatePath: certificatePath, keyPath: $0) }
        }
        self.policy = policy
    }
}

extension Kind where Value == [String] {
    /// Creates a kind for a readable file that is not empty, or a list of at least one.
    fileprivate static func files(_ what: String) -> Kind {
        let one = Kind<String>.file("a readable PEM file")
        let several = Kind.distinct(one, minimum: 1)
        return Kind(expected: what, shape: .either([one.shape, several.shape])) { item, reading in
            if case .sequence = item.content { return several.read(item, reading) }
            return one.read(item, reading).map { [$0] }
        }
    }
}
