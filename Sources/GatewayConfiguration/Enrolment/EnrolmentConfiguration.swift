internal import Vocabulary

/// Enrolment: how unknown phones become registered devices with a certificate.
public struct EnrolmentConfiguration: Equatable, Sendable {
    /// A literal address that no other listener has.
    public let address: ServerAddress
    /// The load balancers before the listener. Nil if phones connect directly.
    public let proxyProtocol: ProxyProtocolConfiguration?
    /// At least one protocol, the preferred one first.
    public let protocols: [ProtocolName]
    /// The certificate of the listener, which requires no client certificate.
    public let tls: ListenerConfiguration.TLS
    /// The provider's URL: `aud`, and the prefix of `iss`, of tokens that bind keys.
    public let url: ServiceURL
    public let authority: EnrolmentAuthorityConfiguration
    /// The lifetime of issued certificates, in whole seconds.
    public let certificateLife: Duration
    /// The time for which an old key's binding stays valid after a new one is bound. Whole seconds, zero included.
    public let rotationOverlap: Duration
    /// The lifetime of a nonce, in whole seconds.
    public let nonceLife: Duration
    public let admission: AdmissionConfiguration
    /// The refresh of receipts. Nil if receipts are not refreshed.
    public let receipts: ReceiptsConfiguration?
    /// The maximum content of a request, in bytes.
    public let contentLimit: Int
    /// The maximum for one client address, or for a /64 of IPv6.
    public let requestsPerMinute: Int
    /// The maximum number of open connections.
    public let connections: Int
    /// The maximum number of open connections of one client address or /64. Never more than `connections`.
    public let connectionsPerAddress: Int
}

extension EnrolmentConfiguration {
    enum Keys {
        static let address = Key(
            "address",
            .text(
                "a literal address and a port, for example 127.0.0.1:8444", matching: ServerAddress.literalPattern,
                ServerAddress.parseLiteral),
            whenMissing: .refused, "The address and port to listen on; not one of another listener.")
        static let proxyProtocol = Key(
            "proxy_protocol",
            .section(ProxyProtocolConfiguration.enrolmentSection) {
                ProxyProtocolConfiguration($0, in: ProxyProtocolConfiguration.enrolmentSection, $1)
            },
            whenMissing: .allowed,
            "Load balancers in front of the listener that send the phone's address (PROXY protocol).")
        static let protocols = ProtocolName.key
        static let tls = Key(
            "tls",
            .section(EnrolmentConfiguration.tlsSection) {
                ListenerConfiguration.TLS($0, in: EnrolmentConfiguration.tlsSection, $1)
            },
            whenMissing: .refused, "The listener's certificate.")
        static let url = Key(
            "url", .serviceURL, whenMissing: .refused, "The listener's public URL.")
        static let authority = Key(
            "authority", .section(EnrolmentAuthorityConfiguration.Keys.section, EnrolmentAuthorityConfiguration.init),
            whenMissing: .refused,
            "The GMS CA, which issues the phones' certificates.")
        static let certificateLife = Key(
            "certificate_life", .wholeSeconds(.seconds(60) ... .seconds(31_536_000)), unit: "since it was issued",
            whenMissing: .means("30d"), "The validity of a phone's certificate.")
        static let rotationOverlap = Key(
            "rotation_overlap", .wholeSeconds(.zero ... .seconds(604_800)), unit: "since the new key was bound",
            whenMissing: .means("10m"), "How long a phone's old key is still accepted beside its new one.")
        static let nonceLife = Key(
            "nonce_life", .wholeSeconds(.seconds(10) ... .seconds(3600)), unit: "since the nonce was issued",
            whenMissing: .means("5m"), "The lifetime of a nonce.")
        static let admission = Key(
            "admission", .choice as Kind<AdmissionConfiguration.Name>, whenMissing: .refused,
            "What is required, besides the app itself, to admit a device.")
        static let token = Key(
            "token", .section(AdmissionTokenConfiguration.Draft.Keys.section, AdmissionTokenConfiguration.Draft.init),
            whenMissing: .allowed,
            "The issuer of admission tokens.")
        static let receipts = Key(
            "receipts", .section(ReceiptsConfiguration.Keys.section, ReceiptsConfiguration.init), whenMissing: .allowed,
            "How the risk metric of each device is requested from Apple.")
        static let contentLimit = Key(
            "content_limit", .size((32 << 10)...(64 << 10)), unit: "bytes", whenMissing: .means("64KiB"),
            "The maximum size of request content.")
        static let requestsPerMinute = Key(
            "requests_per_minute", .integer(1...100_000), unit: "requests per client address",
            whenMissing: .means("60"), "The maximum rate of requests.")
        static let connections = Key(
            "connections", .integer(1...100_000), unit: "connections", whenMissing: .means("1000"),
            "The maximum number of open client connections.")
        static let connectionsPerAddress = Key(
            "connections_per_address", .integer(1...100_000), unit: "connections per client address",
            whenMissing: .means("32"), "The maximum number of open connections of one client.")

        static let section = Section(
            path: "enrolment",
            settings: [
                address.setting, proxyProtocol.setting, protocols.setting, tls.setting, url.setting, authority.setting,
                certificateLife.setting,
                rotationOverlap.setting, nonceLife.setting, admission.setting, token.setting, receipts.setting,
                contentLimit.setting, requestsPerMinute.setting, connections.setting, connectionsPerAddress.setting,
            ])
    }

    private static let tlsSection = Section(
        path: "enrolment.tls", settings: ListenerConfiguration.TLS.Keys.section.settings, former: TLSPolicyName.former)

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let address = reader.read(Keys.address)
        let proxyProtocol = reader.read(Keys.proxyProtocol)
        let protocols = reader.read(Keys.protocols)
        let tls = reader.read(Keys.tls)
        let url = reader.read(Keys.url)
        let authority = reader.read(Keys.authority)
        let certificateLife = reader.read(Keys.certificateLife)
        let rotationOverlap = reader.read(Keys.rotationOverlap)
        let nonceLife = reader.read(Keys.nonceLife)
        let name = reader.read(Keys.admission)
        let token = reader.read(Keys.token)
        let receipts = reader.read(Keys.receipts)
        let contentLimit = reader.read(Keys.contentLimit)
        let requestsPerMinute = reader.read(Keys.requestsPerMinute)
        let connections = reader.read(Keys.connections)
        let connectionsPerAddress = reader.read(Keys.connectionsPerAddress, within: connections)
        if let connections, let connectionsPerAddress, connectionsPerAddress > connections {
            reading.refuse(
                reader.place(of: Keys.connectionsPerAddress),
                "`connections_per_address` (\(connectionsPerAddress)) is larger than `connections` (\(connections))",
                expected: "`connections_per_address` of at most \(connections)")
            return nil
        }
        let admission = name.flatMap { Self.admission($0, token, url, reader, reading) }
        guard let address, let protocols, let tls, let url, let authority, let certificateLife, let rotationOverlap,
            let nonceLife,
            let admission, let contentLimit, let requestsPerMinute, let connections, let connectionsPerAddress,
            receipts != nil || !reader.has(Keys.receipts), proxyProtocol != nil || !reader.has(Keys.proxyProtocol),
            proxyProtocol?.canReach(address, at: reader.place(of: Keys.proxyProtocol), reading) ?? true
        else { return nil }
        reading.mention(.address(address.description), at: reader.place(of: Keys.address))
        self.address = address
        self.proxyProtocol = proxyProtocol
        self.protocols = protocols
        self.tls = tls
        self.url = url
        self.authority = authority
        self.certificateLife = certificateLife
        self.rotationOverlap = rotationOverlap
        self.nonceLife = nonceLife
        self.admission = admission
        self.receipts = receipts
        self.contentLimit = contentLimit
        self.requestsPerMinute = requestsPerMinute
        self.connections = connections
        self.connectionsPerAddress = connectionsPerAddress
    }

    private static func admission(
        _ name: AdmissionConfiguration.Name, _ token: AdmissionTokenConfiguration.Draft?, _ url: ServiceURL?,
        _ reader: SectionReader, _ reading: Reading
    ) -> AdmissionConfiguration? {
        switch (name, reader.has(Keys.token)) {
        case (.token, true):
            return url.flatMap { url in token.map { .token(AdmissionTokenConfiguration($0, audience: url)) } }
        case (.token, false):
            reading.refuse(
                reader.place(of: Keys.admission), "`admission: token` needs the issuer of the tokens",
                expected: "`token`, with `issuer` and `keys`")
            return nil
        case (.open, true), (.approval, true):
            reading.refuse(
                reader.place(of: Keys.token), "`token` has no effect with `admission: \(name.rawValue)`",
                expected: "`admission: token`, or no `token`")
            return nil
        case (.open, false): return .open
        case (.approval, false): return .approval
        }
    }
}

/// The GMS CA, which issues the certificates of phones.
public struct EnrolmentAuthorityConfiguration: Equatable, Sendable {
    /// The path of a PEM file with exactly one certificate.
    public let certificatePath: String
    /// The path of a PEM file that only its owner can read.
    public let keyPath: String
    /// The passphrase of the key. Nil if the key is not encrypted.
    public let passphrase: Passphrase?

    /// The source of the key's passphrase, never the passphrase itself.
    public enum Passphrase: Equatable, Sendable {
        /// A file with the passphrase as its one line. Only its owner can read it.
        case file(String)
        /// An environment variable.
        case variable(String)
    }
}

extension EnrolmentAuthorityConfiguration {
    enum Keys {
        static let certificate = Key(
            "certificate", .file("a readable PEM file"), whenMissing: .refused, "The CA's certificate.")
        static let key = Key(
            "key", .secretFile("a readable PEM file"), whenMissing: .refused,
            "The private key of the certificate; encrypted if one of the next two settings is present.")
        static let passphraseFile = Key(
            "passphrase_file", .secretFile("a readable file"), whenMissing: .allowed,
            "The file with the passphrase of the key.")
        static let passphraseVariable = Key(
            "passphrase_variable", .text(VariableName.expected, matching: VariableName.pattern, VariableName.parse),
            whenMissing: .allowed,
            "The environment variable with the passphrase of the key.")

        static let section = Section(
            path: "enrolment.authority",
            settings: [certificate.setting, key.setting, passphraseFile.setting, passphraseVariable.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let certificatePath = reader.read(Keys.certificate)
        let keyPath = reader.read(Keys.key)
        let passphraseFile = reader.read(Keys.passphraseFile)
        let passphraseVariable = reader.read(Keys.passphraseVariable)
        if reader.has(Keys.passphraseFile), reader.has(Keys.passphraseVariable) {
            reading.refuse(
                reader.place(of: Keys.passphraseVariable), "`passphrase_file` already names the passphrase",
                expected: "one of the two")
            return nil
        }
        guard let certificatePath, let keyPath, passphraseFile != nil || !reader.has(Keys.passphraseFile),
            passphraseVariable != nil || !reader.has(Keys.passphraseVariable)
        else { return nil }
        self.certificatePath = certificatePath
        self.keyPath = keyPath
        passphrase = passphraseFile.map { .file($0) } ?? passphraseVariable.map { .variable($0) }
    }
}

/// Rules between enrolment and the rest of the conf file.
enum EnrolmentReferences {
    /// Checks that the sections exist that enrolment needs. Reads the file as written, so that a section with another
    /// mistake counts as present.
    static func check(_ root: Item, _ reading: Reading) {
        guard root["enrolment"] != nil else {
            if reading.role == .enrolment {
                reading.refuse(
                    root.place, "the role `enrolment` needs the section `enrolment`", expected: "`enrolment`: a mapping"
                )
            }
            return
        }
        let lacking = AppReferences.lacking(in: root)
        if !lacking.isEmpty {
            reading.refuse(
                root.place(of: "enrolment"), "`enrolment` needs the sections `registry` and `apps`",
                expected: lacking.joined(separator: " and "))
        }
    }

    /// Refuses an app of simulated phones without a root. No root of Apple's signs their statements.
    ///
    /// - Parameters:
    ///   - apps: the apps.
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func checkRoots(_ apps: [AppConfiguration], in root: Item, _ reading: Reading) {
        guard root["enrolment"] != nil else { return }
        for (index, app) in apps.enumerated()
        where app.environment == .simulator && app.attestation.rootPath == nil {
            // Every app that was read stands in the file at its place.
            guard let item = root["apps"]?.elements[index] else { continue }
            reading.refuse(
                item.place(of: "environment"),
                "devices of the app `\(app.id)` cannot enrol: Apple's root does not attest software phones",
                expected: "`attestation_root`, the certificate of the simulated authority")
        }
    }

    /// Refuses a maximum risk without refreshed receipts, since only those contain the risk metric.
    ///
    /// - Parameters:
    ///   - apps: the apps.
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func checkCeilings(_ apps: [AppConfiguration], in root: Item, _ reading: Reading) {
        guard root["enrolment"]?["receipts"] == nil else { return }
        for (index, app) in apps.enumerated() {
            guard case .required(_?) = app.attestation.receipt, let item = root["apps"]?.elements[index] else {
                continue
            }
            reading.warn(
                item.place(of: "maximum_risk"),
                "`maximum_risk` of the app `\(app.id)` rarely applies: the first receipt of a device has no risk metric,"
                    + " and newer receipts are not requested",
                expected: "the section `enrolment.receipts`")
        }
    }

    /// Refuses simulated phones where Apple is asked for receipts, since Apple does not know them.
    ///
    /// - Parameters:
    ///   - apps: the apps.
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func checkAskable(_ apps: [AppConfiguration], in root: Item, _ reading: Reading) {
        guard let enrolment = root["enrolment"], let receipts = enrolment["receipts"], receipts["base_url"] == nil
        else {
            return
        }
        for app in apps where app.environment == .simulator {
            reading.warn(
                enrolment.place(of: "receipts"),
                "no risk metric is requested for the app `\(app.id)`: Apple does not know software phones",
                expected: "`base_url` of a service that replaces Apple's")
        }
    }

    /// Refuses an address that another listener uses, and warns of an authority that no listener trusts.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    static func check(
        _ enrolment: EnrolmentConfiguration, _ listeners: [ListenerConfiguration],
        _ administration: AdministrationConfiguration?, in root: Item, _ reading: Reading
    ) {
        guard let item = root["enrolment"] else { return }
        let address = enrolment.address
        let objections =
            listeners.map { address.objection(to: $0.address, "a listener of the gateway's clients") }
            + (administration?.listeners ?? []).map {
                address.objection(to: $0.address, "a listener of the administration")
            }
        if let objection = objections.compactMap(\.self).first {
            reading.refuse(item.place(of: "address"), objection, expected: "another address")
        }
        let path = enrolment.authority.certificatePath
        let authority = WrittenFiles.segments(of: path)
        let trusted = listeners.flatMap(\.allClients).flatMap(\.authoritiesPaths)
        if !trusted.contains(where: { WrittenFiles.segments(of: $0) == authority }) {
            reading.warn(
                item["authority"]?.place(of: "certificate") ?? item.place,
                "no listener trusts \(Printable.quoted(path)): phones would receive certificates that no listener"
                    + " takes",
                expected: "the same file among `clients.authorities` of a listener")
        }
    }
}
