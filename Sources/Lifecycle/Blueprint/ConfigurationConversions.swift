internal import Attestation
internal import EventLoop
internal import Gateway
public import GatewayConfiguration
internal import Logging
public import Registry
internal import Server
internal import TLS
internal import Telemetry
internal import Vocabulary

extension TrustedProxies {
    /// Converts the networks of proxies.
    init(_ networks: [Network]) {
        self.init(
            networks.map { network in
                guard let prefix = NetworkPrefix(octets: network.octets, length: network.length) else {
                    preconditionFailure("a configured network is always valid")
                }
                return prefix
            })
    }
}

extension TLSPolicy {
    init(_ name: TLSPolicyName) {
        switch name {
        case .modern: self = .modern
        case .intermediate: self = .intermediate
        }
    }
}

extension ClientKeys {
    init(_ kinds: [ListenerConfiguration.Clients.KeyKind]) {
        self.init(
            kinds.map { kind in
                switch kind {
                case .p256: .p256
                case .p384: .p384
                case .p521: .p521
                case .ed25519: .ed25519
                case .rsa2048: .rsa(bits: 2048)
                case .rsa3072: .rsa(bits: 3072)
                case .rsa4096: .rsa(bits: 4096)
                }
            })
    }
}

extension AppExtensionPolicy {
    /// Converts what the conf file demands of the app's extensions, at enrolment and in every assertion.
    init(_ app: AppConfiguration, in environment: AppConfiguration.Environment) throws(StartupError) {
        let absence: Absence = app.absentExtensions == .accept ? .admitted : .refused
        self.init()
        if let admitted = app.validationCategories(in: environment) {
            categories = Categories(Set(admitted.map { ValidationCategory(rawValue: $0.number) }), absence: absence)
        }
        if let version = app.minimumBundleVersion {
            guard let minimum = BundleVersion(version.text) else {
                throw StartupError("app \(app.id): minimum_bundle_version cannot be compared")
            }
            minimumVersion = MinimumVersion(minimum, absence: absence)
        }
        minimumSystem = app.minimumSystem.map { MinimumSystem($0, absence: absence) }
    }
}

extension ResolverSettings {
    init(_ resolver: ResolverConfiguration) throws(StartupError) {
        do throws(EventLoopError) {
            self.init(
                nameservers: try resolver.nameservers.map { server throws(EventLoopError) in
                    try SocketAddress(server.description)
                }, timeout: TimeSpan(resolver.timeout), attempts: resolver.attempts,
                minimumTTL: TimeSpan(resolver.minimumTTL), maximumTTL: TimeSpan(resolver.maximumTTL))
        } catch {
            throw StartupError("resolver: \(error.text)")
        }
    }
}

extension ForbiddenAddresses {
    /// All listeners of the file, in every role: the others may belong to another process on this machine.
    init(_ configuration: Configuration) throws(StartupError) {
        let own: [(ServerAddress, String)] =
            configuration.listeners.map { ($0.address, "the gateway itself") }
            + (configuration.enrolment?.addresses ?? []).map { ($0, "enrolment") }
            + [configuration.federation?.address].compactMap(\.self).map { ($0, "the federation") }
            + (configuration.administration?.listeners ?? []).map { ($0.address, "the administration") }
        do throws(EventLoopError) {
            self.init(
                listeners: try own.map { address, purpose throws(EventLoopError) in
                    Listener(address: try SocketAddress(literal: address), purpose: purpose)
                })
        } catch {
            throw StartupError(error.text)
        }
    }
}

extension SocketAddress {
    /// Converts the address of a listener: a literal one, or a Unix socket.
    init(literal address: ServerAddress) throws(EventLoopError) {
        if let path = address.socketPath { try self.init(unixPath: path) } else { try self.init(address.description) }
    }
}

extension ApplicationProtocol {
    init(_ name: ProtocolName) {
        self =
            switch name {
            case .http2: .http2
            case .http11: .http11
            }
    }
}

extension TimeSpan {
    init(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        self.init(nanoseconds: seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }
}

extension AttestationEnvironment {
    public init(_ environment: AppConfiguration.Environment) {
        self =
            switch environment {
            case .production: .production
            case .development: .development
            case .simulator: .simulator
            }
    }
}

extension AdmittedApps.Setting {
    init(_ app: AppConfiguration, in environment: AppConfiguration.Environment) throws(StartupError) {
        let counters: CounterMode =
            switch app.counter {
            case .strict: .strict
            // The configuration admits only windows that are valid modes.
            case .window(let count): CounterMode(window: count) ?? .strict
            }
        var maximumRisk: UInt32?
        if case .required(let risk) = app.receipt { maximumRisk = risk }
        self.init(
            id: app.id, environment: AttestationEnvironment(environment), counters: counters,
            extensions: try AppExtensionPolicy(app, in: environment),
            maximumRisk: maximumRisk)
    }
}

extension Configuration {
    /// The apps, each with each of its environments, in order: devices of both are two apps to routes and workers.
    var appsByEnvironment: [(app: AppConfiguration, environment: AppConfiguration.Environment)] {
        apps.flatMap { app in app.environments.map { (app, $0) } }
    }
}

extension RegistryConfiguration {
    /// Returns the setting that names a path. The journal's setting also covers its mark and its lock file.
    func setting(at path: String) -> Subject? {
        if path == secretPath { return .file(secretPath) }
        if [revocationsPath, revocationsPath + ".mark"].contains(path) { return .file(revocationsPath) }
        return switch store {
        case .file(let path): .file(path)
        case .postgresql(let database): database.hosts.first.map { .server($0) }
        }
    }
}

extension LogConfiguration {
    /// The destination of the access log; nil for none.
    var accessDestination: LogWriter.Destination? {
        switch access {
        case .off: nil
        case .standardOutput: .standardOutput
        case .file(let path): .file(path)
        }
    }

    var accessSettings: AccessLog.Settings {
        var disclosed = DisclosedFields()
        for field in fields {
            switch field {
            case .path: disclosed.insert(.path)
            case .query: disclosed.insert(.query)
            case .clientAddress: disclosed.insert(.clientAddress)
            case .userAgent: disclosed.insert(.userAgent)
            case .requestedHost: disclosed.insert(.requestedHost)
            }
        }
        return AccessLog.Settings(
            isJSON: format == .json, disclosed: disclosed, sample: UInt64(sample),
            refusalsPerSecond: refusalsPerSecond, hasRequests: accessDestination != nil)
    }

    /// Returns the error log.
    ///
    /// - Parameter writer: Nil to write immediately, on the calling thread.
    func errorLog(_ writer: LogWriter?) -> ErrorLog {
        let level: Logger.Level =
            switch self.level {
            case .error: .error
            case .warning: .warning
            case .notice: .notice
            case .info: .info
            case .debug: .debug
            }
        return ErrorLog(
            logLevel: level, isJSON: format == .json, writer: writer,
            hasPriorities: JournalStream.isStandardError)
    }
}
