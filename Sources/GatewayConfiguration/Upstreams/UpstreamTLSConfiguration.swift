/// TLS to the servers of an upstream: their required identity, and ours. Verification cannot be switched off.
public struct UpstreamTLSConfiguration: Equatable, ConfigurationSection {
    /// The paths of PEM files, at least one.
    @Setting(
        key: "authorities", required: Self.files,
        "The authorities of the servers' certificates; the system's authorities are not used.")
    public var authoritiesPaths: [String]
    @Setting(
        key: "server_name",
        .text("a host: a name or address, without a port", matching: HostName.pattern, HostName.parse),
        "The name in the servers' certificates and in SNI; by default the server's host.")
    var writtenName: String?
    @Setting(
        key: "certificate", .file("a readable PEM file"),
        "The gateway's client certificate for services that require one, leaf first.")
    var certificatePath: String?
    @Setting(key: "key", .keyFile("a readable PEM file"), "The private key of the certificate.")
    var keyPath: String?
    @Setting(.choice, default: TLSPolicyName.standard, TLSPolicyName.summary)
    public var policy: TLSPolicyName

    static let section = Section("upstreams.tls", of: Self.self, former: TLSPolicyName.former)

    /// The place at which the section begins.
    public var place: Place { beginning }

    /// The name that every server's certificate must contain, an address without brackets. Nil for each server's own
    /// host.
    public var serverName: String? {
        writtenName.map { $0.hasPrefix("[") ? String($0.dropFirst().dropLast()) : $0 }
    }

    /// Our certificate. Nil if services require none.
    public var identity: Identity? {
        guard let certificatePath, let keyPath else { return nil }
        return Identity(certificatePath: certificatePath, keyPath: keyPath)
    }

    public struct Identity: Equatable, Sendable {
        /// The path of a PEM file, leaf first.
        public let certificatePath: String
        /// The path of a PEM file.
        public let keyPath: String
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        CertificateWithKey.check(certificate: _certificatePath, key: _keyPath, reading)
    }

    /// A readable file that is not empty, or a list of at least one.
    private static var files: Kind<[String]> {
        let one = Kind<String>.file("a readable PEM file")
        let several = Kind.distinct(one, minimum: 1)
        let expected = "a readable PEM file, or a list of them"
        return Kind(expected: expected, shape: .either([one.shape, several.shape])) { item, reading in
            if case .sequence = item.content { return several.read(item, reading) }
            return one.read(item, reading).map { [$0] }
        }
    }
}

/// A certificate and its key, of which neither has a use alone.
enum CertificateWithKey {
    /// Returns whether both settings or neither are written. Reports if not.
    static func check(certificate: Setting<String?>, key: Setting<String?>, _ reading: Reading) -> Bool {
        guard certificate.isWritten != key.isWritten else { return true }
        let (present, missing) = key.isWritten ? ("key", "certificate") : ("certificate", "key")
        reading.refuse(
            key.isWritten ? key.place : certificate.place, "`\(present)` requires `\(missing)`",
            expected: "both `certificate` and `key`, or neither")
        return false
    }
}
