/// A policy decision point: an external service that policies ask about requests.
public struct DecisionPointConfiguration: Equatable, ConfigurationSection {
    @Setting(required: .choice, "The protocol of the decision point.")
    public var kind: Protocol
    @Setting(required: OutboundURL.kind, "The URL of the decision point.")
    public var url: OutboundURL
    /// Nil for AuthZEN's metadata at the URL.
    @Setting(
        .text(PathPrefix.expected, matching: PathPrefix.pattern, PathPrefix.parse),
        "The path of decisions; for AuthZEN, by default the one that its metadata names.")
    public var path: String?
    @Setting(.choice, default: "own", "The form of OPA's input and result.")
    public var profile: Profile
    /// Nil for `http`, on this machine.
    @Setting(
        .section(UpstreamTLSConfiguration.section.at("decision_points.tls")),
        "TLS to the decision point; required with an https URL.")
    public var tls: UpstreamTLSConfiguration?
    @Setting(key: "protocol", .choice, default: "http/1.1", "The protocol of connections.")
    public var speaks: ProtocolName
    @Setting(
        key: "token_file", .secretFile("a readable file"), "The file with the bearer token for the decision point.")
    public var tokenPath: String?
    @Setting(
        .duration(.milliseconds(10) ... .seconds(10)), unit: "since the decision point was asked", default: "200ms",
        "The timeout of a decision, including the connection.")
    public var timeout: Duration
    @Setting(
        .wholeSeconds(.zero ... .seconds(3600)), unit: "since the decision", default: "0s",
        "How long the same question has the same answer, in each worker.")
    public var cache: Duration
    @Setting(
        .distinct(.choice, minimum: 0), default: "[method, route, host, device, app, platform, posture]",
        "What the decision point learns of a request.")
    public var sends: [Fact]
    /// In lower case.
    @Setting(
        .distinct(.text(ConfiguredFieldName.expectedSent, ConfiguredFieldName.parseSent), minimum: 0, maximum: 16),
        default: "[]", "The request fields that the decision point learns.")
    public var headers: [String]
    @Setting(.section, default: "{}", "How AuthZEN's subject, action and resource are made.")
    public var mapping: MappingConfiguration
    @Setting(.choice, default: "deny", "What happens to requests without a decision.")
    var onFailure: OnFailure
    @Setting(.choice, default: "false", "Whether its decisions are only counted and logged.")
    public var simulate: Switch
    @Setting(
        .integer(1...65_535), unit: "connections per worker", default: "64", "The maximum number of connections.")
    public var connections: Int
    @Setting(
        .integer(0...65_535), unit: "requests per worker", default: "256",
        "The maximum number of requests that wait for a connection.")
    public var waiting: Int
    @Setting(
        .section(EjectionConfiguration.section.at("decision_points.ejection")), default: "{}",
        "Ejection of a decision point that fails.")
    public var ejection: EjectionConfiguration
    @Setting(
        .section(HealthCheckConfiguration.section.at("decision_points.health")), "Health checks of the decision point.")
    public var health: HealthCheckConfiguration?

    static let section = Section("decision_points", of: Self.self)

    static var named: Kind<[String: Self]> { .named("a decision point") }

    public enum `Protocol`: String, CaseIterable, Sendable {
        /// The Access Evaluation API of AuthZEN.
        case authzen
        /// The Data API of Open Policy Agent.
        case opa
    }

    public enum Profile: String, CaseIterable, Sendable {
        case own
        /// The input and result of gematik's reference system.
        case dsr
    }

    /// What a decision point learns. Path and query may contain ids of patients.
    public enum Fact: String, CaseIterable, Sendable {
        case method
        case route
        case host
        case device
        case app
        case platform
        case posture
        case subject
        case clientNetwork = "client_network"
        case path
        case query
    }

    enum OnFailure: String, CaseIterable, Sendable {
        case deny
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard isComplete else { return false }
        if url.isEncrypted, tls == nil {
            reading.refuse(
                _url.place, "`tls` is missing: the authorities of the decision point's certificate",
                expected: "`tls: { authorities: FILE }`")
            return false
        }
        if !url.isEncrypted, tls != nil {
            reading.refuse(
                _tls.place, "`tls` has no effect with \(url.text)", expected: "an https URL as `url`, or no `tls`")
            return false
        }
        switch kind {
        case .opa:
            guard let path else {
                reading.refuse(
                    item.place(of: "path"), "`path` is missing: OPA has none by default",
                    expected: "the path of a rule, such as `/v1/data/health/allow`")
                return false
            }
            guard path.hasPrefix("/v1/data/") else {
                reading.refuse(
                    _path.place, "\(Printable.quoted(path)) is no path of OPA's Data API",
                    suggestion: "/v1/data" + path)
                return false
            }
            if _mapping.isWritten {
                reading.refuse(
                    _mapping.place, "`mapping` has no effect with `kind: opa`",
                    expected: "`kind: authzen`, or no `mapping`")
                return false
            }
        case .authzen:
            if _profile.isWritten {
                reading.refuse(
                    _profile.place, "`profile` has no effect with `kind: authzen`",
                    expected: "`kind: opa`, or no `profile`")
                return false
            }
            if path == nil, !url.isEncrypted {
                reading.refuse(
                    _url.place, "metadata are read from an https URL only", expected: "an https URL, or `path`")
                return false
            }
        }
        reading.mention(.server(url.server.description), at: _url.place)
        return true
    }
}
