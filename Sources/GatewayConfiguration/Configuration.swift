internal import Vocabulary

/// The complete configuration that one conf file describes.
public struct Configuration: Equatable, Sendable {
    /// The role of the process for which the file was read.
    public let role: Role
    public let workers: Workers
    /// The interval at which files are checked for changes. Nil if they are not.
    public let watch: Duration?
    /// At least one listener; no address twice.
    public let listeners: [ListenerConfiguration]
    /// The upstreams by name.
    public let upstreams: [String: UpstreamConfiguration]
    public let resolver: ResolverConfiguration
    /// At least one route. Names are unique, and every upstream exists.
    public let routes: [RouteConfiguration]
    /// The apps, each once. At least one if a route requires more than a certificate.
    public let apps: [AppConfiguration]
    /// The registry. Present if a route requires more than a certificate.
    public let registry: RegistryConfiguration?
    /// Enrolment. If present, so are a registry and apps. The role decides whether this process enrols.
    public let enrolment: EnrolmentConfiguration?
    public let administration: AdministrationConfiguration?
    public let proof: ProofConfiguration
    public let limits: LimitsConfiguration
    public let timeouts: TimeoutsConfiguration
    /// Names of request fields that are always removed, in lower case.
    public let strippedFields: [String]
    /// Names of request fields that are forwarded although such fields are otherwise removed or refused, in lower case.
    public let forwardedFields: [String]
    public let log: LogConfiguration
    /// The export of spans. Nil if none are exported.
    public let tracing: TracingConfiguration?
    /// The prefix of `error_uri` in denials.
    public let denialURI: String
    /// The places where the file names files, addresses and servers.
    public let mentions: SourceReferences

    public enum Workers: Equatable, Sendable {
        /// One worker for each processor.
        case automatic
        case exactly(Int)
    }
}

extension Configuration {
    /// Reads a conf file. Relative paths in the file start at its directory.
    ///
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - files: the file system.
    ///   - role: the role of the process. Files that only another role uses are not checked.
    /// - Returns: the configuration and the warnings.
    /// - Throws: a ``ConfigurationError`` with every diagnostic.
    public static func load(
        path: String, files: FileInspector = .system, role: Role = .both
    ) throws(ConfigurationError) -> (configuration: Configuration, warnings: [Diagnostic]) {
        // One byte more than the limit tells a file that is too large from one that just fits.
        switch FileReader.read(path, atMost: SourceGuard.largestFile + 1) {
        case .success(let bytes): return try parse(bytes, path: path, files: files, role: role)
        case .failure(let reason):
            throw ConfigurationError(
                Diagnostic(
                    severity: .error, file: path, place: nil, message: "the file cannot be read: \(reason.text)",
                    expected: nil, suggestion: nil, excerpt: nil))
        }
    }

    /// Returns the path of a running gateway's administration socket. The rest of the file may be invalid: a user who
    /// asks the gateway to reload expects the gateway to report that.
    ///
    /// - Returns: nil if the file cannot be read that far, or names no socket.
    public static func administrationSocket(path: String) -> String? {
        guard case .success(let bytes) = FileReader.read(path, atMost: SourceGuard.largestFile + 1),
            let text = try? SourceGuard.text(of: bytes, file: path)
        else { return nil }
        let reading = Reading(source: text, files: .system, top: Keys.section)
        // An included file may be invalid, too.
        let root = Inclusion.root(reading) ?? Document.root(reading, of: reading.source)
        let socket = root?["administration"]?["socket"]
        return socket.flatMap { item in item.text.map { reading.resolve(path: $0, at: item.place) } }
    }

    /// Parses the bytes of a conf file. Uses the file system only through `files`.
    ///
    /// - Parameters:
    ///   - bytes: the text of the file.
    ///   - path: the path of the file.
    ///   - files: the file system.
    ///   - role: the role of the process.
    /// - Returns: the configuration and the warnings.
    /// - Throws: a ``ConfigurationError`` with every diagnostic.
    public static func parse(
        _ bytes: [UInt8], path: String, files: FileInspector, role: Role = .both
    ) throws(ConfigurationError) -> (configuration: Configuration, warnings: [Diagnostic]) {
        let reading = Reading(
            source: try SourceGuard.text(of: bytes, file: path), files: files, top: Keys.section, role: role)
        guard let root = Inclusion.root(reading), let configuration = Configuration(root, reading) else {
            try reading.fail()
        }
        return (configuration, try reading.finish())
    }
}

extension Configuration {
    /// All sections of the conf file, each once and before those within it. The section at the top is the first.
    static let sections = Keys.section.withInner()

    enum Keys {
        static let workers = Key(
            "workers", .workers, unit: "threads", whenMissing: .means("auto"),
            "The number of worker threads; each has its own event loop and listeners.")
        static let watch = Key(
            "watch", .duration(.seconds(1)...(.seconds(3_600))), whenMissing: .allowed,
            "How often certificate, key, authority and revocation list files are checked for changes.")
        static let listeners = Key(
            "listeners", .listeners, whenMissing: .refused, "The addresses for clients, and how clients authenticate.")
        static let upstreams = Key(
            "upstreams", .upstreams, whenMissing: .refused, "The services behind the gateway, by name.")
        static let resolver = Key(
            "resolver", .section(ResolverConfiguration.Keys.section, ResolverConfiguration.init),
            whenMissing: .means("{}"),
            "How the names of upstream servers are resolved.")
        static let routes = Key(
            "routes", .routes, whenMissing: .refused, "Where requests are forwarded, and what they must prove.")
        static let apps = Key(
            "apps", .apps, whenMissing: .means("[]"), "The apps whose devices may be registered.")
        static let registry = Key(
            "registry", .section(RegistryConfiguration.Keys.section, RegistryConfiguration.init), whenMissing: .allowed,
            "The store of registered devices and their counters.")
        static let enrolment = Key(
            "enrolment", .section(EnrolmentConfiguration.Keys.section, EnrolmentConfiguration.init),
            whenMissing: .allowed,
            "Enrolment: how phones become registered devices with a certificate.")
        static let administration = Key(
            "administration", .section(AdministrationConfiguration.Keys.section, AdministrationConfiguration.init),
            whenMissing: .allowed,
            "The administration interface of the running gateway.")
        static let proof = Key(
            "proof", .section(ProofConfiguration.Keys.section, ProofConfiguration.init), whenMissing: .means("{}"),
            "The maximum age of request proofs.")
        static let limits = Key(
            "limits", .section(LimitsConfiguration.Keys.section, LimitsConfiguration.init), whenMissing: .means("{}"),
            "Limits for clients.")
        static let timeouts = Key(
            "timeouts", .section(TimeoutsConfiguration.Keys.section, TimeoutsConfiguration.init),
            whenMissing: .means("{}"),
            "Timeouts for clients.")
        static let stripHeaders = Key(
            "strip_headers", .distinct(.text(ConfiguredFieldName.expected, ConfiguredFieldName.parse), minimum: 0),
            whenMissing: .means("[]"),
            "Request fields to remove, in addition to those that are always removed.")
        static let forwardHeaders = Key(
            "forward_headers",
            .distinct(.text(ConfiguredFieldName.expectedForwarded, ConfiguredFieldName.parseForwarded), minimum: 0),
            whenMissing: .means("[]"),
            "Request fields to forward although they are otherwise removed or refused.")
        static let log = Key(
            "log", .section(LogConfiguration.Keys.section, LogConfiguration.init), whenMissing: .means("{}"),
            "What is logged, and where.")
        static let tracing = Key(
            "tracing", .section(TracingConfiguration.Keys.section, TracingConfiguration.init), whenMissing: .allowed,
            "The export of request spans.")
        static let denialURI = Key(
            "denial_uri", .text(URIPrefix.expected, matching: "^[A-Za-z][A-Za-z0-9+.-]*:", URIPrefix.parse),
            whenMissing: .means("'urn:attestgate:denial:'"),
            "The prefix of the member error_uri of denials; the denial code follows it.")

        static let section = Section(
            path: "",
            settings: [
                Inclusion.key.setting, workers.setting, watch.setting, listeners.setting, upstreams.setting,
                resolver.setting,
                routes.setting, apps.setting, registry.setting, enrolment.setting, administration.setting,
                proof.setting, limits.setting,
                timeouts.setting, stripHeaders.setting, forwardHeaders.setting, log.setting, tracing.setting,
                denialURI.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let workers = reader.read(Keys.workers)
        let watch = reader.read(Keys.watch)
        let listeners = reading.sparingFiles(if: !reading.role.servesRequests) { reader.read(Keys.listeners) }
        let upstreams = reading.sparingFiles(if: !reading.role.servesRequests) { reader.read(Keys.upstreams) }
        let resolver = reader.read(Keys.resolver)
        let routes = reader.read(Keys.routes)
        let apps = reader.read(Keys.apps)
        let registry = reader.read(Keys.registry)
        let enrolment = reading.sparingFiles(if: !reading.role.enrols) { reader.read(Keys.enrolment) }
        let administration = reader.read(Keys.administration)
        let proof = reader.read(Keys.proof)
        let limits = reader.read(Keys.limits)
        let timeouts = reader.read(Keys.timeouts)
        let strippedFields = reader.read(Keys.stripHeaders)
        let forwardedFields = reader.read(Keys.forwardHeaders)
        let log = reader.read(Keys.log)
        let tracing = reading.sparingFiles(if: !reading.role.servesRequests) { reader.read(Keys.tracing) }
        let denialURI = reader.read(Keys.denialURI)
        UpstreamReferences.check(item, reading)
        AppReferences.check(item, reading)
        if let routes, listeners != nil { HostReferences.check(routes, in: item, reading) }
        if let routes, let limits { HeldContent.check(routes, limits, in: item, reading) }
        if let upstreams, let routes, let limits {
            TunnelCapacity.check(routes, upstreams, limits, in: item, reading)
            DeviceShare.check(upstreams, limits, in: item, reading)
        }
        DeviceRate.check(item, reading)
        if let strippedFields { FieldReferences.check(stripping: strippedFields, in: item, reading) }
        EnrolmentReferences.check(item, reading)
        if let apps {
            EnrolmentReferences.checkRoots(apps, in: item, reading)
            EnrolmentReferences.checkCeilings(apps, in: item, reading)
            EnrolmentReferences.checkAskable(apps, in: item, reading)
        }
        if let listeners, let enrolment {
            EnrolmentReferences.check(enrolment, listeners, administration, in: item, reading)
        }
        if let listeners, let administration {
            AdministrationSeparation.check(administration, listeners, enrolment, in: item, reading)
        }
        if let listeners {
            OwnAddresses(listeners, enrolment, administration).check(in: item, reading)
        }
        WrittenFiles(registry, administration, log, in: item).check(reading)
        guard enrolment != nil || !reader.has(Keys.enrolment) else { return nil }
        guard let workers, let listeners, let upstreams, let resolver, let routes, let apps, let proof, let limits,
            let timeouts,
            let strippedFields, let forwardedFields, let log, let denialURI, watch != nil || !reader.has(Keys.watch),
            tracing != nil || !reader.has(Keys.tracing)
        else { return nil }
        role = reading.role
        self.workers = workers
        self.watch = watch
        self.listeners = listeners
        self.upstreams = upstreams
        self.resolver = resolver
        self.routes = routes.map { $0.apps.isEmpty ? $0.admitting(apps.map(\.id)) : $0 }
        self.apps = apps
        self.registry = registry
        self.enrolment = enrolment
        self.administration = administration
        self.proof = proof
        self.limits = limits
        self.timeouts = timeouts
        self.strippedFields = strippedFields
        self.forwardedFields = forwardedFields
        self.log = log
        self.tracing = tracing
        self.denialURI = denialURI
        mentions = reading.mentions
    }
}

extension Kind where Value == Configuration.Workers {
    fileprivate static var workers: Kind {
        let number = Kind<Int>.integer(1...256)
        let expected = "`auto`, or \(number.expected)"
        let shape = Shape.either([.choice(["auto"]), number.shape])
        return Kind(expected: expected, shape: shape) { item, reading in
            if item.text == "auto" { return .automatic }
            if let text = item.text, Decimal.parse(text[...]) == nil {
                reading.refuse(
                    item.place, "found \(item.summary)", expected: expected,
                    suggestion: Spelling.nearest(to: text, among: ["auto"]))
                return nil
            }
            return number.read(item, reading).map { .exactly($0) }
        }
    }
}

/// The maximum age of request proofs.
public struct ProofConfiguration: Equatable, Sendable {
    /// The maximum age of a proof, in whole seconds.
    public let maxAge: Duration
    /// The lifetime of a challenge, in whole seconds.
    public let challengeLife: Duration
}

extension ProofConfiguration {
    enum Keys {
        static let maxAge = Key(
            "max_age", .wholeSeconds(.seconds(10) ... .seconds(3600)), unit: "since the proof was made",
            whenMissing: .means("300s"), "The maximum age of a request proof.")
        static let challengeLife = Key(
            "challenge_life", .wholeSeconds(.seconds(10) ... .seconds(3600)), unit: "since the challenge was issued",
            whenMissing: .means("300s"), "The lifetime of a challenge.")

        static let section = Section(path: "proof", settings: [maxAge.setting, challengeLife.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let maxAge = reader.read(Keys.maxAge)
        let challengeLife = reader.read(Keys.challengeLife)
        guard let maxAge, let challengeLife else { return nil }
        self.maxAge = maxAge
        self.challengeLife = challengeLife
    }
}

/// Rules between the request fields that are removed, forwarded, and admitted by routes.
private enum FieldReferences {
    /// Refuses forwarded fields that are also removed, and unusual fields that resemble a removed or covered field.
    ///
    /// - Parameters:
    ///   - stripped: the removed fields in lower case.
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func check(stripping stripped: [String], in root: Item, _ reading: Reading) {
        for entry in root[Configuration.Keys.forwardHeaders.setting.name]?.elements ?? [] {
            guard let name = entry.text?.lowercased() else { continue }
            if stripped.contains(name) {
                reading.refuse(entry.place, "\(entry.summary) is also among the `strip_headers`")
            }
            if ProtectedFields.refused.contains(where: { $0.matches(name) }) {
                reading.warn(
                    entry.place,
                    "with \(entry.summary) a client can have a service execute another method or path than the gateway allowed",
                    expected: "a service that ignores the field, or no \(entry.summary)")
            }
        }
        for route in root[Configuration.Keys.routes.setting.name]?.elements ?? [] {
            // A service could mistake the field for one that the gateway removes or a proof covers.
            let covered = (route[RouteConfiguration.Keys.components.setting.name]?.elements ?? []).compactMap {
                $0.text?.lowercased()
            }
            for entry in route[RouteConfiguration.Keys.unusualHeaders.setting.name]?.elements ?? [] {
                guard let name = entry.text.map(ProtectedFields.plain), (stripped + covered).contains(name) else {
                    continue
                }
                reading.refuse(entry.place, ConfiguredFieldName.confusion(of: entry.summary, with: name))
            }
        }
    }
}
