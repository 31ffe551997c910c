public import Vocabulary

/// The federation: one app on a phone authorises other apps and services.
public struct FederationConfiguration: Equatable, ConfigurationSection {
    /// A literal address that no other listener has.
    @Setting(
        required: .text(
            "a literal address and a port, for example 127.0.0.1:8447", matching: ServerAddress.literalPattern,
            ServerAddress.parseLiteral),
        "The address and port to listen on; not one of another listener.")
    public var address: ServerAddress
    /// Nil if clients connect directly.
    @Setting(
        .section, "Load balancers in front of the listener that send the client's address (PROXY protocol).")
    public var proxyProtocol: ProxyProtocolConfiguration?
    @Setting(ProtocolName.list, default: ProtocolName.standard, ProtocolName.summary)
    public var protocols: [ProtocolName]
    @Setting(required: .section, "The listener's certificate.")
    public var tls: ListenerConfiguration.TLS
    /// Nil if no client certificate is requested.
    @Setting(
        .section, "The client certificates of phones, for request proofs.")
    public var clients: ListenerConfiguration.Clients?
    @Setting(required: ServiceURL.kind, "The listener's public URL.")
    public var url: ServiceURL
    @Setting(.text("a text of 1 to 64 bytes", parseName), default: "AttestGate", "The name for apps and services.")
    public var name: String
    @Setting(
        .choice, default: "assertion",
        "What calls of instances must have: an assertion or token, or a certificate and a request proof besides.")
    public var require: Requirement
    @Setting(.choice, default: "optional", "Whether a device must have been admitted for a person.")
    public var person: Person
    @Setting(
        required: .distinct(.text("a word of a scope (RFC 6749 section 3.3)", parseScope), minimum: 1, maximum: 64),
        "The scopes that an app's instance may have, and pass on.")
    public var scopes: [String]
    @Setting(
        key: "operators", .file("a readable file"),
        "The file with the operators whose services may join: a name and the SHA-256 of a token in each line.")
    public var operatorsPath: String?
    @Setting(
        .list(of: .section, minimum: 0, maximum: 64) { _, _ in }, default: "[]",
        "The first version of an app that is admitted.")
    public var minimumVersions: [FederationVersionConfiguration]
    @Setting(
        key: "assertions_without_exp",
        .text("`refuse`, or a whole number of minutes up to 30m", matching: "^(refuse|[0-9]+m)$", parseExpiry),
        default: "refuse", "How long an assertion without `exp` is valid after its `iat`.")
    public var assertionLife: AssertionLife
    @Setting(
        .wholeSeconds(.seconds(60) ... .seconds(31_536_000)), unit: "since it was issued", default: "30d",
        "The validity of an instance's token.")
    public var instanceLife: Duration
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(31_536_000)), unit: "since it was issued", default: "1h",
        "The validity of a service's token.")
    public var serviceLife: Duration
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(31_536_000)), unit: "since it was issued", default: "1h",
        "The validity of another app's token.")
    public var appLife: Duration
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(600)), unit: "since it was issued", default: "1m",
        "The validity of a code.")
    public var codeLife: Duration
    @Setting(.section, default: "{}", "How the documents of services are fetched.")
    public var services: FederationServicesConfiguration
    @Setting(.size(1024...(64 << 10)), unit: "bytes", default: "64KiB", "The maximum size of request content.")
    public var contentLimit: Int
    /// A /64 counts as one IPv6 address.
    @Setting(
        .integer(1...100_000), unit: "requests per client address", default: "600", "The maximum rate of requests.")
    public var requestsPerMinute: Int
    @Setting(
        .integer(1...100_000), unit: "connections", default: "1000",
        "The maximum number of open client connections.")
    public var connections: Int
    /// A /64 counts as one IPv6 address.
    @Setting(
        .integer(1...100_000), unit: "connections per client address", default: "64",
        "The maximum number of open connections of one client.")
    public var connectionsPerAddress: Int

    static let section = Section("federation", of: Self.self)

    public enum Requirement: String, CaseIterable, Sendable {
        case assertion
        case requestProof = "request-proof"
    }

    public enum Person: String, CaseIterable, Sendable {
        case optional
        case required
    }

    /// What becomes of assertions without `exp`.
    public enum AssertionLife: Equatable, Sendable {
        case refused
        case seconds(Int64)
    }

    private static func parseName(_ text: String) throws(InvalidValue) -> String {
        guard (1...64).contains(text.utf8.count), !text.unicodeScalars.contains(where: { $0.value < 0x20 }) else {
            throw InvalidValue("\(Printable.quoted(text)) is no name")
        }
        return text
    }

    private static func parseScope(_ text: String) throws(InvalidValue) -> String {
        let isWord = text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != 0x22 && $0 != 0x5c }
        guard (1...64).contains(text.utf8.count), isWord else {
            throw InvalidValue("\(Printable.quoted(text)) is no word of a scope")
        }
        return text
    }

    private static func parseExpiry(_ text: String) throws(InvalidValue) -> AssertionLife {
        if text == "refuse" { return .refused }
        guard text.hasSuffix("m"), let minutes = Int64(text.dropLast()), (1...30).contains(minutes) else {
            throw InvalidValue("\(Printable.quoted(text)) is neither `refuse` nor 1m to 30m")
        }
        return .seconds(60 * minutes)
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        _connectionsPerAddress.lowerDefault(to: _connections.value)
        guard isComplete, proxyProtocol?.canReach(address, at: _proxyProtocol.place, reading) ?? true else {
            return false
        }
        reading.mention(.address(address.description), at: _address.place)
        if let clients, !clients.areOptional {
            reading.refuse(
                item["clients"]?.place(of: "require") ?? item.place,
                "services and their users have no client certificates", expected: "`require: optional`")
            return false
        }
        if require == .requestProof, clients == nil {
            reading.refuse(
                _require.place, "`require: request-proof` needs the client certificates of phones",
                expected: "`clients`, with `authorities` and `require: optional`")
            return false
        }
        return true
    }
}

/// The first version of an app that is admitted.
public struct FederationVersionConfiguration: Equatable, ConfigurationSection {
    @Setting(required: AppID.kind, "The app id.")
    public var app: AppID
    @Setting(
        required: AppleAppVersion.kind,
        "The lowest version, as the app states it: one to three numbers.")
    public var version: String

    static let section = Section("federation.minimum_versions", of: Self.self)
}

/// How the RSD2 documents of services are fetched.
public struct FederationServicesConfiguration: Equatable, ConfigurationSection {
    @Setting(
        key: "authorities", .file("a readable PEM file"), default: ReceiptsConfiguration.systemBundle,
        "The authorities of services' certificates.")
    public var authoritiesPath: String
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(86_400)), unit: "between two fetches", default: "1h",
        "The interval of fetches; Cache-Control shortens or lengthens it, at most fourfold.")
    public var interval: Duration
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(3_600)), unit: "since the fetch", default: "1m",
        "The delay before a failed fetch is retried; it doubles with each failure, up to `interval`.")
    public var retry: Duration
    @Setting(
        .duration(.milliseconds(100) ... .seconds(60)), unit: "since the fetch began", default: "10s",
        "The timeout of a fetch, including the connection.")
    public var timeout: Duration

    static let section = Section("federation.services", of: Self.self)
}

/// Rules between the federation and the rest of the conf file.
enum FederationReferences {
    /// Checks that the sections exist that the federation needs. Reads the file as written.
    static func check(_ root: Item, _ reading: Reading) {
        guard root["federation"] != nil else {
            if reading.role == .federation {
                reading.refuse(
                    root.place, "the role `federation` needs the section `federation`",
                    expected: "`federation`: a mapping")
            }
            return
        }
        let lacking = AppReferences.lacking(in: root)
        if !lacking.isEmpty {
            reading.refuse(
                root.place(of: "federation"), "`federation` needs the sections `registry` and `apps`",
                expected: lacking.joined(separator: " and "))
        }
    }

    /// Refuses an address that another listener uses, and versions of apps that are not configured.
    static func check(
        _ federation: FederationConfiguration, _ listeners: [ListenerConfiguration],
        _ enrolment: EnrolmentConfiguration?, _ administration: AdministrationConfiguration?, in root: Item,
        _ reading: Reading
    ) {
        guard let item = root["federation"] else { return }
        let objections =
            listeners.map { federation.address.objection(to: $0.address, "a listener of the gateway's clients") }
            + (enrolment?.addresses ?? []).map { federation.address.objection(to: $0, "a listener of enrolment") }
            + (administration?.listeners ?? []).map {
                federation.address.objection(to: $0.address, "a listener of the administration")
            }
        if let objection = objections.compactMap(\.self).first {
            reading.refuse(item.place(of: "address"), objection, expected: "another address")
        }
    }
}
