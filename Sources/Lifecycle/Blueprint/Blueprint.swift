internal import Administration
internal import Attestation
internal import Cryptography
internal import EventLoop
internal import Gateway
public import GatewayConfiguration
internal import HTTP
internal import Policy
internal import Registry
package import RegistrySQLite
internal import Server
internal import TLS
internal import Upstream
internal import Vocabulary

/// A configuration with all files read and all values converted: each worker builds its objects from it.
///
/// It exists completely or not at all. It has plain values only and is `Sendable`, so workers share no objects.
public struct Blueprint: Sendable {
    let configuration: Configuration
    /// The interval at which files are checked for changes; nil for never.
    let watch: TimeSpan?
    /// Marks of all certificates, keys, authorities and similar files, taken before they were read.
    let files: FileMarks
    /// With the role `enrolment` there is one worker without listeners, routes and upstreams, so that start, reload and
    /// end are the same in all roles.
    public let workers: Int
    let listeners: [ListenerBlueprint]
    /// The upstreams of routes, then those of decision points.
    private(set) var upstreams: [UpstreamSettings]
    private let policies: PolicyBlueprint
    /// Nil if no route requires device tokens.
    private let deviceTokens: DeviceTokenSettings?
    /// Nil if no route requires client attestations.
    private let clientAttestations: ClientAttestationSettings?
    let resolver: ResolverSettings
    /// Addresses to which no name may resolve.
    let forbidden: ForbiddenAddresses
    let routes: [Route]
    private(set) var settings: ServerSettings
    private let rates: RequestRates
    private let sourceLimits: SharedSources.Limits
    let administrationListeners: [AdministrationListener]
    let apps: [AdmittedApps.Setting]
    /// Nil if this process does not enrol devices.
    private(set) var enrolment: EnrolmentBlueprint?
    /// Nil if this process does not serve the federation.
    private(set) var federation: FederationBlueprint?
    /// The addresses of the services with a thread of their own.
    var serviceAddresses: [(name: String, address: SocketAddress)] {
        (enrolment?.addresses ?? []) + (federation?.addresses ?? [])
    }
    private let tunnelLimits: TunnelLimits
    private let clientLimits: ClientLimits
    /// Nil if no spans are exported, or the process serves no requests.
    let tracing: TracingBlueprint?
    let shutdownTimeout: TimeSpan
    /// The time between the signal and the drain.
    let shutdownDelay: TimeSpan
    /// Full, except in a program which shows that the tests detect a weaker durability.
    package var durability = StoreOptions.Durability.full
    private(set) var descriptors: DescriptorBudget
    /// The certificates of all listeners, including enrolment and administration.
    private(set) var certificates: [CertificateExpiry] = []
    /// Doubtful settings that do not prevent the start.
    public private(set) var warnings: [StartupWarning] = []

    /// The secrets of session tickets of a process without a registry, the one that encrypts first. Nil if no other
    /// process has them.
    private(set) var sessionSecrets: [[UInt8]]?

    public var role: Role { configuration.role }
    /// Nil without a registry: then all routes require a certificate only.
    var registry: RegistryConfiguration? { configuration.registry }
    /// The lines of the conf file, for diagnostics.
    public var mentions: SourceReferences { configuration.mentions }

    public init(_ configuration: Configuration) throws(StartupError) {
        self.configuration = configuration
        let serves = configuration.role.servesRequests
        workers = serves ? configuration.workers.count : 1
        watch = configuration.watch.map { TimeSpan($0) }
        files = FileMarks(configuration.watchedFiles)
        var listeners: [ListenerBlueprint] = []
        for listener in serves ? configuration.listeners : [] { listeners.append(try ListenerBlueprint(listener)) }
        self.listeners = listeners
        let names = serves ? configuration.upstreams.keys.sorted() : []
        var upstreams: [UpstreamSettings] = []
        for name in names {
            guard let upstream = configuration.upstreams[name] else { continue }
            upstreams.append(try UpstreamSettings(name, upstream))
        }
        policies = try PolicyBlueprint(configuration)
        if serves { upstreams += policies.decisionPoints.map(\.upstream) }
        deviceTokens = try configuration.deviceTokens.flatMap { tokens throws(StartupError) in
            let reads = configuration.decisionPoints.values.contains { $0.profile == .dsr }
            return serves ? try DeviceTokenSettings(tokens, keepsClaims: reads) : nil
        }
        clientAttestations = try configuration.clientAttestations.flatMap { attestations throws(StartupError) in
            serves ? try ClientAttestationSettings(attestations, configuration.proof) : nil
        }
        self.upstreams = upstreams
        resolver = try ResolverSettings(configuration.resolver)
        forbidden = try ForbiddenAddresses(configuration)
        try UpstreamSettings.check(upstreams, against: forbidden)
        routes = (serves ? configuration.routes : []).map { route in
            Route(
                name: route.name, host: route.host, prefix: route.path,
                methods: MethodSet(route.methods.map(Self.method)), requirement: Self.requirement(route.require),
                enforcedPercent: route.enforce.percent,
                policy: PolicyBlueprint.place(of: route.policy, in: configuration),
                apps: Self.apps(route, configuration),
                components: route.components,
                // The configuration has checked that every route names a configured upstream.
                upstream: names.firstIndex(of: route.upstream) ?? 0, contentLimit: UInt64(route.contentLimit),
                contentIdle: route.contentIdle.map { TimeSpan($0).nanoseconds / 1_000_000 },
                body: Self.body(route.body), webSocket: route.websocket == .allowed,
                unusualNames: route.unusualFields, targetForms: Self.targetForms(route),
                identity: Self.identity(route), deviceToken: Self.deviceToken(route),
                answersAsReference: route.profile == .dsr)
        }
        sessionSecrets = try configuration.sessionSecretsPath.map { path throws(StartupError) in
            try SessionSecrets.read(path)
        }
        settings = Self.settings(configuration)
        rates = Self.rates(configuration)
        sourceLimits = SharedSources.Limits(
            connections: configuration.limits.connectionsPerSource,
            handshakes: configuration.limits.handshakesPerSource)
        administrationListeners = try AdministrationListener.all(of: configuration.administration)
        apps = try configuration.appsByEnvironment.map { app, environment throws(StartupError) in
            try AdmittedApps.Setting(app, in: environment)
        }
        enrolment = try configuration.enrolment.flatMap { enrolment throws(StartupError) in
            configuration.role.enrols ? try EnrolmentBlueprint(enrolment, configuration) : nil
        }
        federation = try configuration.federation.flatMap { federation throws(StartupError) in
            configuration.role.federates ? try FederationBlueprint(federation, configuration) : nil
        }
        clientLimits = ClientLimits(
            connections: configuration.limits.connectionsPerClient, streams: configuration.limits.streamsPerClient,
            requests: configuration.limits.requestsPerDevice)
        tunnelLimits = TunnelLimits(
            worker: configuration.limits.tunnels, device: configuration.limits.tunnelsPerDevice)
        tracing = try configuration.tracing.flatMap { tracing throws(StartupError) in
            serves ? try TracingBlueprint(tracing, configuration) : nil
        }
        shutdownTimeout = TimeSpan(configuration.timeouts.shutdown)
        shutdownDelay = TimeSpan(configuration.timeouts.shutdownDelay)
        descriptors = DescriptorBudget(limit: DescriptorBudget.processLimit, demand: DescriptorBudget.Demand())
        try shareDescriptors()
        let checks = StartupChecks(self)
        (certificates, warnings) = try checks.tls()
        certificates += try AdministrationListener.expiries(of: administrationListeners)
        warnings += try StartupChecks.certificateWarnings(configuration) + (tracing?.warnings ?? [])
        warnings += AdministrationListener.warnings(of: administrationListeners, configuration.administration)
        warnings += checks.registryWarnings
        warnings += listeners.compactMap(\.socketWarning)
        try checks.registry()
        try checks.statusListCopy()
        try checks.accessLog()
    }

    private mutating func shareDescriptors() throws(StartupError) {
        descriptors = DescriptorBudget(limit: descriptors.limit, demand: descriptorDemand)
        if let objection = descriptors.objection, objection.isFatal { throw StartupError(objection.text) }
        settings.descriptorCeiling = descriptors.clientCeiling
        enrolment?.setDescriptorCeiling(descriptors.clientCeiling)
        federation?.setDescriptorCeiling(descriptors.clientCeiling)
        for index in upstreams.indices { upstreams[index].descriptorCeiling = descriptors.upstreamCeiling }
    }

    private var descriptorDemand: DescriptorBudget.Demand {
        var demand = DescriptorBudget.Demand()
        let names = upstreams.flatMap(\.servers).count { $0.resolved != nil }
        demand.workers = workers
        demand.listeners = listeners.count + serviceAddresses.count
        demand.doors = configuration.administration == nil ? 0 : 1 + administrationListeners.count
        demand.lookups = min(names, NameBook.lookupLimit)
        demand.calls = (tracing == nil ? 0 : 1) + (enrolment?.calls ?? 0) + (federation?.calls ?? 0)
        demand.clients =
            workers * (listeners.isEmpty ? 0 : settings.connections) + (enrolment?.connections ?? 0)
            + (federation?.connections ?? 0)
        demand.upstreams = upstreams.reduce(0) { sum, upstream in
            sum + workers * (upstream.connections + (upstream.health == nil ? 0 : upstream.servers.count))
        }
        return demand
    }

    /// A warning if the descriptor limit of the process is lower than what the configuration can need.
    public var descriptorWarning: StartupWarning? { descriptors.objection.map { StartupWarning($0.text) } }

    /// Reads a conf file and everything it names, for a reload. The warnings include those of the conf file.
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
            admitsUnusualNames: configuration.routes.contains { !$0.unusualFields.isEmpty },
            targetForms: configuration.routes.reduce(into: []) { $0.formUnion(targetForms($1)) })
        settings.connections = limits.connections
        settings.handshakes = limits.handshakes
        settings.strangersGiveWay = true
        settings.requestsPerConnection = limits.requestsPerConnection
        settings.http2.concurrentStreams = limits.streams
        // The initial window of every stream, so that a client never has to reduce it (RFC 9113 section 6.9.2).
        settings.http2.streamWindow = 65_535
        // A head and a WINDOW_UPDATE of each stream, and frames of the connection itself.
        settings.http2.outboundFrames = 300 + 2 * limits.streams
        // The same as with HTTP/1.1, where each field counts for 32 bytes less (RFC 9113 section 6.5.2). At most a
        // block.
        settings.http2.headerList = limits.head + 32 * limits.fields
        // Announced only where a route admits WebSockets.
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
            // The configuration has checked that names are unique.
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
        case .nothing: .nothing
        case .clientAttestation: .clientAttestation
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

    private static func targetForms(_ route: RouteConfiguration) -> TargetForms {
        route.pathCharacters.reduce(into: route.targets == .common ? .common : []) { forms, character in
            switch character {
            case .semicolon: forms.formUnion([.semicolon, .encodedSemicolon])
            case .encodedSlash: forms.insert(.encodedSlash)
            }
        }
    }

    private static func deviceToken(_ route: RouteConfiguration) -> DeviceTokenDemand {
        switch route.deviceToken {
        case .required: .required
        case .optional: .optional
        case nil: .none
        }
    }

    private static func identity(_ route: RouteConfiguration) -> IdentityFields {
        route.identity.reduce(into: []) { fields, field in
            switch field {
            case .subject: fields.insert(.subject)
            case .posture: fields.insert(.posture)
            }
        }
    }

    private static func apps(_ route: RouteConfiguration, _ configuration: Configuration) -> AppSet {
        let apps = configuration.appsByEnvironment
        let admitted = apps.indices.filter { place in
            let (app, environment) = apps[place]
            guard route.apps.contains(app.id) else { return false }
            guard environment == .development, let testers = app.developmentDevices else { return true }
            return testers.routes.contains(route.name)
        }
        return AppSet(places: admitted, of: apps.count)
    }

    /// The maximum of decoded hardware keys per worker; each has 2 KiB.
    private static let decodedKeys = 16_384

    /// The settings from which each worker makes its application.
    var application: GatewayApplication.Settings {
        GatewayApplication.Settings(
            routes: routes, upstreams: Array(upstreams.prefix(serviceCount)), policies: policies.policies,
            decisionPoints: zip(policies.decisionPoints, upstreams.dropFirst(serviceCount)).map { point, upstream in
                var point = point
                point.upstream = upstream
                return point
            }, deviceTokens: deviceTokens, clientAttestations: clientAttestations,
            certificateFields: configuration.certificateFields, strippedFields: configuration.strippedFields,
            forwardedFields: configuration.forwardedFields, denialURI: configuration.denialURI,
            listeners: listeners.map(\.name), ports: listeners.map(\.ports),
            accessLog: configuration.log.accessSettings, tracing: tracing?.requests, rates: rates,
            sourceLimits: sourceLimits, tunnelLimits: tunnelLimits,
            clientLimits: clientLimits)
    }

    func enforcement(_ secrets: GatewaySecrets) -> Enforcement.Settings {
        Enforcement.Settings(
            apps: apps, secrets: secrets, maxAge: configuration.proof.maxAge.components.seconds,
            challengeLife: UInt64(configuration.proof.challengeLife.components.seconds),
            keyLimit: min(registry?.devices ?? 0, Self.decodedKeys), heldContent: configuration.limits.heldContent)
    }

    /// All stapled responses, each with its listener, and with its host if the listener has several.
    var staples: [(listener: String, host: String?, response: StapledResponse)] {
        let own = listeners.flatMap { listener in listener.allHosts.map { (listener.name, $0.label, $0.staple) } }
        return own.compactMap { name, host, staple in staple.map { (name, host, $0) } }
            + ((enrolment?.staples ?? []) + (federation?.staples ?? [])).map { ($0.name, nil, $0.response) }
    }

    // MARK: - What is shown

    /// The defaults that the file relies on and that an earlier version had otherwise.
    public var changedDefaults: [String] { configuration.changedDefaults }

    /// The line that `attestgate check` prints.
    public var summary: String {
        let hosts = listeners.reduce(0) { $0 + $1.hosts.count }
        let counts = [
            (listeners.count, "listener"), (hosts, "host"), (routes.count, "route"), (serviceCount, "upstream"),
            (workers, "worker"),
        ].filter { $0.1 != "host" || $0.0 > 0 }
        let texts = counts.map { count, noun in "\(count) \(noun)\(count == 1 ? "" : "s")" }
        let services = [enrolment.map { "enrolment: \($0.admission)" }, federation.map { "federation: \($0.url)" }]
        return (texts + services.compactMap(\.self)).joined(separator: ", ")
    }

    /// The number of upstreams of routes.
    private var serviceCount: Int { upstreams.count - (role.servesRequests ? policies.decisionPoints.count : 0) }

    /// What upstreams receive of clients' certificates, the most of all.
    var keptCertificates: CertificateForwarding { upstreams.map(\.clientFields.certificate).max() ?? .off }

    // MARK: - Names of servers

    var namedServers: Set<NamedServer> { Set(upstreams.flatMap(\.servers).compactMap(\.resolved)) }

    /// Returns a copy with the addresses that are known now.
    func located(by addresses: (NamedServer) -> [SocketAddress]) -> Blueprint {
        var located = self
        for upstream in upstreams.indices {
            for server in upstreams[upstream].servers.indices {
                guard let named = upstreams[upstream].servers[server].resolved else { continue }
                located.upstreams[upstream].servers[server].addresses = addresses(named)
            }
        }
        return located
    }

    /// Resolves every name once, for `attestgate check`. Blocks for at most five seconds.
    ///
    /// - Returns: Warnings for names that have no address now. They do not prevent the start.
    public func unresolvedNames() throws -> [StartupWarning] {
        let loop = try Loop()
        let names = NameBook(loop: loop, settings: resolver, forbidden: forbidden)
        var warnings: [StartupWarning] = []
        names.onEvent = { event in
            if case .refused(let server, let address, let reason) = event {
                warnings.append(
                    StartupWarning(
                        "\(server) resolves to \(address.host), which \(reason): it will not be used",
                        of: .server("\(server)")))
            }
        }
        names.follow(namedServers.union(enrolment?.calledServers ?? []).union(tracing?.servers ?? []))
        var isAnswered = false
        names.whenAnswered(within: .seconds(5)) {
            isAnswered = true
            loop.stop()
        }
        if !isAnswered { loop.run() }
        return warnings
            + names.unresolved.map { server, failure in
                StartupWarning("\(server) cannot be resolved now: \(failure.text)", of: .server("\(server)"))
            }
    }
}
