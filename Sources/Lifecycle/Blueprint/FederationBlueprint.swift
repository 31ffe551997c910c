internal import Cryptography
internal import Encoding
internal import Enrolment
internal import EventLoop
internal import Federation
internal import Gateway
internal import GatewayConfiguration
internal import Registry
internal import Server
internal import TLS
internal import Upstream
internal import Vocabulary

/// The settings of the federation with all files read, except the secrets, which belong to the registry.
struct FederationBlueprint: Sendable {
    /// The address to listen on, by its text.
    let addresses: [(name: String, address: SocketAddress)]
    /// The certificates of the listener, and the authorities of phones.
    private(set) var certificates: [CertificateExpiry] = []
    /// Doubtful settings that do not prevent the start.
    private(set) var warnings: [StartupWarning] = []
    private var settings: FederationSettings

    /// The first address as text.
    var name: String { addresses[0].name }
    var url: String { settings.url }
    var protocols: [ApplicationProtocol] { settings.listeners.first?.protocols ?? [] }
    var staples: [(name: String, response: StapledResponse)] {
        settings.listeners.compactMap { listener in listener.staple.map { (listener.name, $0) } }
    }
    /// The maximum of client connections.
    var connections: Int { settings.server.connections }
    /// Documents of services are fetched one after the other, and a connection is kept for a while.
    var calls: Int { 2 }

    mutating func setDescriptorCeiling(_ ceiling: Int32) { settings.server.descriptorCeiling = ceiling }

    /// Returns the settings with the secrets of the registry.
    func settings(_ enforcement: Enforcement.Settings, _ registry: DeviceRegistry) -> FederationSettings {
        var settings = settings
        settings.enforcement = enforcement
        for place in settings.listeners.indices {
            guard let clients = settings.listeners[place].clients else { continue }
            settings.listeners[place].clients?.admission = clients.admission.asking(registry)
        }
        return settings
    }

    /// Reads the files and builds once what the service is made of, so that errors are found before anything starts.
    init(_ federation: FederationConfiguration, _ configuration: Configuration) throws(StartupError) {
        do {
            addresses = [(federation.address.description, try SocketAddress(federation.address.description))]
            let library = try LibraryContext()
            let clients = try federation.clients.map { try ClientsBlueprint($0, place: "federation") }
            let authorities = try clients?.trusted(library) ?? []
            let listener = try EnrolmentSettings.Listener(
                federation.address, federation.tls, clients: clients, protocols: federation.protocols,
                proxies: federation.proxyProtocol)
            var doubts: [StartupWarning] = []
            settings = FederationSettings(
                listeners: [listener], url: federation.url.text, name: federation.name, scopes: federation.scopes,
                operators: try federation.operatorsPath.map(Self.operators) ?? [],
                lives: FederationSettings.Lives(
                    instance: federation.instanceLife.components.seconds,
                    service: federation.serviceLife.components.seconds,
                    app: federation.appLife.components.seconds, code: federation.codeLife.components.seconds),
                descriptions: try Self.descriptions(federation.services, configuration, &doubts))
            settings.needsPerson = federation.person == .required
            settings.requiresProof = federation.require == .requestProof
            if case .seconds(let life) = federation.assertionLife { settings.assertionLifeWithoutExpiry = life }
            settings.minimumVersions = Dictionary(
                federation.minimumVersions.compactMap { minimum in
                    AppVersion(bundleVersion: minimum.version).map { (minimum.app, $0) }
                }, uniquingKeysWith: { max($0, $1) })
            settings.contentLimit = federation.contentLimit
            settings.requestsPerMinute = federation.requestsPerMinute
            settings.connectionsPerAddress = federation.connectionsPerAddress
            settings.server = .ofPhones(connections: federation.connections, configuration.timeouts)
            settings.shutdownTimeout = TimeSpan(configuration.timeouts.shutdown)
            do { try FederationServer.check(settings, library) } catch {
                throw StartupError(
                    error.description,
                    of: FaultyFile.among(
                        certificate: federation.tls.certificatePath, key: federation.tls.keyPath,
                        in: federation.tls.place))
            }
            let shown = try Certificate.all(inPEM: listener.certificates, library)
            doubts += StapledResponse.warnings(of: shown, listener.staple).map {
                StartupWarning($0, of: .file(federation.tls.certificatePath).within(federation.tls.place))
            }
            certificates =
                shown.map { CertificateExpiry($0, role: .server, listener: listener.name) }
                + authorities.map { CertificateExpiry($0, role: .authority, listener: listener.name) }
            warnings = doubts.map { StartupWarning("federation: \($0)", of: $0.subject) }
        } catch {
            throw StartupError(in: "federation", error)
        }
    }

    /// Reads the operators: a name and the SHA-256 of a token in each line; `#` begins a comment.
    private static func operators(_ path: String) throws -> [FederationSettings.Operator] {
        let text = String(decoding: try FileContents.read(path), as: UTF8.self)
        var operators: [FederationSettings.Operator] = []
        for (number, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let words = line.split(whereSeparator: { $0 == " " || $0 == "\t" })
            guard let name = words.first, !name.hasPrefix("#") else { continue }
            guard words.count == 2, name.utf8.count <= 64, name.utf8.allSatisfy({ (0x21...0x7e).contains($0) }),
                let bytes = Hexadecimal.decode(String(words[1])), let secret = Fingerprint(bytes)
            else {
                throw StartupError(
                    "operators: \(path): line \(number + 1) is not a name and 64 hexadecimal digits", of: .file(path))
            }
            operators.append(FederationSettings.Operator(name: String(name), secret: secret))
        }
        return operators
    }

    private static func descriptions(
        _ services: FederationServicesConfiguration, _ configuration: Configuration, _ doubts: inout [StartupWarning]
    ) throws(StartupError) -> DescriptionSettings {
        let tls = try OutboundService.tls(services.authoritiesPath, of: "services", &doubts)
        return DescriptionSettings(
            upstream: OutboundService.upstream(
                UpstreamSettings.Server(NamedServer(host: "localhost", port: 443)), tls, of: "services", connections: 1,
                timeout: TimeSpan(services.timeout)),
            resolver: try ResolverSettings(configuration.resolver), forbidden: try ForbiddenAddresses(configuration),
            timeout: TimeSpan(services.timeout), interval: services.interval.components.seconds,
            retry: services.retry.components.seconds)
    }
}
