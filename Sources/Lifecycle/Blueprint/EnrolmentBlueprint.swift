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

/// The settings of enrolment with all files read, except the secrets, which belong to the registry.
struct EnrolmentBlueprint: Sendable {
    /// The addresses to listen on, by their texts. That without client certificates is first.
    let addresses: [(name: String, address: SocketAddress)]
    /// The first address as text.
    var name: String { addresses[0].name }
    let admission: String
    let apps: [AppID]
    /// The certificates of the listener, the GMS CA, and the roots of software phones.
    private(set) var certificates: [CertificateExpiry] = []
    /// Doubtful settings that do not prevent the start.
    private(set) var warnings: [StartupWarning] = []
    /// The stapled OCSP responses, by the listeners' names.
    var staples: [(name: String, response: StapledResponse)] {
        settings.listeners.compactMap { listener in listener.staple.map { (listener.name, $0) } }
    }
    /// The same for all listeners.
    var protocols: [ApplicationProtocol] { settings.listeners.first?.protocols ?? [] }
    /// The servers for receipts, the status list and the keys of admission tokens that are configured by name.
    var calledServers: Set<NamedServer> {
        let services = [settings.statusList?.service, settings.fetchedKeys?.service].compactMap(\.self).map(\.upstream)
        let receipts = (settings.receipts?.services ?? []).map(\.upstream)
        return Set((receipts + services).flatMap(\.servers).compactMap(\.resolved))
    }
    /// The file that keeps the status list; nil if none is kept.
    var statusListCopyPath: String? { settings.statusList?.copyPath }
    /// The settings with zeros for secrets, for checks.
    private var settings: EnrolmentSettings

    /// The maximum of phone connections.
    var connections: Int { settings.server.connections }
    /// The calls to other services that may be in flight.
    var calls: Int {
        // The metadata of an issuer may name another host, and the connection to the first is kept for a while.
        (settings.receipts?.concurrency ?? 0) + (settings.statusList?.service == nil ? 0 : 1)
            + (settings.fetchedKeys == nil ? 0 : 2)
    }

    mutating func setDescriptorCeiling(_ ceiling: Int32) { settings.server.descriptorCeiling = ceiling }

    /// Returns the settings with the secrets of the registry.
    func settings(
        _ enforcement: Enforcement.Settings, _ registry: DeviceRegistry
    ) throws(StartupError) -> EnrolmentSettings {
        let secrets = enforcement.secrets
        var settings = settings
        settings.enforcement = enforcement
        for place in settings.listeners.indices {
            guard let clients = settings.listeners[place].clients else { continue }
            settings.listeners[place].clients?.admission = clients.admission.asking(registry)
        }
        do throws(CryptographyError) {
            let library = try LibraryContext()
            settings.secrets = EnrolmentSettings.Secrets(
                current: secrets.current, previous: secrets.previous, log: try secrets.logSecret(library),
                subjects: try secrets.subjectKey(library))
            settings.deviceTokens?.subjects = try secrets.deviceTokenKey(library)
        } catch {
            throw StartupError("enrolment: \(error)")
        }
        return settings
    }

    /// Reads the files and builds once everything that the service is made of, so that errors are found before
    /// anything starts.
    init(_ enrolment: EnrolmentConfiguration, _ configuration: Configuration) throws(StartupError) {
        apps = configuration.apps.map(\.id)
        do {
            addresses = try enrolment.addresses.map { ($0.description, try SocketAddress($0.description)) }
            let library = try LibraryContext()
            var listeners = [
                try EnrolmentSettings.Listener(
                    enrolment.address, enrolment.tls, clients: nil, protocols: enrolment.protocols,
                    proxies: enrolment.proxyProtocol)
            ]
            if let devices = enrolment.devices {
                let clients = try ClientsBlueprint(devices.clients, place: "devices")
                _ = try clients.trusted(library)
                listeners.append(
                    try EnrolmentSettings.Listener(
                        devices.address, devices.tls, clients: clients, protocols: enrolment.protocols,
                        proxies: enrolment.proxyProtocol))
            }
            var doubts: [StartupWarning] = []
            let (admission, word) = try Self.admission(
                enrolment, configuration, library, warnings: &doubts)
            self.admission = word
            let files = AuthorityFiles(enrolment.authority)
            let authority = try files.read()
            let issuer: CertificateIssuer
            do throws(CryptographyError) { issuer = try authority.issuer(library) } catch {
                throw StartupError(
                    "authority: \(files.certificatePath), \(files.keyPath): \(error)",
                    of: FaultyFile.among(authorities: [files.certificatePath], in: enrolment.authority.place)
                        ?? .privateKey(files.keyPath).within(enrolment.authority.place))
            }
            guard let provider = ProviderURL(enrolment.url.text) else {
                throw StartupError("url: \(enrolment.url.text) cannot be compared")
            }
            settings = EnrolmentSettings(
                listeners: listeners, provider: provider, apps: try configuration.apps.map(Self.app),
                admission: admission, authority: authority, secrets: Self.noSecrets)
            settings.deviceTokens = try enrolment.deviceTokens.map { try Self.deviceTokens($0, library) }
            settings.wallet = try enrolment.wallet.map { try Self.wallet($0, library, warnings: &doubts) }
            settings.certificateLifetime = enrolment.certificateLife.components.seconds
            settings.rotationOverlap = enrolment.rotationOverlap.components.seconds
            settings.renewal =
                enrolment.renewal == .tls
                ? .permitted : .afterExpiry(grace: enrolment.renewalGrace.components.seconds)
            settings.nonceLife = UInt64(enrolment.nonceLife.components.seconds)
            settings.contentLimit = enrolment.contentLimit
            settings.requestsPerMinute = enrolment.requestsPerMinute
            settings.connectionsPerAddress = enrolment.connectionsPerAddress
            settings.server = .ofPhones(connections: enrolment.connections, configuration.timeouts)
            settings.shutdownTimeout = TimeSpan(configuration.timeouts.shutdown)
            if let receipts = enrolment.receipts {
                settings.receipts = try ReceiptSettings(receipts, configuration, warnings: &doubts)
            }
            settings.statusList = try StatusListSettings(enrolment.android, configuration, warnings: &doubts)
            do { try EnrolmentService.check(settings, library) } catch {
                let culprit =
                    FaultyFile.among(
                        certificate: enrolment.tls.certificatePath, key: enrolment.tls.keyPath, in: enrolment.tls.place)
                    ?? FaultyFile.among(authorities: configuration.apps.compactMap(\.rootPath), in: nil)
                    ?? enrolment.receipts.map { .file($0.keyPath) }
                throw StartupError(error.description, of: culprit)
            }
            for (listener, tls) in zip(listeners, [enrolment.tls, enrolment.devices?.tls].compactMap(\.self)) {
                let shown = try Certificate.all(inPEM: listener.certificates, library)
                doubts += StapledResponse.warnings(of: shown, listener.staple).map {
                    StartupWarning($0, of: .file(tls.certificatePath).within(tls.place))
                }
                certificates += shown.map { CertificateExpiry($0, role: .server, listener: listener.name) }
            }
            let name = addresses[0].name
            warnings = doubts.map { StartupWarning("enrolment: \($0)", of: $0.subject) }
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
        _ enrolment: EnrolmentConfiguration, _ configuration: Configuration, _ library: LibraryContext,
        warnings: inout [StartupWarning]
    ) throws -> (EnrolmentSettings.Admission, String) {
        switch enrolment.admission {
        case .open: return (.open, "open")
        case .approval: return (.approval, "approval")
        case .card(let card):
            var authorities: [UInt8] = []
            for path in card.authoritiesPaths {
                let pem = try FileContents.read(path)
                do { _ = try HealthCards(pem: pem, library) } catch {
                    throw StartupError("card: \(path): \(error)", of: .file(path))
                }
                authorities += pem + [UInt8(ascii: "\n")]
            }
            let cards = EnrolmentSettings.Cards(
                authorities: authorities, unknownIsAbsent: enrolment.unknownRegistration == 404)
            return (.card(cards), "card")
        case .token(let token):
            guard let audience = ProviderURL(token.audience.text) else {
                throw StartupError("token: audience: \(token.audience.text) cannot be compared")
            }
            let issuer = EnrolmentSettings.TokenIssuer(
                issuer: token.issuer.text, audience: audience,
                keys: try keys(of: token, configuration, library, warnings: &warnings))
            return (.token(issuer), "token")
        }
    }

    /// Reads the keys in files, or returns how they are fetched.
    private static func keys(
        of token: AdmissionTokenConfiguration, _ configuration: Configuration, _ library: LibraryContext,
        warnings: inout [StartupWarning]
    ) throws -> EnrolmentSettings.TokenIssuer.Keys {
        switch token.keys {
        case .files(let paths):
            return .listed(
                try paths.map { path in
                    let key: PublicKey
                    do { key = try PublicKey(pem: try FileContents.read(path), library) } catch {
                        throw StartupError(in: "token: \(path)", error, of: .file(path))
                    }
                    guard key.isP256, let point = key.uncompressedPoint else {
                        throw StartupError("token: \(path): the key is not on P-256", of: .file(path))
                    }
                    return point
                })
        case .url(let url):
            return .fetched(try IssuerKeySettings(token, at: url, configuration, warnings: &warnings))
        case .discovery(let url):
            return .fetched(
                try IssuerKeySettings(token, of: token.issuer.text, at: url, configuration, warnings: &warnings))
        }
    }

    /// Reads the key, and reports its faults now.
    private static func deviceTokens(
        _ tokens: DeviceTokenIssuerConfiguration, _ library: LibraryContext
    ) throws(StartupError) -> DeviceTokenIssuerSettings {
        do {
            let settings = DeviceTokenIssuerSettings(
                issuer: tokens.issuer, key: try FileContents.readPrivate(tokens.keyPath),
                life: tokens.life.components.seconds, atKeyBinding: tokens.atKeyBinding == .on)
            _ = try DeviceTokenIssuer(settings, library)
            return settings
        } catch let error as FileContents.Failure {
            throw StartupError("device_tokens: \(error)", of: .privateKey(tokens.keyPath))
        } catch {
            throw StartupError("device_tokens: \(tokens.keyPath): \(error)", of: .privateKey(tokens.keyPath))
        }
    }

    /// Reads the files, and reports their faults now.
    private static func wallet(
        _ wallet: WalletConfiguration, _ library: LibraryContext, warnings: inout [StartupWarning]
    ) throws(StartupError) -> WalletSettings {
        let (statement, certificates): ([UInt8]?, [UInt8]?)
        let key: [UInt8]
        do { key = try FileContents.readPrivate(wallet.keyPath) } catch {
            throw StartupError(in: "wallet", error, of: .privateKey(wallet.keyPath))
        }
        do { certificates = try wallet.certificatePath.map { try FileContents.read($0) } } catch {
            throw StartupError(in: "wallet", error, of: wallet.certificatePath.map { .file($0) })
        }
        do { statement = try wallet.statementPath.map { try FileContents.read($0) } } catch {
            throw StartupError(in: "wallet", error, of: wallet.statementPath.map { .file($0) })
        }
        var settings = WalletSettings(client: wallet.client, key: key, life: wallet.life.components.seconds)
        do throws(CryptographyError) { try settings.checkKey(library) } catch {
            throw StartupError("wallet: \(wallet.keyPath): \(error)", of: .privateKey(wallet.keyPath))
        }
        if let path = wallet.certificatePath {
            settings.certificates = certificates
            do throws(CryptographyError) { try settings.checkCertificates(library) } catch {
                throw StartupError("wallet: \(path): \(error)", of: .file(path))
            }
        }
        guard let statement, let path = wallet.statementPath else { return settings }
        settings.statement = statement
        do throws(CryptographyError) {
            if try settings.isStatementExpired(at: WallClock.seconds, library) {
                warnings.append(
                    StartupWarning(
                        "wallet: \(path): the entity statement has expired, and is not served", of: .file(path)))
            }
        } catch {
            throw StartupError("wallet: \(path): \(error)", of: .file(path))
        }
        return settings
    }

    private static func app(_ app: AppConfiguration) throws -> EnrolmentSettings.App {
        let settings = try app.environments.map { try AdmittedApps.Setting(app, in: $0) }
        return EnrolmentSettings.App(
            id: app.id, kind: try app.id.package.map { try android($0, app) } ?? apple(app, settings),
            form: form(app.clientData), simulatorRoot: try app.rootPath.map { try FileContents.read($0) },
            counters: settings[0].counters, developmentLimit: app.developmentDevices?.maximum)
    }

    private static func apple(
        _ app: AppConfiguration, _ settings: [AdmittedApps.Setting]
    ) -> EnrolmentSettings.App.Kind {
        let attested = zip(app.environments, settings).map { environment, setting in
            AttestedApp(
                id: app.id.description, environment: Self.environment(environment),
                platforms: Set(app.platforms.flatMap(platforms)), extensions: setting.extensions,
                demandsReceipt: app.receipt != .optional)
        }
        return .apple(attested, maximumRisk: settings[0].maximumRisk)
    }

    private static func android(_ package: String, _ app: AppConfiguration) throws -> EnrolmentSettings.App.Kind {
        let attested = AndroidApp(
            package: package, environment: app.isSimulated ? .simulator : .production,
            signingCertificates: (app.signingCertificates ?? []).map(\.digest),
            securityLevel: app.securityLevel == .strongbox ? .strongBox : .trustedEnvironment,
            minimumVersion: app.minimumVersionCode.map(UInt64.init), boot: app.boot == .any ? .any : .verified,
            minimumPatchLevel: app.minimumPatchLevel.map { UInt64($0.number) },
            allowsAttestKey: app.attestKey == .allow)
        let integrity = try app.playIntegrity.map { play in
            EnrolmentSettings.App.Integrity(
                decryptionKey: try FileContents.readPrivate(play.decryptionKeyPath),
                verificationKey: try FileContents.readPrivate(play.verificationKeyPath), device: play.device?.rawValue,
                isForEachBinding: play.eachBinding == .yes)
        }
        return .android(
            attested, attestsCertificateKey: app.certificateKey == .attested, integrity: integrity)
    }

    private static func environment(_ environment: AppConfiguration.Environment) -> AttestedApp.Environment {
        switch environment {
        case .production: .production
        case .development: .development
        case .simulator: .simulator
        }
    }

    private static func form(_ form: AppConfiguration.ClientData) -> ClientDataFormat {
        switch form {
        case .nonceAndTag: .nonceAndTag
        case .nonce: .nonce
        case .dsr: .dsr
        }
    }

    /// Leaf certificates up to iOS 17 do not state the platform: only iPhones had them then.
    private static func platforms(_ platform: AppConfiguration.Platform) -> [AttestedPlatform] {
        switch platform {
        case .ios: [.iOS, .unstated]
        case .macos: [.macOS]
        case .tvos: [.tvOS]
        case .watchos: [.watchOS]
        case .visionos: [.visionOS]
        }
    }
}

extension ReceiptSettings {
    /// Reads the files. Names are resolved at the first call.
    ///
    /// - Parameter warnings: Receives doubtful settings.
    init(
        _ receipts: ReceiptsConfiguration, _ configuration: Configuration, warnings: inout [StartupWarning]
    ) throws(StartupError) {
        let places: [(OutboundURL, Set<AttestationEnvironment>)]
        if let url = receipts.baseURL {
            places = [(url, Set(AttestationEnvironment.allCases))]
        } else {
            // Apple does not know software phones.
            places = [
                (ReceiptsConfiguration.production, [.production]), (ReceiptsConfiguration.development, [.development]),
            ]
        }
        let key: [UInt8]
        do { key = try FileContents.readPrivate(receipts.keyPath) } catch {
            throw StartupError(in: "receipts", error)
        }
        // Read once for all services: Debian's bundle has about 140 certificates.
        let isEncrypted = places.contains { $0.0.isEncrypted }
        let tls = isEncrypted ? try OutboundService.tls(receipts.authoritiesPath, of: "receipts", &warnings) : nil
        var services: [Service] = []
        for (url, environments) in places {
            services.append(
                Service(
                    host: url.authority, path: url.path, environments: environments,
                    upstream: try OutboundService.upstream(
                        url, url.isEncrypted ? tls : nil, of: "receipts", connections: receipts.concurrency,
                        timeout: TimeSpan(receipts.timeout))))
        }
        let forbidden = try ForbiddenAddresses(configuration)
        try UpstreamSettings.check(services.map(\.upstream), against: forbidden)
        self.init(
            team: receipts.team, keyID: receipts.keyID, key: key, services: services,
            resolver: try ResolverSettings(configuration.resolver), forbidden: forbidden)
        interval = receipts.interval.components.seconds
        retry = receipts.retry.components.seconds
        timeout = TimeSpan(receipts.timeout)
        concurrency = receipts.concurrency
        callsPerMinute = receipts.callsPerMinute
    }
}

extension EnrolmentSettings.Listener {
    /// Reads the files of a listener for phones.
    init(
        _ address: ServerAddress, _ tls: ListenerConfiguration.TLS, clients: ClientsBlueprint?,
        protocols: [ProtocolName], proxies: ProxyProtocolConfiguration?
    ) throws {
        let chain = try FileContents.read(tls.certificatePath)
        self.init(
            name: address.description, proxies: TrustedProxies(proxies?.from ?? []), certificates: chain,
            key: try FileContents.readPrivate(tls.keyPath), policy: TLSPolicy(tls.policy),
            protocols: protocols.map(ApplicationProtocol.init), staple: try StapledResponse.read(tls, for: chain),
            clients: clients.map { clients in
                EnrolmentSettings.Listener.Clients(
                    authorities: clients.authorities.flatMap { $0.bytes + [UInt8(ascii: "\n")] },
                    admission: clients.admission)
            })
    }
}

extension ServerSettings {
    /// Returns the settings of a service for phones, with rare and short connections.
    static func ofPhones(connections: Int, _ timeouts: TimeoutsConfiguration) -> ServerSettings {
        var server = EnrolmentSettings.standardServer
        server.connections = connections
        server.handshakeTimeout = TimeSpan(timeouts.handshake)
        server.headTimeout = TimeSpan(timeouts.head)
        server.contentIdleTimeout = TimeSpan(timeouts.contentIdle)
        server.keepAliveTimeout = min(server.keepAliveTimeout, TimeSpan(timeouts.keepAlive))
        return server
    }
}
