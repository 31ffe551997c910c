/// A service behind the gateway, reached over a pool of connections.
public struct UpstreamConfiguration: Equatable, Sendable {
    /// At least one, none twice.
    public let servers: [ServerAddress]
    /// Whether the operator said that the network between may be trusted. True is needed for any server that is not
    /// on this machine, since connections to upstreams are not encrypted in this version.
    public let isPlaintextAccepted: Bool
    /// Per worker.
    public let connections: Int
    /// Per worker, never more than `connections`.
    public let idleConnections: Int
    public let connectTimeout: Duration
    /// Until the head of the response, and between two reads of its content.
    public let responseTimeout: Duration
    /// After this an unused connection is closed.
    public let idleTimeout: Duration

    /// Has one case, because it is a confession and not a choice.
    enum Plaintext: String, CaseIterable {
        case accepted
    }
}

extension UpstreamConfiguration {
    enum Keys {
        static let servers = Key(
            "servers",
            .distinct(
                .text("an address or name and a port, for example 127.0.0.1:9000", ServerAddress.parse), minimum: 1),
            whenMissing: .refused, "Where the service runs; requests are spread over all of them.")
        static let plaintext = Key(
            "plaintext", .choice as Kind<Plaintext>, whenMissing: .allowed,
            "Says that the network to the servers is trusted; needed unless every server is on this machine.")
        static let connections = Key(
            "connections", .integer(1...65_535), unit: "connections per worker", whenMissing: .means("1024"),
            "How many connections may be open to this upstream.")
        static let idleConnections = Key(
            "idle_connections", .integer(0...65_535), unit: "connections per worker", whenMissing: .means("128"),
            "How many unused connections are kept for the next request.")
        static let connectTimeout = Key(
            "connect_timeout", .duration(.milliseconds(10) ... .seconds(300)),
            unit: "until the connection is established", whenMissing: .means("5s"),
            "How long to wait for a server to accept a connection.")
        static let responseTimeout = Key(
            "response_timeout", .duration(.milliseconds(100) ... .seconds(3600)),
            unit: "until the head of the response, and between two reads of its content", whenMissing: .means("60s"),
            "How long to wait for a server to answer.")
        static let idleTimeout = Key(
            "idle_timeout", .duration(.seconds(1) ... .seconds(3600)), unit: "since the last response",
            whenMissing: .means("60s"), "When an unused connection is closed.")

        static let section = Section(
            path: "upstreams",
            settings: [
                servers.setting, plaintext.setting, connections.setting, idleConnections.setting,
                connectTimeout.setting, responseTimeout.setting, idleTimeout.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let servers = reader.read(Keys.servers)
        let plaintext = reader.read(Keys.plaintext)
        let connections = reader.read(Keys.connections)
        let idleConnections = reader.read(Keys.idleConnections)
        let connectTimeout = reader.read(Keys.connectTimeout)
        let responseTimeout = reader.read(Keys.responseTimeout)
        let idleTimeout = reader.read(Keys.idleTimeout)
        if let servers, !reader.has(Keys.plaintext) { Self.checkLoopback(servers, item, reading) }
        if let connections, let idleConnections, idleConnections > connections {
            let key = reader.has(Keys.idleConnections) ? Keys.idleConnections : Keys.connections
            reading.refuse(
                reader.place(of: key),
                "`idle_connections` (\(idleConnections)) is more than `connections` (\(connections))",
                expected: "`idle_connections` of at most \(connections)")
            return nil
        }
        guard let servers, let connections, let idleConnections, let connectTimeout, let responseTimeout,
            let idleTimeout
        else { return nil }
        self.servers = servers
        isPlaintextAccepted = plaintext == .accepted
        self.connections = connections
        self.idleConnections = idleConnections
        self.connectTimeout = connectTimeout
        self.responseTimeout = responseTimeout
        self.idleTimeout = idleTimeout
    }

    /// Patients' data must not leave the machine unencrypted because somebody forgot to think of it.
    private static func checkLoopback(_ servers: [ServerAddress], _ item: Item, _ reading: Reading) {
        let items = item["servers"]?.elements ?? []
        guard let (server, item) = zip(servers, items).first(where: { !$0.0.isLoopback }) else { return }
        reading.refuse(
            item.place,
            "\(server) is not on this machine, and TLS to upstreams is not yet available in this version",
            expected: "`plaintext: accepted` in this upstream, if the network to its servers is trusted")
    }
}

extension Kind where Value == [String: UpstreamConfiguration] {
    /// At least one, by name.
    static var upstreams: Kind {
        let expected = "a mapping of at least one name to an upstream"
        return Kind(expected: expected) { item, reading in
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
                do throws(Complaint) {
                    let name = try Name.parse(entry.key)
                    upstreams[name] = read(entry, reading)
                } catch {
                    reading.refuse(
                        entry.keyPlace, error.message, expected: Name.expected, suggestion: error.suggestion)
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
