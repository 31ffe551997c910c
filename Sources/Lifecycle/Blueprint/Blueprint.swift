internal import Administration
internal import Attestation
internal import Cryptography
internal import EventLoop
internal import Gateway
public import GatewayConfiguration
internal import Glibc
internal import HTTP
internal import Policy
package import Registry
internal import Server
internal import TLS
internal import Upstream
internal import Vocabulary

/// A configuration with everything it refers to read and resolved: what each worker builds its own objects from.
///
/// Made completely or not at all. `Sendable`: plain values only, so each worker's objects are its own.
public struct Blueprint: Sendable {
    /// Where the registry lies, and how much of it is kept in memory.
    struct RegistrySettings: Equatable, Sendable {
        let store: RegistryConfiguration.Store
        let secretPath: String
        let revocationsPath: String
        let devices: Int

        /// Which of its settings is about what lies at a path; the journal's is also about its mark and its lock.
        func setting(at path: String) -> Subject? {
            if path == secretPath { return .file(secretPath) }
            if [revocationsPath, revocationsPath + ".mark"].contains(path) { return .file(revocationsPath) }
            return switch store {
            case .file(let path): .file(path)
            case .postgresql(let database): database.hosts.first.map { .server($0) }
            }
        }
    }

    /// How often files are looked at; nil if never.
    let watch: TimeSpan?
    /// Of all certificates, keys, authorities and the like, as they were before they were read.
    let files: FileMarks
    /// Of the process. One that only enrols has one worker without listeners, routes and upstreams, so that it starts, reloads
    /// and ends as every other.
    public let role: Role
    public let workers: Int
    let listeners: [Listener]
    private(set) var upstreams: [UpstreamSettings]
    let resolver: ResolverSettings
    /// Where no name may lead.
    let forbidden: ForbiddenAddresses
    let routes: [Route]
    private(set) var settings: ServerSettings
    let rates: RequestRates
    let sourceLimits: SharedSources.Limits
    /// Nil if there is none: then all routes are for certificates.
    let registry: RegistrySettings?
    /// Where operators administer the running gateway; nil if nowhere.
    let administration: AdministrationConfiguration?
    let administrationListeners: [AdministrationListener]
    let apps: [AdmittedApps.Setting]
    /// Nil if this process enrols nobody.
    private(set) var enrolment: EnrolmentBlueprint?
    let proof: ProofConfiguration
    let heldContent: Int
    let tunnelLimits: TunnelLimits
    let clientLimits: ClientLimits
    /// Bytes that the process may use; nil for a share of what there is.
    let memory: Int?
    let strippedFields: [String]
    let forwardedFields: [String]
    let denialURI: String
    let log: LogConfiguration
    /// Nil if no spans are exported, or there are no requests.
    let tracing: TracingBlueprint?
    let shutdownTimeout: TimeSpan
    /// Full, but in a program that shows that tests notice anything less.
    package var durability = StoreOptions.Durability.full
    private(set) var descriptors: DescriptorBudget
    /// The certificates of all listeners, those of enrolment and administration included.
    private(set) var certificates: [CertificateExpiry] = []
    /// What is doubtful but no reason not to start.
    public private(set) var warnings: [StartupWarning] = []
    /// Where the conf file names what turns out to be at fault.
    public let mentions: SourceReferences

    public init(_ configuration: Configuration) throws(StartupError) {
        role = configuration.role
        let serves = role.servesRequests
        switch configuration.workers {
        case _ where !serves: workers = 1
        case .automatic: workers = max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        case .exactly(let count): workers = count
        }
        watch = configuration.watch.map { TimeSpan($0) }
        files = FileMarks(configuration.watchedFiles)
        var listeners: [Listener] = []
        for listener in serves ? configuration.listeners : [] { listeners.append(try Listener(listener)) }
        self.listeners = listeners
        let names = serves ? configuration.upstreams.keys.sorted() : []
        var upstreams: [UpstreamSettings] = []
        for name in names {
            guard let upstream = configuration.upstreams[name] else { continue }
            upstreams.append(try UpstreamSettings(name, upstream))
        }
        self.upstreams = upstreams
        resolver = try ResolverSettings(configuration.resolver)
        forbidden = try ForbiddenAddresses(configuration)
        try Self.check(upstreams, against: forbidden)
        routes = (serves ? configuration.routes : []).map { route in
            Route(
                name: route.name, host: route.host, prefix: route.path,
                methods: MethodSet(route.methods.map(Self.method)), requirement: Self.requirement(route.require),
                apps: Self.apps(route, configuration), components: route.components,
                // Every route names a configured upstream: the configuration is refused otherwise.
                upstream: names.firstIndex(of: route.upstream) ?? 0, contentLimit: UInt64(route.contentLimit),
                contentIdle: route.contentIdle.map { TimeSpan($0).nanoseconds / 1_000_000 },
                body: Self.body(route.body), webSocket: route.websocket == .allowed,
                unusualNames: route.unusualFields)
        }
        settings = Self.settings(configuration)
        rates = Self.rates(configuration)
        sourceLimits = SharedSources.Limits(
            connections: configuration.limits.connectionsPerSource,
            handshakes: configuration.limits.handshakesPerSource)
        registry = configuration.registry.map {
            RegistrySettings(
                store: $0.store, secretPath: $0.secretPath, revocationsPath: $0.revocationsPath, devices: $0.devices)
        }
        administration = configuration.administration
        administrationListeners = try Self.administrationListeners(configuration.administration)
        apps = try configuration.apps.map(Self.app)
        enrolment = try configuration.enrolment.flatMap { [role] enrolment throws(StartupError) in
            role.enrols ? try EnrolmentBlueprint(enrolment, configuration) : nil
        }
        proof = configuration.proof
        heldContent = configuration.limits.heldContent
        clientLimits = ClientLimits(
            connections: configuration.limits.connectionsPerClient, streams: configuration.limits.streamsPerClient,
            requests: configuration.limits.requestsPerDevice)
        memory = configuration.limits.memory
        tunnelLimits = TunnelLimits(
            worker: configuration.limits.tunnels, device: configuration.limits.tunnelsPerDevice)
        strippedFields = configuration.strippedFields
        forwardedFields = configuration.forwardedFields
        denialURI = configuration.denialURI
        log = configuration.log
        tracing = try configuration.tracing.flatMap { tracing throws(StartupError) in
            serves ? try TracingBlueprint(tracing, configuration) : nil
        }
        shutdownTimeout = TimeSpan(configuration.timeouts.shutdown)
        mentions = configuration.mentions
        descriptors = DescriptorBudget(limit: DescriptorBudget.processLimit, demand: DescriptorBudget.Demand())
        try shareDescriptors()
        (certificates, warnings) = try checkTLS()
        certificates += try Self.expiries(of: administrationListeners)
        warnings += try Self.validityWarnings(configuration) + (tracing?.warnings ?? [])
        warnings += Self.warnings(of: administrationListeners, configuration.administration) + registryWarnings
        try checkRegistry()
        try checkLog()
    }

    private mutating func shareDescriptors() throws(StartupError) {
        descriptors = DescriptorBudget(limit: descriptors.limit, demand: descriptorDemand)
        if let objection = descriptors.objection, objection.isFatal { throw StartupError(objection.text) }
        settings.descriptorCeiling = descriptors.clientCeiling
        enrolment?.setDescriptorCeiling(descriptors.clientCeiling)
        for index in upstreams.indices { upstreams[index].descriptorCeiling = descriptors.upstreamCeiling }
    }

    private var descriptorDemand: DescriptorBudget.Demand {
        var demand = DescriptorBudget.Demand()
        let names = upstreams.flatMap(\.servers).count { $0.resolved != nil }
        demand.workers = workers
        demand.listeners = listeners.count + (enrolment == nil ? 0 : 1)
        demand.doors = administration == nil ? 0 : 1 + administrationListeners.count
        demand.lookups = min(names, NameBook.lookupLimit)
        demand.calls = (tracing == nil ? 0 : 1) + (enrolment?.receiptCalls ?? 0)
        demand.clients = workers * (listeners.isEmpty ? 0 : settings.connections) + (enrolment?.connections ?? 0)
        demand.upstreams = upstreams.reduce(0) { sum, upstream in
            sum + workers * (upstream.connections + (upstream.health == nil ? 0 : upstream.servers.count))
        }
        return demand
    }

    /// If the process may have fewer descriptors than the configuration can need.
    public var descriptorWarning: StartupWarning? { descriptors.objection.map { StartupWarning($0.text) } }

    mutating func setAddresses(_ change: (inout [UpstreamSettings]) -> Void) { change(&upstreams) }

    /// Reads a conf file and everything it refers to, for a reload. What is doubtful in it is among the warnings.
    public static func read(_ path: String, for role: Role = .both) throws(StartupError) -> Blueprint {
        let loaded: (configuration: Configuration, warnings: [Diagnostic])
        do throws(ConfigurationError) { loaded = try Configuration.load(path: path, role: role) } catch {
            throw StartupError(error.description)
        }
        do throws(StartupError) {
            var blueprint = try Blueprint(loaded.configuration)
            blueprint.warnings = loaded.warnings.map { StartupWarning($0.description) } + blueprint.warnings
            return blueprint
        } catch {
            throw StartupError(loaded.configuration.mentions.diagnostic(error).description)
        }
    }

    private static func settings(_ configuration: Configuration) -> ServerSettings {
        var settings = ServerSettings()
        let limits = configuration.limits
        settings.head = HeadLimits(
            bytes: limits.head, target: limits.target, fields: limits.fields,
            admitsUnusualNames: configuration.routes.contains { !$0.unusualFields.isEmpty })
        settings.connections = limits.connections
        settings.handshakes = limits.handshakes
        settings.strangersGiveWay = true
        settings.requestsPerConnection = limits.requestsPerConnection
        settings.http2.concurrentStreams = limits.streams
        // What every stream begins with: a client never has to take some of it back (RFC 9113 section 6.9.2).
        settings.http2.streamWindow = 65_535
        // A head and a window of each, and what the connection has to say itself.
        settings.http2.outboundFrames = 300 + 2 * limits.streams
        // As much as HTTP/1.1 admits: each field counts for 32 octets more here (RFC 9113 section 6.5.2). At most a block.
        settings.http2.headerList = limits.head + 32 * limits.fields
        // Said to no client that could not make use of it.
        settings.http2.extendedConnect = configuration.routes.contains { $0.websocket == .allowed }
        settings.handshakeTimeout = TimeSpan(configuration.timeouts.handshake)
        settings.headTimeout = TimeSpan(configuration.timeouts.head)
        settings.contentIdleTimeout = TimeSpan(configuration.timeouts.contentIdle)
        settings.contentRate = configuration.timeouts.contentRate
        settings.keepAliveTimeout = TimeSpan(configuration.timeouts.keepAlive)
        settings.tunnelIdleTimeout = TimeSpan(configuration.timeouts.tunnelIdle)
        settings.tunnelLife = TimeSpan(configuration.timeouts.tunnelLife)
        return settings
    }

    private static func rates(_ configuration: Configuration) -> RequestRates {
        func rate(_ rate: RateConfiguration) -> Rate {
            Rate(rate.requests, per: rate.period == .second ? .seconds(1) : .seconds(60), burst: rate.burst)
        }
        let routes = configuration.routes.compactMap { route in route.rate.map { (route.name, rate($0)) } }
        return RequestRates(
            source: configuration.limits.ratePerSource.map(rate), device: configuration.limits.ratePerDevice.map(rate),
            // Every name stands once: the configuration is refused otherwise.
            routes: Dictionary(uniqueKeysWithValues: routes))
    }

    private static func method(_ method: RouteConfiguration.Method) -> Method {
        switch method {
        case .get: .get
        case .head: .head
        case .post: .post
        case .put: .put
        case .patch: .patch
        case .delete: .delete
        case .options: .options
        }
    }

    private static func requirement(_ requirement: RouteConfiguration.Requirement) -> Requirement {
        switch requirement {
        case .certificate: .certificate
        case .device: .device
        case .requestProof: .requestProof
        }
    }

    private static func body(_ body: RouteConfiguration.Body) -> BodyHandling {
        switch body {
        case .collect: .collected
        case .stream: .streamed
        }
    }

    private static func apps(_ route: RouteConfiguration, _ configuration: Configuration) -> AppSet {
        let ids = configuration.apps.map(\.id)
        return AppSet(places: route.apps.compactMap { ids.firstIndex(of: $0) }, of: ids.count)
    }

    static func app(_ app: AppConfiguration) throws(StartupError) -> AdmittedApps.Setting {
        let environment: AttestationEnvironment =
            switch app.environment {
            case .production: .production
            case .development: .development
            case .simulator: .simulator
            }
        let counters: CounterMode =
            switch app.counter {
            case .strict: .strict
            // The configuration admits no window that is no mode; strict refuses more, if it ever did.
            case .window(let count): CounterMode(window: count) ?? .strict
            }
        var maximumRisk: UInt32?
        if case .required(let risk) = app.attestation.receipt { maximumRisk = risk }
        return AdmittedApps.Setting(
            id: app.id, environment: environment, counters: counters, extensions: try AppExtensionPolicy(app),
            maximumRisk: maximumRisk)
    }

    /// Decoded hardware keys that each worker keeps at most: 2 KiB each.
    private static let decodedKeys = 16_384

    /// What each worker makes its application from.
    var application: GatewayApplication.Settings {
        GatewayApplication.Settings(
            routes: routes, upstreams: upstreams, strippedFields: strippedFields,
            forwardedFields: forwardedFields, denialURI: denialURI, listeners: listeners.map(\.name),
            ports: listeners.map(\.ports), accessLog: accessLog, tracing: tracing?.requests, rates: rates,
            sourceLimits: sourceLimits, tunnelLimits: tunnelLimits,
            clientLimits: clientLimits)
    }

    func enforcement(_ secrets: GatewaySecrets) -> Enforcement.Settings {
        Enforcement.Settings(
            apps: apps, secrets: secrets, maxAge: proof.maxAge.components.seconds,
            challengeLife: UInt64(proof.challengeLife.components.seconds),
            keyLimit: min(registry?.devices ?? 0, Self.decodedKeys), heldContent: heldContent)
    }
}

extension TimeSpan {
    init(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        self.init(nanoseconds: seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }
}

extension Blueprint {
    /// One line for `attestgate check`.
    public var summary: String {
        let hosts = listeners.reduce(0) { $0 + $1.hosts.count }
        let counts = [
            (listeners.count, "listener"), (hosts, "host"), (routes.count, "route"), (upstreams.count, "upstream"),
            (workers, "worker"),
        ].filter { $0.1 != "host" || $0.0 > 0 }
        let texts = counts.map { count, noun in "\(count) \(noun)\(count == 1 ? "" : "s")" }
        return (texts + (enrolment.map { ["enrolment: \($0.admission)"] } ?? [])).joined(separator: ", ")
    }
}
