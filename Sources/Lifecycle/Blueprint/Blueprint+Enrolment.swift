internal import Attestation
internal import Challenges
internal import Cryptography
internal import Enrolment
internal import EventLoop
internal import Gateway
internal import GatewayConfiguration
internal import HTTP
internal import Registry
internal import Server
internal import TLS
internal import Upstream
internal import Vocabulary

/// What enrolment is made of, its files read; all but the secrets, which belong to the registry.
struct EnrolmentBlueprint: Sendable {
    let address: SocketAddress
    /// The address as text.
    let name: String
    let admission: String
    let apps: [AppID]
    /// The listener's own, the GMS CA, and what attestations of software phones lead to.
    private(set) var certificates: [CertificateExpiry] = []
    /// What is doubtful but no reason not to start.
    private(set) var warnings: [StartupWarning] = []
    /// Of the listener's certificate; nil if nothing is stapled.
    var staple: StapledResponse? { settings.listeners.lazy.compactMap(\.staple).first }
    var protocols: [ApplicationProtocol] { settings.listeners.first?.protocols ?? [] }
    /// Who is asked about receipts, if known by a name.
    var receiptServers: Set<NamedServer> {
        Set((settings.receipts?.services ?? []).flatMap(\.upstream.servers).compactMap(\.resolved))
    }
    /// With secrets that nobody has: for a check.
    private var settings: EnrolmentSettings

    /// Connections of phones, and calls about receipts, at once.
    var connections: Int { settings.server.connections }
    var receiptCalls: Int { settings.receipts?.concurrency ?? 0 }

    mutating func setDescriptorCeiling(_ ceiling: Int32) { settings.server.descriptorCeiling = ceiling }

    /// The settings with the secrets of the registry.
    func settings(_ secrets: GatewaySecrets) throws(StartupError) -> EnrolmentSettings {
        var settings = settings
        do throws(CryptographyError) {
            let library = try LibraryContext()
            settings.secrets = EnrolmentSettings.Secrets(
                current: secrets.current, previous: secrets.previous, log: try secrets.logSecret(library),
                subjects: try secrets.subjectKey(library))
        } catch {
            throw StartupError("enrolment: \(error)")
        }
        return settings
    }

    /// Reads the files, and builds once all that a service would be made of: what is wrong is found before anything starts.
    init(_ enrolment: EnrolmentConfiguration, _ configuration: Configuration) throws(StartupError) {
        name = enrolment.address.description
        apps = configuration.apps.map(\.id)
        do {
            address = try SocketAddress(name)
            let library = try LibraryContext()
            let chain = try FileContents.read(enrolment.tls.certificatePath)
            let listener = EnrolmentSettings.Listener(
                name: name, proxies: TrustedProxies(enrolment.proxyProtocol), certificates: chain,
                key: try FileContents.readPrivate(enrolment.tls.keyPath),
                policy: TLSPolicy(enrolment.tls.policy),
                protocols: enrolment.protocols.map(ApplicationProtocol.init),
                staple: try Blueprint.staple(enrolment.tls, for: chain))
            let (admission, word) = try Self.admission(enrolment.admission, library)
            self.admission = word
            let files = AuthorityFiles(enrolment.authority)
            let authority = try files.read()
            let issuer: CertificateIssuer
            do throws(CryptographyError) { issuer = try authority.issuer(library) } catch {
                throw StartupError(
                    "authority: \(files.certificatePath), \(files.keyPath): \(error)",
                    of: FaultyFile.among(authorities: [files.certificatePath]) ?? .file(files.keyPath))
            }
            guard let provider = ProviderURL(enrolment.url.text) else {
                throw StartupError("url: \(enrolment.url.text) cannot be compared")
            }
            settings = EnrolmentSettings(
                listeners: [listener], provider: provider, apps: try configuration.apps.map(Self.app),
                admission: admission, authority: authority, secrets: Self.noSecrets)
            settings.certificateLifetime = enrolment.certificateLife.components.seconds
            settings.rotationOverlap = enrolment.rotationOverlap.components.seconds
            settings.nonceLife = UInt64(enrolment.nonceLife.components.seconds)
            settings.contentLimit = enrolment.contentLimit
            settings.requestsPerMinute = enrolment.requestsPerMinute
            settings.connectionsPerAddress = enrolment.connectionsPerAddress
            settings.server = Self.server(enrolment, configuration.timeouts)
            settings.shutdownTimeout = TimeSpan(configuration.timeouts.shutdown)
            var doubts: [StartupWarning] = []
            if let receipts = enrolment.receipts {
                settings.receipts = try ReceiptSettings(receipts, configuration, warnings: &doubts)
            }
            do { try EnrolmentService.check(settings, library) } catch {
                let culprit =
                    FaultyFile.among(certificate: enrolment.tls.certificatePath, key: enrolment.tls.keyPath)
                    ?? FaultyFile.among(authorities: configuration.apps.compactMap(\.attestation.rootPath))
                    ?? enrolment.receipts.map { .file($0.keyPath) }
                throw StartupError(error.description, of: culprit)
            }
            let shown = try Certificate.all(inPEM: listener.certificates, library)
            doubts += Blueprint.missingStaple(shown, listener.staple).map {
                StartupWarning($0, of: .file(enrolment.tls.certificatePath))
            }
            warnings = doubts.map { StartupWarning("enrolment: \($0)", of: $0.subject) }
            certificates = shown.map { CertificateExpiry($0, role: .server, listener: name) }
            certificates.append(
                CertificateExpiry(issuer.certificate, role: .issuer, listener: name))
            for root in settings.apps.compactMap(\.simulatorRoot) {
                certificates += try Certificate.all(inPEM: root, library).map {
                    CertificateExpiry($0, role: .attestation, listener: name)
                }
            }
        } catch {
            throw StartupError(in: "enrolment", error)
        }
    }

    private static var noSecrets: EnrolmentSettings.Secrets {
        let zeros = [UInt8](repeating: 0, count: ChallengeSecret.shortest)
        guard let secret = ChallengeSecret(generation: 0, bytes: zeros) else { preconditionFailure("long enough") }
        return EnrolmentSettings.Secrets(current: secret, previous: nil, log: zeros, subjects: zeros)
    }

    private static func admission(
        _ admission: AdmissionConfiguration, _ library: LibraryContext
    ) throws -> (EnrolmentSettings.Admission, String) {
        switch admission {
        case .open: return (.open, "open")
        case .approval: return (.approval, "approval")
        case .token(let token):
            guard let audience = ProviderURL(token.audience.text) else {
                throw StartupError("token: audience: \(token.audience.text) cannot be compared")
            }
            let points = try token.keysPaths.map { path in
                let key: PublicKey
                do { key = try PublicKey(pem: try FileContents.read(path), library) } catch {
                    throw StartupError(in: "token: \(path)", error, of: .file(path))
                }
                guard key.isP256, let point = key.uncompressedPoint else {
                    throw StartupError("token: \(path): the key is not on P-256", of: .file(path))
                }
                return point
            }
            let issuer = EnrolmentSettings.TokenIssuer(
                issuer: token.issuer.text, audience: audience, points: points)
            return (.token(issuer), "token")
        }
    }

    private static func server(
        _ enrolment: EnrolmentConfiguration, _ timeouts: TimeoutsConfiguration
    ) -> ServerSettings {
        var server = EnrolmentSettings.standardServer
        server.connections = enrolment.connections
        server.handshakeTimeout = TimeSpan(timeouts.handshake)
        server.headTimeout = TimeSpan(timeouts.head)
        server.contentIdleTimeout = TimeSpan(timeouts.contentIdle)
        server.keepAliveTimeout = min(server.keepAliveTimeout, TimeSpan(timeouts.keepAlive))
        return server
    }

    private static func app(_ app: AppConfiguration) throws -> EnrolmentSettings.App {
        let demands = app.attestation
        let demandsReceipt = demands.receipt != .optional
        let setting = try Blueprint.app(app)
        return EnrolmentSettings.App(
            id: app.id,
            attested: AttestedApp(
                id: app.id.description, environment: environment(app.environment),
                platforms: Set(demands.platforms.flatMap(platforms)),
                extensions: setting.extensions, demandsReceipt: demandsReceipt),
            form: form(demands.clientData), simulatorRoot: try demands.rootPath.map { try FileContents.read($0) },
            maximumRisk: setting.maximumRisk, counters: setting.counters)
    }

    private static func environment(_ environment: AppConfiguration.Environment) -> AttestedApp.Environment {
        switch environment {
        case .production: .production
        case .development: .development
        case .simulator: .simulator
        }
    }

    private static func form(_ form: AttestationDemands.ClientData) -> ClientDataFormat {
        switch form {
        case .nonceAndTag: .nonceAndTag
        case .nonce: .nonce
        case .dsr: .dsr
        }
    }

    /// Leafs up to iOS 17 do not say where they are from: only iPhones had any then.
    private static func platforms(_ platform: AttestationDemands.Platform) -> [AttestedPlatform] {
        switch platform {
        case .ios: [.iOS, .unstated]
        case .macos: [.macOS]
        case .tvos: [.tvOS]
        case .watchos: [.watchOS]
        case .visionos: [.visionOS]
        }
    }
}
