internal import Glibc
internal import Vocabulary

/// The complete configuration that one conf file describes.
public struct Configuration: Equatable, ConfigurationSection {
    /// Read before all others: see ``Inclusion``.
    @Setting(
        Inclusion.kind,
        "Files whose settings are merged into this file: lists and upstreams are joined, other settings appear once.")
    var include: [Inclusion.Pattern]?
    @Setting(
        Workers.kind, unit: "threads", default: "auto", isUsed: \.servesRequests, restart: Workers.restart,
        "The number of worker threads; each has its own event loop and listeners.")
    public var workers: Workers
    /// Nil if files are not checked.
    @Setting(
        .duration(.seconds(1)...(.seconds(3_600))),
        "How often conf, certificate, key, authority and revocation list files are checked for changes.")
    public var watch: Duration?
    /// Nil if session tickets are read by this process alone, or the registry has their secret.
    @Setting(
        key: "session_secrets", .secretFile("a readable file"), isUsed: \.servesRequests,
        "The file with one or two secrets of TLS session tickets, without a registry; only its owner may be able to read it."
    )
    public var sessionSecretsPath: String?
    /// At least one listener; no address twice.
    @Setting(
        required: ListenerConfiguration.list, isUsed: \.servesRequests,
        "The addresses for clients, and how clients authenticate.")
    public var listeners: [ListenerConfiguration]
    @Setting(
        required: UpstreamConfiguration.named, isUsed: \.servesRequests, "The services behind the gateway, by name.")
    public var upstreams: [String: UpstreamConfiguration]
    @Setting(.section, default: "{}", "How the names of upstream servers are resolved.")
    public var resolver: ResolverConfiguration
    /// At least one route. Names are unique, and every upstream exists.
    @Setting(
        required: RouteConfiguration.list, "Where requests are forwarded, and what they must prove.")
    public var routes: [RouteConfiguration]
    @Setting(
        PolicyConfiguration.named, default: "{}", "What routes demand of devices beyond their registration, by name.")
    public var policies: [String: PolicyConfiguration]
    @Setting(
        DecisionPointConfiguration.named, default: "{}", isUsed: \.servesRequests,
        "The policy decision points that policies ask, by name.")
    public var decisionPoints: [String: DecisionPointConfiguration]
    /// Present if a route requires device tokens.
    @Setting(.section, isUsed: \.servesRequests, "The device tokens that routes require.")
    public var deviceTokens: DeviceTokensConfiguration?
    /// Present if a route requires client attestations.
    @Setting(.section, isUsed: \.servesRequests, "The client attestations that routes require.")
    public var clientAttestations: ClientAttestationsConfiguration?
    /// Each app once. At least one if a route requires more than a certificate.
    @Setting(AppConfiguration.list, default: "[]", "The apps whose devices may be registered.")
    public var apps: [AppConfiguration]
    /// Present if a route requires more than a certificate.
    @Setting(
        .section, restart: .needed(for: "another registry", when: { $0 }),
        "The store of registered devices and their counters.")
    public var registry: RegistryConfiguration?
    /// If present, so are a registry and apps. The role decides whether this process enrols.
    @Setting(
        .section, isUsed: \.enrols, restart: .needed(for: "adding or removing the section", when: { $0 == nil }),
        "Enrolment: how phones become registered devices with a certificate.")
    public var enrolment: EnrolmentConfiguration?
    /// If present, so are a registry and apps. The role decides whether this process serves it.
    @Setting(
        .section, isUsed: \.federates, restart: .needed(for: "adding or removing the section", when: { $0 == nil }),
        "The federation: how one app authorises other apps and services.")
    public var federation: FederationConfiguration?
    @Setting(
        key: "administration", AdministrationChoice.kind,
        restart: .needed(
            for: "another socket or address", when: { $0?.configuration?.places },
            hint: "; name the current socket with --socket"),
        "The administration interface of the running gateway; by default a socket in the runtime directory, if there is one."
    )
    var administrationChoice: AdministrationChoice?
    @Setting(.section, default: "{}", "The maximum age of request proofs.")
    public var proof: ProofConfiguration
    @Setting(.section, default: "{}", "Limits for clients.")
    public var limits: LimitsConfiguration
    @Setting(.section, default: "{}", "Timeouts for clients.")
    public var timeouts: TimeoutsConfiguration
    /// In lower case.
    @Setting(
        key: "strip_headers", .distinct(.text(ConfiguredFieldName.expected, ConfiguredFieldName.parse), minimum: 0),
        default: "[]", "Request fields to remove, in addition to those that are always removed.")
    public var strippedFields: [String]
    /// In lower case.
    @Setting(
        key: "forward_headers",
        .distinct(.text(ConfiguredFieldName.expectedForwarded, ConfiguredFieldName.parseForwarded), minimum: 0),
        default: "[]", "Request fields to forward although they are otherwise removed or refused.")
    public var forwardedFields: [String]
    @Setting(.section, default: "{}", "What is logged, and where.")
    public var log: LogConfiguration
    /// Nil if no spans are exported.
    @Setting(.section, isUsed: \.servesRequests, "The export of request spans.")
    public var tracing: TracingConfiguration?
    @Setting(
        .text(URIPrefix.expected, matching: "^[A-Za-z][A-Za-z0-9+.-]*:", URIPrefix.parse),
        default: "'urn:attestgate:denial:'",
        "The prefix of the member error_uri of denials; the denial code follows it.")
    public var denialURI: String

    static let section = Section("", of: Self.self)
    /// All sections of the conf file, each once and before those within it. The section at the top is the first.
    static let sections = section.withInner()

    /// The role of the process for which the file was read.
    public private(set) var role = Role.both
    /// Nil without an administration interface.
    public var administration: AdministrationConfiguration? { administrationChoice?.configuration }
    /// The paths of the conf file and of the files that it includes, in the order of reading.
    public private(set) var sources: [String] = []
    /// The places where the file names files, addresses and servers.
    public private(set) var mentions = SourceReferences(file: "")

    public enum Workers: Equatable, Sendable {
        /// One worker for each processor.
        case automatic
        case exactly(Int)

        public var count: Int {
            switch self {
            case .automatic: max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
            case .exactly(let count): count
            }
        }
    }

    /// Returns the reason why a process with this configuration cannot serve another one, beginning with the setting.
    /// Nil if it can.
    public func obstacle(to next: Configuration) -> String? { obstacle(to: next, role) }

    /// The defaults that this file relies on and that an earlier version had otherwise, in one sentence each.
    public var changedDefaults: [String] {
        var notes: [String] = []
        let apps = apps.filter { !$0.isCounterWritten }.map(\.id.description)
        if !apps.isEmpty {
            notes.append(
                "`counter` of \(apps.joined(separator: ", ")) is `window 1024`, which was `strict` in earlier versions")
        }
        if !_administrationChoice.isWritten {
            notes.append(
                "without `administration` a gateway under systemd has a socket in its runtime directory; earlier versions had none. "
                    + "`administration: off` keeps it so")
        }
        return notes
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
        let reading = Reading(source: text, files: .system, top: section)
        // An included file may be invalid, too.
        let root = Inclusion.root(reading) ?? Document.root(reading, of: reading.source)
        guard let administration = root?["administration"] else {
            // Of a text that is not even a mapping nothing is known.
            return root?.entries.isEmpty ?? true ? nil : AdministrationChoice.standardSocket(reading)
        }
        return administration["socket"].flatMap { item in item.text.map { reading.resolve(path: $0, at: item.place) } }
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
            source: try SourceGuard.text(of: bytes, file: path), files: files, top: section, role: role)
        guard let root = Inclusion.root(reading), var configuration = Configuration.read(root, reading) else {
            try reading.fail()
        }
        configuration.role = role
        configuration.sources = reading.sources.map(\.file)
        configuration.mentions = reading.mentions
        return (configuration, try reading.finish())
    }
}

extension Configuration {
    /// The fields in which proxies state certificates, in lower case.
    public var certificateFields: [String] { Self.certificateFields(listeners) }

    private static func certificateFields(_ listeners: [ListenerConfiguration]) -> [String] {
        listeners.compactMap(\.forwardedCertificate).flatMap { [$0.fieldName] + [$0.chainFieldName].compactMap(\.self) }
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        let enrolment = _enrolment.value.flatMap(\.self)
        let federation = _federation.value.flatMap(\.self)
        if !_administrationChoice.isWritten { _administrationChoice.derive(.standard(reading, at: item.place)) }
        let administration = _administrationChoice.value.flatMap { $0?.configuration }
        UpstreamReferences.check(item, reading)
        AppReferences.check(item, reading)
        PolicyReferences.check(item, reading)
        DeviceTokenReferences.check(item, reading)
        ClientAttestationReferences.check(item, reading)
        if let routes = _routes.value, let listeners = _listeners.value {
            HostReferences.check(routes, listeners, in: item, reading)
        }
        if let routes = _routes.value, let limits = _limits.value {
            HeldContent.check(routes, limits, in: item, reading)
        }
        if let upstreams = _upstreams.value, let routes = _routes.value, let limits = _limits.value {
            TunnelCapacity.check(routes, upstreams, limits, in: item, reading)
            DeviceShare.check(upstreams, limits, in: item, reading)
        }
        DeviceRate.check(item, reading)
        if _sessionSecretsPath.isWritten, _registry.isWritten {
            reading.refuse(
                _sessionSecretsPath.place, "the secrets of session tickets are in the file `registry.secret`",
                expected: "no `session_secrets` beside a `registry`")
        }
        if let strippedFields = _strippedFields.value {
            FieldReferences.check(
                stripping: strippedFields, certificates: Self.certificateFields(_listeners.value ?? []), in: item,
                reading)
        }
        EnrolmentReferences.check(item, reading)
        FederationReferences.check(item, reading)
        if let apps = _apps.value {
            EnrolmentReferences.checkRoots(apps, in: item, reading)
            EnrolmentReferences.checkCeilings(apps, in: item, reading)
            EnrolmentReferences.checkAskable(apps, in: item, reading)
        }
        if let android = enrolment?.android, let apps = _apps.value, let registry = _registry.value.flatMap(\.self) {
            StatusListReferences.check(android, apps, registry, in: item, reading)
        }
        if let listeners = _listeners.value {
            if let enrolment {
                EnrolmentReferences.check(enrolment, listeners, administration, in: item, reading)
            }
            if let administration {
                AdministrationSeparation.check(administration, listeners, enrolment, federation, in: item, reading)
            }
            if let federation {
                FederationReferences.check(federation, listeners, enrolment, administration, in: item, reading)
            }
            OwnAddresses(listeners, enrolment, federation, administration).check(in: item, reading)
        }
        WrittenFiles(
            _registry.value.flatMap(\.self), enrolment, _apps.value, administration, _log.value, in: item
        ).check(reading)
        if let routes = _routes.value, let apps = _apps.value {
            AppConfiguration.checkDevelopmentRoutes(apps, routes, in: item, reading)
            _routes.derive(routes.map { $0.admitting(apps.map(\.id)) })
        }
        return true
    }
}

extension Configuration.Workers {
    fileprivate static var kind: Kind<Self> {
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

    /// An upgrade does not take fewer workers.
    fileprivate static var restart: RestartRule<Self> {
        RestartRule { old, new in
            if new.count < old.count { return "fewer threads require a restart" }
            return new.count > old.count ? "more threads require a restart\(RestartRule<Self>.orUpgrade)" : nil
        }
    }
}

/// How long request proofs and challenges are valid.
public struct ProofConfiguration: Equatable, ConfigurationSection {
    @Setting(
        .wholeSeconds(.seconds(10) ... .seconds(3600)), unit: "since the proof was made", default: "300s",
        "The maximum age of a request proof.")
    public var maxAge: Duration
    @Setting(
        .wholeSeconds(.seconds(10) ... .seconds(3600)), unit: "since the challenge was issued", default: "300s",
        "The lifetime of a challenge.")
    public var challengeLife: Duration

    static let section = Section("proof", of: Self.self)
}

/// Rules between the request fields that are removed, forwarded, and admitted by routes.
private enum FieldReferences {
    /// Refuses forwarded fields that are also removed, and unusual fields that resemble a removed or covered field.
    ///
    /// - Parameters:
    ///   - stripped: the removed fields in lower case.
    ///   - certificates: the fields in which proxies state certificates, in lower case.
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func check(
        stripping stripped: [String], certificates: [String], in root: Item, _ reading: Reading
    ) {
        for entry in root["forward_headers"]?.elements ?? [] {
            guard let name = entry.text?.lowercased() else { continue }
            if certificates.contains(name) {
                reading.refuse(entry.place, "\(entry.summary) is the field of a `forwarded_certificate`")
            }
            if stripped.contains(name) {
                reading.refuse(entry.place, "\(entry.summary) is also among the `strip_headers`")
            }
            if states(name, in: root) {
                reading.refuse(
                    entry.place,
                    "\(entry.summary) is also among the fields in `forwarded` of an upstream, which would get two of them",
                    expected: "the field in one of the two lists"
                )
            }
            if ProtectedFields.refused.contains(where: { $0.matches(name) }) {
                reading.warn(
                    entry.place,
                    "with \(entry.summary) a client can have a service execute another method or path than the gateway allowed",
                    expected: "a service that ignores the field, or no \(entry.summary)")
            }
        }
        checkUnusual(stripped + certificates, in: root, reading)
    }

    /// Returns whether the gateway itself states a field to an upstream.
    private static func states(_ name: String, in root: Item) -> Bool {
        (root["upstreams"]?.entries ?? []).contains { upstream in
            (upstream.value["forwarded"]?.elements ?? []).contains { $0.text == name }
        }
    }

    private static func checkUnusual(_ stripped: [String], in root: Item, _ reading: Reading) {
        for route in root["routes"]?.elements ?? [] {
            // A service could mistake the field for one that the gateway removes or a proof covers.
            let covered = (route["components"]?.elements ?? []).compactMap {
                $0.text?.lowercased()
            }
            for entry in route["unusual_headers"]?.elements ?? [] {
                guard let name = entry.text.map(ProtectedFields.plain), (stripped + covered).contains(name) else {
                    continue
                }
                reading.refuse(entry.place, ConfiguredFieldName.confusion(of: entry.summary, with: name))
            }
        }
    }
}
