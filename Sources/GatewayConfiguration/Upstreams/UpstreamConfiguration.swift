internal import Vocabulary

/// A service behind the gateway, reached over a pool of connections.
public struct UpstreamConfiguration: Equatable, ConfigurationSection {
    @Setting(
        required: .distinct(
            .text(
                "an address or name and a port, or a socket, for example 127.0.0.1:9000 or unix:/run/app.sock",
                matching: ServerAddress.serverPattern, ServerAddress.parseServer),
            minimum: 1, maximum: 64),
        "The servers of the service; requests are distributed over all of them.")
    public var servers: [ServerAddress]
    /// Nil for plaintext, on this machine or where the operator accepts it.
    @Setting(.section, "TLS to the servers; required unless every server is on this machine.")
    public var tls: UpstreamTLSConfiguration?
    /// HTTP/2 uses ALPN with TLS, and prior knowledge without.
    @Setting(key: "protocol", .choice, default: "http/1.1", "The protocol to the servers.")
    public var speaks: ProtocolName
    @Setting(.choice, default: "round-robin", "How the server of a request is selected.")
    public var balance: Balance
    @Setting(
        .choice, isIndependent: true,
        "Accepts unencrypted connections to servers on other machines, over a trusted network.")
    var plaintext: Plaintext?
    @Setting(
        .integer(1...65_535), unit: "connections per worker", default: "1024",
        "The maximum number of connections to this upstream.")
    public var connections: Int
    /// Never more than `connections`. Nil for half of them while other servers exist.
    @Setting(
        .integer(1...65_535), unit: "connections per worker", "The maximum number of connections to one server.")
    public var connectionsPerServer: Int?
    @Setting(
        key: "streams", .integer(1...1000), unit: "requests per connection", default: "100",
        "The maximum number of requests in flight on an HTTP/2 connection.")
    var http2Streams: Int
    /// Never more than `connections`.
    @Setting(
        .integer(0...65_535), unit: "connections per worker", default: "128",
        "The maximum number of idle connections that are kept.")
    public var idleConnections: Int
    /// Nil for as many as connections and waiting places admit.
    @Setting(
        .integer(1...1_000_000), unit: "requests per worker",
        "The maximum number of requests in flight or queued; further requests are refused at once.")
    public var requests: Int?
    @Setting(
        .integer(0...65_535), unit: "requests per worker", default: "256",
        "The maximum number of requests that wait for a connection.")
    public var waiting: Int
    @Setting(
        .duration(.milliseconds(10) ... .seconds(300)), default: "2s",
        "The maximum time that a request waits for a connection.")
    public var waitingTimeout: Duration
    @Setting(
        .duration(.milliseconds(10) ... .seconds(300)), unit: "until the connection is established", default: "5s",
        "The timeout of a connection attempt.")
    public var connectTimeout: Duration
    @Setting(
        .duration(.milliseconds(100) ... .seconds(3600)), unit: "until the head of the response", default: "60s",
        "The timeout of a response head.")
    public var responseTimeout: Duration
    @Setting(
        key: "content_timeout", .duration(.milliseconds(100) ... .seconds(3600)), unit: "between two reads",
        "The timeout between two reads of response content.")
    var writtenContentTimeout: Duration?
    @Setting(
        .duration(.seconds(1) ... .seconds(3600)), unit: "since the last response", default: "60s",
        "The timeout of an idle connection.")
    public var idleTimeout: Duration
    @Setting(
        .distinct(.choice, minimum: 0), default: "[forwarded]",
        "The request fields that state the client's address, its host and https.")
    public var forwarded: [ForwardedField]
    @Setting(.choice, default: "off", "What requests state about the client's certificate.")
    public var clientCertificate: ClientCertificate
    @Setting(.section, default: "{}", "Ejection of servers that fail requests.")
    public var ejection: EjectionConfiguration
    @Setting(.section, "Health checks of the servers.")
    public var health: HealthCheckConfiguration?

    static let section = Section("upstreams", of: Self.self)

    /// Whether the operator trusts the network in between. Required for plaintext to another machine, and impossible
    /// with TLS.
    public var isPlaintextAccepted: Bool { plaintext == .accepted }
    /// The maximum number of requests in flight on each connection. 1 with HTTP/1.1.
    public var streams: Int { speaks == .http2 ? http2Streams : 1 }
    /// The time between two reads of a response's content.
    public var contentTimeout: Duration { writtenContentTimeout ?? responseTimeout }

    /// The maximum number of WebSockets, per worker: half of the capacity. They last, and requests need room beside
    /// them.
    public var tunnels: Int {
        let reachable = connectionsPerServer.map { $0 * servers.count } ?? connections
        return min(connections, reachable, requests ?? connections) / 2
    }

    /// The choice of a request's server.
    public enum Balance: String, CaseIterable, Sendable {
        case roundRobin = "round-robin"
        case leastConnections = "least-connections"
        case device
    }

    /// A field that states the client's address, scheme or host.
    public enum ForwardedField: String, CaseIterable, Sendable {
        case forwarded
        case xForwardedFor = "x-forwarded-for"
        case xForwardedProto = "x-forwarded-proto"
        case xForwardedHost = "x-forwarded-host"
    }

    /// What requests state about the client's certificate.
    public enum ClientCertificate: String, CaseIterable, Sendable {
        case off
        /// The certificate, in Client-Cert.
        case leaf = "rfc9440"
        /// Also the path to the authority that verified it, in Client-Cert-Chain.
        case leafAndChain = "rfc9440-with-chain"
    }

    /// The acceptance of plaintext. It has one case, since it is an explicit statement and no choice.
    enum Plaintext: String, CaseIterable {
        case accepted
    }
}

extension UpstreamConfiguration {
    func check(_ item: Item, _ reading: Reading) -> Bool {
        _idleConnections.lowerDefault(to: _connections.value)
        checkEncryption(item, reading)
        for (server, item) in zip(_servers.value ?? [], item["servers"]?.elements ?? []) {
            reading.mention(.server(server.description), at: item.place)
        }
        checkSocketNames(item, reading)
        if let servers = _servers.value, let ejection = _ejection.value { Self.check(ejection, servers, item, reading) }
        checkShare("idle_connections", _idleConnections.value, _idleConnections.place, reading)
        checkShare(
            "connections_per_server", _connectionsPerServer.value.flatMap(\.self), _connectionsPerServer.place, reading)
        if _waiting.value == 0, _waitingTimeout.isWritten {
            reading.refuse(
                _waitingTimeout.place, "`waiting` is 0, so no request waits",
                expected: "`waiting` of at least 1, or no `waiting_timeout`")
        }
        if _speaks.value == .http11, _http2Streams.isWritten {
            reading.refuse(
                _http2Streams.place, "HTTP/1.1 has one request on a connection",
                expected: "`protocol: h2`, or no `streams`")
        }
        return true
    }

    /// Refuses a part of the connections that is larger than all.
    private func checkShare(_ key: String, _ share: Int?, _ place: Place, _ reading: Reading) {
        guard let share, let connections = _connections.value, share > connections else { return }
        reading.refuse(
            place, "`\(key)` (\(share)) is more than `connections` (\(connections))",
            expected: "`\(key)` of at most \(connections)")
    }

    private static func check(
        _ ejection: EjectionConfiguration, _ servers: [ServerAddress], _ item: Item, _ reading: Reading
    ) {
        guard ejection.minimumServers > servers.count else { return }
        reading.refuse(
            item["ejection"]?.place(of: "minimum_servers") ?? item.place,
            "`minimum_servers` (\(ejection.minimumServers)) is more than the number of servers (\(servers.count))",
            expected: "`minimum_servers` of at most \(servers.count)")
    }

    /// Refuses TLS over a Unix socket without a name: there is none that its certificate could have.
    private func checkSocketNames(_ item: Item, _ reading: Reading) {
        guard let tls = _tls.value.flatMap(\.self), tls.serverName == nil else { return }
        let items = item["servers"]?.elements ?? []
        guard let (_, item) = zip(_servers.value ?? [], items).first(where: { $0.0.socketPath != nil }) else { return }
        reading.refuse(
            item.place, "the certificate of a Unix socket's server has no name to be compared with",
            expected: "`server_name` in `tls`, or a Unix socket without `tls`")
    }

    /// Refuses plaintext to another machine without an explicit statement. Patients' data must not be sent unencrypted
    /// by oversight.
    private func checkEncryption(_ item: Item, _ reading: Reading) {
        switch (_tls.isWritten, _plaintext.isWritten) {
        case (true, true):
            reading.refuse(
                _plaintext.place, "`tls` already encrypts the connections to the servers",
                expected: "`tls` or `plaintext`, not both")
        case (false, false): if let servers = _servers.value { Self.checkLoopback(servers, item, reading) }
        case (true, false), (false, true): break
        }
    }

    private static func checkLoopback(_ servers: [ServerAddress], _ item: Item, _ reading: Reading) {
        let items = item["servers"]?.elements ?? []
        guard let (server, item) = zip(servers, items).first(where: { !$0.0.isLoopback }) else { return }
        reading.refuse(
            item.place,
            "\(server) is not on this machine, and patient data would be sent unencrypted",
            expected: "`tls` in this upstream, or `plaintext: accepted` if the network to its servers is trusted")
    }
}

extension UpstreamConfiguration {
    /// A mapping of at least one upstream, by name.
    static var named: Kind<[String: Self]> { .named("an upstream", minimum: 1) }
}

/// The addresses to which nothing may be forwarded.
///
/// These are our own listeners, and addresses that belong to no host. A request to a listener would pass for one of an
/// operator or a phone, or loop. Names are checked when they are resolved.
struct OwnAddresses {
    private let listeners: [(address: ServerAddress, purpose: String)]
    /// The path of the administration's socket.
    private let socketPath: String?

    init(
        _ listeners: [ListenerConfiguration], _ enrolment: EnrolmentConfiguration?,
        _ federation: FederationConfiguration?, _ administration: AdministrationConfiguration?
    ) {
        self.listeners =
            listeners.map { ($0.address, "a listener of the gateway itself") }
            + (enrolment?.addresses ?? []).map { ($0, "a listener of enrolment") }
            + [federation?.address].compactMap(\.self).map { ($0, "the listener of the federation") }
            + (administration?.listeners ?? []).map { ($0.address, "a listener of the administration") }
        socketPath = administration?.socketPath
    }

    /// Checks the servers of all upstreams as they are written.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    func check(in root: Item, _ reading: Reading) {
        for upstream in root["upstreams"]?.entries ?? [] {
            for item in upstream.value["servers"]?.elements ?? [] {
                guard let text = item.text, let server = try? ServerAddress.parseServer(text) else { continue }
                if let objection = objection(to: server) {
                    reading.refuse(item.place, "\(server) \(objection)", expected: "the address of a service")
                }
            }
        }
        for point in root["decision_points"]?.entries ?? [] {
            guard let item = point.value["url"], let text = item.text, let server = try? OutboundURL.parse(text).server,
                let objection = objection(to: server)
            else { continue }
            reading.refuse(item.place, "\(server) \(objection)", expected: "the address of a decision point")
        }
    }

    private func objection(to server: ServerAddress) -> String? {
        if let path = server.socketPath {
            guard let socketPath, WrittenFiles.isSame(path, socketPath) else { return nil }
            return "is the socket of the administration"
        }
        // ::ffff:127.0.0.1 leads to 127.0.0.1.
        let literal = server.isLiteral ? IPLiteral(server.host)?.unmapped : nil
        if let literal {
            if literal.isUnspecified { return "is not the address of a machine" }
            if literal.isForMany { return "is a multicast address" }
        }
        let listener = listeners.first { listener, _ in
            guard listener.port == server.port else { return false }
            guard let own = IPLiteral(listener.host) else { return false }
            if own.octets == literal?.octets { return true }
            // `localhost` includes both loopback addresses.
            if let literal { return literal.isLoopback && own.isUnspecified && own.isIPv6 == literal.isIPv6 }
            return server.isLoopback && (own.isUnspecified || own.text == "127.0.0.1" || own.text == "::1")
        }
        return listener.map { "is \($0.purpose)" }
    }
}

/// Rules between routes and upstreams. They read the file as written, so that a route with another mistake still counts
/// as a user of its upstream.
enum UpstreamReferences {
    static func check(_ root: Item, _ reading: Reading) {
        let names = root["upstreams"]?.entries.map(\.key) ?? []
        // Without upstreams there is one mistake, reported already, not one for every route.
        guard !names.isEmpty else { return }
        let routes = root["routes"]?.elements ?? []
        let references = routes.compactMap { $0["upstream"] }
        let known = Set(names)
        var used: Set<String> = []
        // A missing reference is a mistake too, and reported.
        var hasUnknown = references.count < routes.count
        for reference in references {
            guard let name = reference.text else { continue }
            used.insert(name)
            guard !known.contains(name) else { continue }
            hasUnknown = true
            reading.refuse(
                reference.place, "there is no upstream \(Printable.quoted(name))",
                expected: "one of: \(names.prefix(20).joined(separator: ", "))",
                suggestion: Spelling.nearest(to: name, among: names))
        }
        // An unknown or missing reference makes an upstream look unused; reporting both would only distract.
        guard !hasUnknown else { return }
        for entry in root["upstreams"]?.entries ?? []
        where !used.contains(entry.key) && ConfiguredName.isName(entry.key) {
            reading.warn(entry.keyPlace, "no route uses the upstream \(Printable.quoted(entry.key))")
        }
    }
}
