/// A service behind the gateway, reached over a pool of connections.
public struct UpstreamConfiguration: Equatable, Sendable {
    /// The choice of a request's server.
    public enum Balance: String, CaseIterable, Sendable {
        case roundRobin = "round-robin"
        case leastConnections = "least-connections"
        case device
    }

    /// At least one server, none twice.
    public let servers: [ServerAddress]
    /// TLS to the servers. Nil for plaintext, on this machine or where the operator accepts it.
    public let tls: UpstreamTLSConfiguration?
    /// The protocol of all servers. HTTP/2 uses ALPN with TLS, and prior knowledge without.
    public let speaks: ProtocolName
    public let balance: Balance
    /// Whether the operator trusts the network in between. Required for plaintext to another machine, and impossible
    /// with TLS.
    public let isPlaintextAccepted: Bool
    /// The maximum number of connections, per worker.
    public let connections: Int
    /// The maximum per worker, never more than `connections`. Nil for half of them while other servers exist.
    public let connectionsPerServer: Int?
    /// The maximum number of requests in flight on each connection. 1 with HTTP/1.1.
    public let streams: Int
    /// The maximum per worker, never more than `connections`.
    public let idleConnections: Int
    /// The maximum per worker. Nil for as many as connections and waiting places admit.
    public let requests: Int?
    /// The maximum number of waiting requests, per worker.
    public let waiting: Int
    public let waitingTimeout: Duration
    public let connectTimeout: Duration
    /// The time until the head of the response.
    public let responseTimeout: Duration
    /// The time between two reads of a response's content.
    public let contentTimeout: Duration
    /// The time after which an unused connection is closed.
    public let idleTimeout: Duration
    public let ejection: EjectionConfiguration
    public let health: HealthCheckConfiguration?

    /// The maximum number of WebSockets, per worker: half of the capacity. They last, and requests need room beside
    /// them.
    public var tunnels: Int {
        let reachable = connectionsPerServer.map { $0 * servers.count } ?? connections
        return min(connections, reachable, requests ?? connections) / 2
    }

    /// The acceptance of plaintext. It has one case, since it is an explicit statement and no choice.
    enum Plaintext: String, CaseIterable {
        case accepted
    }
}

extension UpstreamConfiguration {
    enum Keys {
        static let servers = Key(
            "servers",
            .distinct(
                .text(
                    "an address or name and a port, for example 127.0.0.1:9000", matching: ServerAddress.pattern,
                    ServerAddress.parse), minimum: 1,
                maximum: 64),
            whenMissing: .refused, "The servers of the service; requests are distributed over all of them.")
        static let tls = Key(
            "tls", .section(UpstreamTLSConfiguration.Keys.section, UpstreamTLSConfiguration.init),
            whenMissing: .allowed,
            "TLS to the servers; required unless every server is on this machine.")
        static let speaks = Key(
            "protocol", .choice as Kind<ProtocolName>, whenMissing: .means("http/1.1"),
            "The protocol to the servers.")
        static let balance = Key(
            "balance", .choice as Kind<Balance>, whenMissing: .means("round-robin"),
            "How the server of a request is selected.")
        static let plaintext = Key(
            "plaintext", .choice as Kind<Plaintext>, whenMissing: .allowed,
            "Accepts unencrypted connections to servers on other machines, over a trusted network.")
        static let connections = Key(
            "connections", .integer(1...65_535), unit: "connections per worker", whenMissing: .means("1024"),
            "The maximum number of connections to this upstream.")
        static let connectionsPerServer = Key(
            "connections_per_server", .integer(1...65_535), unit: "connections per worker", whenMissing: .allowed,
            "The maximum number of connections to one server.")
        static let streams = Key(
            "streams", .integer(1...1000), unit: "requests per connection", whenMissing: .means("100"),
            "The maximum number of requests in flight on an HTTP/2 connection.")
        static let idleConnections = Key(
            "idle_connections", .integer(0...65_535), unit: "connections per worker", whenMissing: .means("128"),
            "The maximum number of idle connections that are kept.")
        static let requests = Key(
            "requests", .integer(1...1_000_000), unit: "requests per worker", whenMissing: .allowed,
            "The maximum number of requests in flight or queued; further requests are refused at once.")
        static let waiting = Key(
            "waiting", .integer(0...65_535), unit: "requests per worker", whenMissing: .means("256"),
            "The maximum number of requests that wait for a connection.")
        static let waitingTimeout = Key(
            "waiting_timeout", .duration(.milliseconds(10) ... .seconds(300)), whenMissing: .means("2s"),
            "The maximum time that a request waits for a connection.")
        static let connectTimeout = Key(
            "connect_timeout", .duration(.milliseconds(10) ... .seconds(300)),
            unit: "until the connection is established", whenMissing: .means("5s"),
            "The timeout of a connection attempt.")
        static let responseTimeout = Key(
            "response_timeout", .duration(.milliseconds(100) ... .seconds(3600)),
            unit: "until the head of the response",
            whenMissing: .means("60s"), "The timeout of a response head.")
        static let contentTimeout = Key(
            "content_timeout", .duration(.milliseconds(100) ... .seconds(3600)), unit: "between two reads",
            whenMissing: .allowed, "The timeout between two reads of response content.")
        static let idleTimeout = Key(
            "idle_timeout", .duration(.seconds(1) ... .seconds(3600)), unit: "since the last response",
            whenMissing: .means("60s"), "The timeout of an idle connection.")
        static let ejection = Key(
            "ejection", .section(EjectionConfiguration.Keys.section, EjectionConfiguration.init),
            whenMissing: .means("{}"),
            "Ejection of servers that fail requests.")
        static let health = Key(
            "health", .section(HealthCheckConfiguration.Keys.section, HealthCheckConfiguration.init),
            whenMissing: .allowed,
            "Health checks of the servers.")

        static let section = Section(
            path: "upstreams",
            settings: [
                servers.setting, tls.setting, speaks.setting, balance.setting, plaintext.setting, connections.setting,
                connectionsPerServer.setting, streams.setting,
                idleConnections.setting, requests.setting, waiting.setting, waitingTimeout.setting,
                connectTimeout.setting, responseTimeout.setting, contentTimeout.setting, idleTimeout.setting,
                ejection.setting, health.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let servers = reader.read(Keys.servers)
        let tls = reader.read(Keys.tls)
        let speaks = reader.read(Keys.speaks)
        let balance = reader.read(Keys.balance)
        let plaintext = reader.read(Keys.plaintext)
        let connections = reader.read(Keys.connections)
        let connectionsPerServer = reader.read(Keys.connectionsPerServer)
        let streams = reader.read(Keys.streams)
        let idleConnections = reader.read(Keys.idleConnections, within: connections)
        let requests = reader.read(Keys.requests)
        let waiting = reader.read(Keys.waiting)
        let waitingTimeout = reader.read(Keys.waitingTimeout)
        let connectTimeout = reader.read(Keys.connectTimeout)
        let responseTimeout = reader.read(Keys.responseTimeout)
        let contentTimeout = reader.read(Keys.contentTimeout)
        let idleTimeout = reader.read(Keys.idleTimeout)
        let ejection = reader.read(Keys.ejection)
        let health = reader.read(Keys.health)
        Self.checkEncryption(servers, reader, item, reading)
        for (server, item) in zip(servers ?? [], item["servers"]?.elements ?? []) {
            reading.mention(.server(server.description), at: item.place)
        }
        if let servers, let ejection { Self.check(ejection, servers, item, reading) }
        if let connections {
            Self.check(idleConnections, Keys.idleConnections, within: connections, reader, reading)
            Self.check(connectionsPerServer, Keys.connectionsPerServer, within: connections, reader, reading)
        }
        if waiting == 0, reader.has(Keys.waitingTimeout) {
            reading.refuse(
                reader.place(of: Keys.waitingTimeout), "`waiting` is 0, so no request waits",
                expected: "`waiting` of at least 1, or no `waiting_timeout`")
        }
        if speaks == .http11, reader.has(Keys.streams) {
            reading.refuse(
                reader.place(of: Keys.streams), "HTTP/1.1 has one request on a connection",
                expected: "`protocol: h2`, or no `streams`")
        }
        guard let servers, let speaks, let streams, let balance, let connections, let idleConnections, let waiting,
            let waitingTimeout,
            let connectTimeout, let responseTimeout, let idleTimeout, let ejection,
            connectionsPerServer != nil || !reader.has(Keys.connectionsPerServer),
            requests != nil || !reader.has(Keys.requests),
            contentTimeout != nil || !reader.has(Keys.contentTimeout), health != nil || !reader.has(Keys.health),
            tls != nil || !reader.has(Keys.tls)
        else { return nil }
        self.servers = servers
        self.tls = tls
        self.speaks = speaks
        self.streams = speaks == .http2 ? streams : 1
        self.balance = balance
        isPlaintextAccepted = plaintext == .accepted
        self.connections = connections
        self.connectionsPerServer = connectionsPerServer
        self.idleConnections = idleConnections
        self.requests = requests
        self.waiting = waiting
        self.waitingTimeout = waitingTimeout
        self.connectTimeout = connectTimeout
        self.responseTimeout = responseTimeout
        self.contentTimeout = contentTimeout ?? responseTimeout
        self.idleTimeout = idleTimeout
        self.ejection = ejection
        self.health = health
    }

    private static func check(
        _ part: Int?, _ key: Key<Int>, within connections: Int, _ reader: SectionReader, _ reading: Reading
    ) {
        guard let part, part > connections else { return }
        reading.refuse(
            reader.place(of: reader.has(key) ? key : Keys.connections),
            "`\(key.setting.name)` (\(part)) is more than `connections` (\(connections))",
            expected: "`\(key.setting.name)` of at most \(connections)")
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

    /// Refuses plaintext to another machine without an explicit statement. Patients' data must not be sent unencrypted
    /// by oversight.
    private static func checkEncryption(
        _ servers: [ServerAddress]?, _ reader: SectionReader, _ item: Item, _ reading: Reading
    ) {
        switch (reader.has(Keys.tls), reader.has(Keys.plaintext)) {
        case (true, true):
            reading.refuse(
                reader.place(of: Keys.plaintext), "`tls` already encrypts the connections to the servers",
                expected: "`tls` or `plaintext`, not both")
        case (false, false): if let servers { checkLoopback(servers, item, reading) }
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

extension Kind where Value == [String: UpstreamConfiguration] {
    /// A mapping of at least one upstream, by name.
    static var upstreams: Kind {
        let expected = "a mapping of at least one name to an upstream"
        let shape = Shape.named(UpstreamConfiguration.Keys.section, pattern: ConfiguredName.pattern)
        return Kind(expected: expected, shape: shape) { item, reading in
            guard case .mapping(let entries) = item.content else {
                reading.refuse(item.place, "found \(item.summary)", expected: expected)
                return nil
            }
            guard !entries.isEmpty else {
                reading.refuse(item.place, "the mapping is empty", expected: expected)
                return nil
            }
            var upstreams: [String: UpstreamConfiguration] = [:]
            for entry in entries {
                do throws(InvalidValue) {
                    let name = try ConfiguredName.parse(entry.key)
                    upstreams[name] = read(entry, reading)
                } catch {
                    reading.refuse(
                        entry.keyPlace, error.message, expected: ConfiguredName.expected, suggestion: error.suggestion)
                }
            }
            return upstreams.count == entries.count ? upstreams : nil
        }
    }

    private static func read(_ entry: Item.Entry, _ reading: Reading) -> UpstreamConfiguration? {
        guard !entry.value.isNothing else {
            reading.refuse(
                entry.keyPlace, "the upstream \(Printable.quoted(entry.key)) has no settings",
                expected: "a mapping with: \(UpstreamConfiguration.Keys.section.names.joined(separator: ", "))")
            return nil
        }
        return UpstreamConfiguration(entry.value, reading)
    }
}

/// The addresses to which nothing may be forwarded.
///
/// These are our own listeners, and addresses that belong to no host. A request to a listener would pass for one of an
/// operator or a phone, or loop. Names are checked when they are resolved.
struct OwnAddresses {
    private let listeners: [(address: ServerAddress, purpose: String)]

    init(
        _ listeners: [ListenerConfiguration], _ enrolment: EnrolmentConfiguration?,
        _ administration: AdministrationConfiguration?
    ) {
        self.listeners =
            listeners.map { ($0.address, "a listener of the gateway itself") }
            + [enrolment].compactMap(\.self).map { ($0.address, "the listener of enrolment") }
            + (administration?.listeners ?? []).map { ($0.address, "a listener of the administration") }
    }

    /// Checks the servers of all upstreams as they are written.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    func check(in root: Item, _ reading: Reading) {
        for upstream in root["upstreams"]?.entries ?? [] {
            for item in upstream.value["servers"]?.elements ?? [] {
                guard let text = item.text, let server = try? ServerAddress.parse(text) else { continue }
                if let objection = objection(to: server) {
                    reading.refuse(item.place, "\(server) \(objection)", expected: "the address of a service")
                }
            }
        }
    }

    private func objection(to server: ServerAddress) -> String? {
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
