internal import EventLoop
internal import Gateway
internal import GatewayConfiguration
internal import Policy
internal import Registry
internal import TLS
internal import Upstream
internal import Vocabulary

/// The policies and decision points of a configuration, with all files read.
struct PolicyBlueprint: Sendable {
    /// In the order of their names.
    let policies: [DevicePolicy]
    /// In the order of their names, without the addresses of servers.
    let decisionPoints: [DecisionPointSettings]

    init(_ configuration: Configuration) throws(StartupError) {
        let names = configuration.policies.keys.sorted()
        let points = configuration.decisionPoints.sorted { $0.key < $1.key }
        policies = names.compactMap { name in
            configuration.policies[name].map { policy in
                let point = policy.decisionPoint.flatMap { name in points.firstIndex { $0.key == name } }
                return DevicePolicy(
                    name: name, apple: Self.apple(policy), android: Self.android(policy), decisionPoint: point,
                    isPointSimulated: point.map { points[$0].value.simulate == .on } ?? false,
                    isSimulated: policy.simulate == .on, simulation: policy.simulation.flatMap(names.firstIndex(of:)))
            }
        }
        decisionPoints = try points.map { name, point throws(StartupError) in try DecisionPointSettings(name, point) }
    }

    /// Returns the index of a policy. Nil for no policy.
    static func place(of policy: String?, in configuration: Configuration) -> Int? {
        policy.flatMap(configuration.policies.keys.sorted().firstIndex(of:))
    }

    // MARK: - Conditions

    private static func apple(_ policy: PolicyConfiguration) -> [Condition] {
        var conditions: [Condition] = []
        if let ios = policy.ios {
            if let version = ios.minimumSystem {
                conditions.append(
                    ios.minimumSystemSource == .claimed ? .minimumClaimedSystem(version) : .minimumSystem(version))
            }
            if let version = ios.minimumAppVersion.flatMap({ AppVersion(bundleVersion: $0) }) {
                conditions.append(.minimumApp(version))
            }
            if let risk = ios.maximumRisk { conditions.append(.maximumRisk(UInt32(clamping: risk))) }
            if let categories = ios.distribution {
                conditions.append(
                    .distribution(categories.reduce(0) { $1.number < 64 ? $0 | 1 << UInt64($1.number) : $0 }))
            }
        }
        return conditions + common(policy)
    }

    private static func android(_ policy: PolicyConfiguration) -> [Condition] {
        var conditions: [Condition] = []
        if let android = policy.android {
            if let version = android.minimumSystem { conditions.append(.minimumSystem(version)) }
            if let code = android.minimumAppVersion.flatMap({ AppVersion(code: Int64($0)) }) {
                conditions.append(.minimumApp(code))
            }
            if let level = android.minimumPatchLevel { conditions.append(.minimumPatchLevel(UInt32(level.number))) }
            if let day = android.minimumVendorPatchLevel {
                conditions.append(.minimumVendorPatchLevel(UInt32(day.number)))
            }
            if let day = android.minimumBootPatchLevel {
                conditions.append(.minimumBootPatchLevel(UInt32(day.number)))
            }
            switch android.keyProtection {
            case .tee: conditions.append(.keyProtection(.trustedEnvironment))
            case .strongbox: conditions.append(.keyProtection(.strongBox))
            case nil: break
            }
            if android.certificateKey != nil { conditions.append(.certificateKeyAttested) }
            if android.boot != nil { conditions.append(.boot(.verified)) }
            if android.bootloader != nil { conditions.append(.bootloaderLocked) }
            if let verdict = android.playIntegrity {
                conditions.append(.integrity(IntegrityLevels(verdicts: [verdict.rawValue])))
            }
            if let age = android.playIntegrityAge { conditions.append(.integrityWithin(age.components.seconds)) }
            if android.deviceSecure != nil { conditions.append(.claimedDeviceSecure) }
        }
        return conditions + common(policy)
    }

    private static func common(_ policy: PolicyConfiguration) -> [Condition] {
        var conditions: [Condition] = []
        if let age = policy.attestedWithin { conditions.append(.attestedWithin(age.components.seconds)) }
        if let kinds = policy.admission {
            conditions.append(.admission(kinds.compactMap { AdmissionKind(rawValue: $0.rawValue) }))
        }
        return conditions
    }
}

extension DecisionPointSettings {
    fileprivate init(_ name: String, _ point: DecisionPointConfiguration) throws(StartupError) {
        let section = "decision point \(name)"
        var server = try UpstreamSettings.Server(point.url.server, of: section)
        if point.tls != nil { server.certificateName = point.tls?.serverName ?? point.url.server.host }
        // Names of upstreams have no slash.
        var upstream = UpstreamSettings(name: "decision_points/\(name)", servers: [server])
        do { upstream.tls = try point.tls.map(ClientContext.Settings.init) } catch {
            throw StartupError(in: section, error)
        }
        upstream.speaks = point.speaks == .http2 ? .http2 : .http11
        upstream.tls?.applicationProtocol = upstream.speaks
        let timeout = TimeSpan(point.timeout)
        upstream.connections = point.connections
        upstream.idleConnections = point.connections
        upstream.waiting = point.waiting
        // The timeout of the whole call applies.
        upstream.waitingTimeout = timeout
        upstream.connectTimeout = timeout
        upstream.responseTimeout = timeout
        upstream.contentTimeout = timeout
        upstream.ejection = EjectionRules(point.ejection)
        upstream.health = point.health.map(HealthCheckRules.init)
        self.init(
            name: name, upstream: upstream,
            decision: DecisionSettings(
                format: point.kind == .authzen ? .authzen : point.profile == .dsr ? .opaReference : .opa,
                facts: Self.facts(point.sends), headers: point.headers, mapping: point.mapping.mapping),
            url: point.url.text, host: point.url.authority,
            path: point.path.map { point.url.path + $0 },
            token: try FileContents.token(point.tokenPath, of: section), timeout: timeout,
            cache: TimeSpan(point.cache))
    }

    private static func facts(_ names: [DecisionPointConfiguration.Fact]) -> DecisionFacts {
        names.reduce(into: []) { facts, name in
            // A test compares the names of both.
            if let known = DecisionFacts.named.first(where: { $0.name == name.rawValue }) {
                facts.formUnion(known.facts)
            }
        }
    }
}
