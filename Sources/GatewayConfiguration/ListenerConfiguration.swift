public import Vocabulary

/// A listener for clients, and the authentication of its clients.
public struct ListenerConfiguration: Equatable, Sendable {
    /// A literal address.
    public let address: ServerAddress
    /// The ports that requests may name besides the address's own, because of load balancers or address translation.
    public let ports: [Int]
    /// The load balancers before the listener. Nil if clients connect directly.
    public let proxyProtocol: ProxyProtocolConfiguration?
    /// The maximum number of open connections, per worker. Nil for the worker's own limit.
    public let connections: Int?
    /// At least one protocol, the preferred one first.
    public let protocols: [ProtocolName]
    public let tls: TLS
    public let clients: Clients
    /// The hosts with rules of their own. `tls` and `clients` apply to all other names.
    public let hosts: [Host]

    /// The gateway's certificate for clients.
    public struct TLS: Equatable, Sendable {
        /// The path of a PEM file, leaf first.
        public let certificatePath: String
        /// The path of a PEM file.
        public let keyPath: String
        public let policy: TLSPolicyName
        /// The path of a DER file with the OCSP response. Nil if nothing is stapled.
        public let responsePath: String?
    }

    /// The client certificates that the gateway accepts.
    public struct Clients: Equatable, Sendable {
        /// The paths of PEM files. Empty if only self-signed certificates are accepted.
        public let authoritiesPaths: [String]
        /// Whether self-signed certificates are accepted whose key is bound to a registered device.
        public let acceptsRegistered: Bool
        /// The paths of PEM or DER files.
        public let revocationListsPaths: [String]
        public let revocationPolicy: RevocationPolicy
        /// The only accepted keys. Nil for any key.
        public let pins: [KeyID]?

        /// The use of revocation lists when a certificate is verified.
        public enum RevocationPolicy: String, CaseIterable, Sendable {
            /// Every certificate needs a fresh list of its issuer.
            case requireFresh = "require-fresh"
            /// Lists count at any age, and an issuer needs none.
            case acceptStale = "accept-stale"
            /// No lists are configured.
            case noLists = "none"
        }

        /// A kind of client certificate.
        public enum Acceptance: String, CaseIterable, Sendable {
            /// A certificate that an authority of `authoritiesPaths` issued.
            case issued
            /// A self-signed certificate whose key is bound to a registered device.
            case registered
        }
    }
}

extension ListenerConfiguration {
    enum Keys {
        static let address = Key(
            "address",
            .text(
                "a literal address and a port, for example 127.0.0.1:8443 or \"[::1]:8443\"",
                matching: ServerAddress.literalPattern, ServerAddress.parseLiteral),
            whenMissing: .refused, "The address and port to listen on; 0.0.0.0 is every IPv4 address.")
        static let ports = Key(
            "ports", .distinct(.integer(1...65_535), minimum: 0), whenMissing: .means("[]"),
            "The ports that requests may name, in addition to that of the address.")
        static let proxyProtocol = Key(
            "proxy_protocol",
            .section(ProxyProtocolConfiguration.Keys.section) {
                ProxyProtocolConfiguration($0, in: ProxyProtocolConfiguration.Keys.section, $1)
            },
            whenMissing: .allowed,
            "Load balancers in front of the listener that send the client's address (PROXY protocol).")
        static let connections = Key(
            "connections", .integer(1...1_000_000), unit: "connections per worker", whenMissing: .allowed,
            "The maximum number of open connections of this listener.")
        static let protocols = ProtocolName.key
        static let tls = Key(
            "tls", .section(TLS.Keys.section, TLS.init), whenMissing: .refused,
            "The gateway's certificate for clients.")
        static let clients = Key(
            "clients", .section(Clients.Keys.section, Clients.init), whenMissing: .refused,
            "The client certificates that are accepted.")
        static let hosts = Key(
            "hosts", .listenerHosts, whenMissing: .allowed, "Hosts at this address with their own TLS settings.")

        static let section = Section(
            path: "listeners",
            settings: [
                address.setting, ports.setting, connections.setting, proxyProtocol.setting, protocols.setting,
                tls.setting,
                clients.setting, hosts.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let address = reader.read(Keys.address)
        let ports = reader.read(Keys.ports)
        let proxyProtocol = reader.read(Keys.proxyProtocol)
        let connections = reader.read(Keys.connections)
        let protocols = reader.read(Keys.protocols)
        let tls = reader.read(Keys.tls)
        let clients = reader.read(Keys.clients)
        let hosts = reader.read(Keys.hosts)
        guard let address, let ports, let protocols, let tls, let clients, hosts != nil || !reader.has(Keys.hosts),
            proxyProtocol != nil || !reader.has(Keys.proxyProtocol),
            proxyProtocol?.canReach(address, at: reader.place(of: Keys.proxyProtocol), reading) ?? true
        else { return nil }
        self.address = address
        self.ports = ports
        self.proxyProtocol = proxyProtocol
        self.connections = connections
        self.protocols = protocols
        self.tls = tls
        self.clients = clients
        self.hosts = hosts ?? []
    }
}

extension ListenerConfiguration.TLS {
    enum Keys {
        static let certificate = Key(
            "certificate", .file("a readable PEM file"), whenMissing: .refused,
            "The gateway's certificate and its intermediates, leaf first.")
        static let key = Key(
            "key", .keyFile("a readable PEM file"), whenMissing: .refused, "The private key of the certificate.")
        static let policy = TLSPolicyName.key
        static let ocspResponse = Key(
            "ocsp_response", .file("a readable DER file"), whenMissing: .allowed,
            "The OCSP response for the certificate, stapled for clients that request it.")

        static let section = Section(
            path: "listeners.tls",
            settings: [certificate.setting, key.setting, policy.setting, ocspResponse.setting],
            former: TLSPolicyName.former)
    }

    init?(_ item: Item, _ reading: Reading) {
        self.init(item, in: Keys.section, reading)
    }

    /// Reads the section.
    ///
    /// - Parameter section: a section with the same keys, at any place of the file.
    init?(_ item: Item, in section: Section, _ reading: Reading) {
        guard let reader = SectionReader(item, section, reading) else { return nil }
        let certificatePath = reader.read(Keys.certificate)
        let keyPath = reader.read(Keys.key)
        let policy = reader.read(Keys.policy)
        let responsePath = reader.read(Keys.ocspResponse)
        guard let certificatePath, let keyPath, let policy, responsePath != nil || !reader.has(Keys.ocspResponse) else {
            return nil
        }
        self.certificatePath = certificatePath
        self.keyPath = keyPath
        self.policy = policy
        self.responsePath = responsePath
    }
}

extension ListenerConfiguration.Clients {
    enum Keys {
        static let accept = Key(
            "accept", .distinct(.choice as Kind<Acceptance>, minimum: 1), whenMissing: .means("[issued]"),
            "The accepted kinds of client certificate: issued by an authority, or self-signed by a registered device.")
        static let authorities = Key(
            "authorities", .distinct(.file("a readable PEM file"), minimum: 1), whenMissing: .allowed,
            "The authorities of issued client certificates.")

        static let crls = Key(
            "crls", .distinct(.file("a readable PEM or DER file"), minimum: 1), whenMissing: .allowed,
            "The revocation lists of the authorities.")
        static let crlPolicy = Key(
            "crl_policy", .choice as Kind<RevocationPolicy>, whenMissing: .allowed,
            "Whether certificates are accepted without a fresh revocation list; require-fresh where `crls` are configured."
        )
        static let pins = Key(
            "pins", .distinct(.text(KeyIDText.expected, matching: KeyIDText.pattern, KeyIDText.parse), minimum: 1),
            whenMissing: .allowed,
            "The key ids of the only keys that are accepted.")

        static let section = Section(
            path: "listeners.clients",
            settings: [
                accept.setting, authorities.setting, crls.setting, crlPolicy.setting, pins.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let accept = reader.read(Keys.accept)
        let authoritiesPaths = reader.read(Keys.authorities)
        let listsPaths = reader.read(Keys.crls)
        for (path, entry) in zip(listsPaths ?? [], item[Keys.crls.setting.name]?.elements ?? []) {
            reading.mention(.revocationList(path), at: entry.place)
        }
        let policy = reader.read(Keys.crlPolicy)
        let pins = reader.read(Keys.pins)
        guard let accept, authoritiesPaths != nil || !reader.has(Keys.authorities),
            listsPaths != nil || !reader.has(Keys.crls), policy != nil || !reader.has(Keys.crlPolicy),
            pins != nil || !reader.has(Keys.pins)
        else { return nil }
        switch (accept.contains(.issued), authoritiesPaths) {
        case (true, nil):
            reading.refuse(
                item.place, "`authorities` is missing",
                expected: "`authorities`: \(Keys.authorities.setting.type), or `accept: [registered]`")
            return nil
        case (false, _?):
            reading.refuse(
                reader.place(of: Keys.authorities), "`authorities` has no effect without `issued` in `accept`",
                expected: "`issued` in `accept`, or no `authorities`")
            return nil
        case (true, _?), (false, nil): break
        }
        self.authoritiesPaths = authoritiesPaths ?? []
        acceptsRegistered = accept.contains(.registered)
        if listsPaths != nil, authoritiesPaths == nil {
            reading.refuse(
                reader.place(of: Keys.crls), "`crls` has no effect without `issued` in `accept`",
                expected: "`issued` in `accept`, or no `crls`")
            return nil
        }
        switch (listsPaths, policy) {
        case (_?, .noLists?):
            reading.refuse(
                reader.place(of: Keys.crlPolicy), "`none` would ignore `crls`",
                expected: "`require-fresh` or `accept-stale`, or no `crls`")
            return nil
        case (nil, .requireFresh?), (nil, .acceptStale?):
            reading.refuse(
                reader.place(of: Keys.crlPolicy), "there are no revocation lists",
                expected: "`crls`: \(Keys.crls.setting.type), or `crl_policy: none`")
            return nil
        case (let paths, let policy):
            revocationListsPaths = paths ?? []
            revocationPolicy = policy ?? (paths == nil ? .noLists : .requireFresh)
        }
        self.pins = pins
    }
}

extension Kind where Value == [ListenerConfiguration] {
    /// A list of at least one listener in which no address occurs twice.
    static var listeners: Kind {
        .list(of: .section(ListenerConfiguration.Keys.section, ListenerConfiguration.init), minimum: 1) {
            listeners, reading in
            var places: [ServerAddress: Place] = [:]
            for (listener, item) in listeners {
                let place = item.place(of: "address")
                reading.mention(.address(listener.address.description), at: place)
                if let other = places[listener.address] {
                    reading.refuse(
                        place,
                        "\(listener.address) is already used by a listener, \(reading.line(of: other, from: place))")
                } else {
                    places[listener.address] = place
                }
            }
        }
    }
}

extension ListenerConfiguration {
    /// A host with a certificate and client rules of its own.
    public struct Host: Equatable, Sendable {
        /// At least one name, in lower case. A name belongs to one host of a listener.
        public let names: [String]
        public let tls: TLS
        public let clients: Clients
    }

    /// The client rules of the listener and of all its hosts.
    public var allClients: [Clients] { [clients] + hosts.map(\.clients) }
    /// The certificates of the listener and of all its hosts.
    public var allTLS: [TLS] { [tls] + hosts.map(\.tls) }
}

extension ListenerConfiguration.Host {
    enum Keys {
        static let names = Key(
            "names",
            .distinct(
                .text(
                    "an exact host name in lower case, without a port", matching: HostName.pattern, HostName.parseName),
                minimum: 1),
            whenMissing: .refused, "The host's names.")
        static let tls = Key(
            "tls", .section(ListenerConfiguration.TLS.Keys.section, ListenerConfiguration.TLS.init),
            whenMissing: .refused,
            "The gateway's certificate for the host's clients.")
        static let clients = Key(
            "clients", .section(ListenerConfiguration.Clients.Keys.section, ListenerConfiguration.Clients.init),
            whenMissing: .refused,
            "The client certificates that the host accepts.")

        static let section = Section(
            path: "listeners.hosts", settings: [names.setting, tls.setting, clients.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let names = reader.read(Keys.names)
        let tls = reader.read(Keys.tls)
        let clients = reader.read(Keys.clients)
        guard let names, let tls, let clients else { return nil }
        self.names = names
        self.tls = tls
        self.clients = clients
    }
}

extension Kind where Value == [ListenerConfiguration.Host] {
    /// A list of at least one host in which no name occurs twice.
    fileprivate static var listenerHosts: Kind {
        .list(of: .section(ListenerConfiguration.Host.Keys.section, ListenerConfiguration.Host.init), minimum: 1) {
            hosts, reading in
            var lines: [String: Int] = [:]
            for (_, item) in hosts {
                // A name that occurs twice in one list has been reported by the list.
                var own: [String: Int] = [:]
                for name in item["names"]?.elements ?? [] {
                    guard let text = name.text else { continue }
                    if let line = lines[text] {
                        reading.refuse(name.place, "the name `\(text)` is already used by the host on line \(line)")
                    } else {
                        own[text] = name.place.line
                    }
                }
                lines.merge(own) { first, _ in first }
            }
        }
    }
}

/// Rules between the hosts of listeners and the routes.
enum HostReferences {
    /// Warns of hosts and routes that do not fit together.
    ///
    /// A host without a route has a certificate and rules for nothing: mostly its name is misspelt. A route is served
    /// on every listener. A listener without the route's host applies its default rules.
    ///
    /// - Parameters:
    ///   - routes: the routes.
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func check(_ routes: [RouteConfiguration], in root: Item, _ reading: Reading) {
        let served = Set(routes.map(\.host))
        let listeners = (root["listeners"]?.elements ?? []).map { (item: $0, names: names(of: $0)) }
        for listener in listeners {
            for name in listener.names {
                guard let text = name.text else { continue }
                guard served.contains(text) else {
                    reading.warn(
                        name.place, "there is no route for the host \(Printable.quoted(text))",
                        expected: "a route with `host: \(text)`, or remove the name")
                    continue
                }
                for other in listeners where !other.names.contains(where: { $0.text == text }) {
                    reading.warn(
                        name.place,
                        "the listener \(reading.line(of: other.item.place, from: name.place)) also serves \(Printable.quoted(text)), "
                            + "with its own rules",
                        expected: "\(Printable.quoted(text)) among the `hosts` there, if the same rules apply")
                }
            }
        }
    }

    private static func names(of listener: Item) -> [Item] {
        (listener["hosts"]?.elements ?? []).flatMap { $0["names"]?.elements ?? [] }
    }
}

/// A protocol of a listener, by its ALPN name (RFC 7301).
public enum ProtocolName: String, CaseIterable, Sendable {
    case http2 = "h2"
    case http11 = "http/1.1"
}

extension ProtocolName {
    static let key = Key(
        "protocols", .distinct(.protocolName, minimum: 1), whenMissing: .means("[h2, http/1.1]"),
        "The protocols, in order of preference.")
}

extension Kind where Value == ProtocolName {
    fileprivate static var protocolName: Kind {
        let choice = Kind.choice
        return Kind(expected: choice.expected, shape: choice.shape) { item, reading in
            guard item.text == "h2c" else { return choice.read(item, reading) }
            reading.refuse(
                item.place, "HTTP/2 in the clear (`h2c`) is not supported for clients", expected: choice.expected,
                suggestion: ProtocolName.http2.rawValue)
            return nil
        }
    }
}

/// The TLS versions and ciphers of a listener, by the name of one of Mozilla's recommendations.
public enum TLSPolicyName: String, CaseIterable, Sendable {
    /// TLS 1.3.
    case modern
    /// TLS 1.2 and 1.3.
    case intermediate
}

extension TLSPolicyName {
    static let key = Key(
        "policy", .choice as Kind<TLSPolicyName>, whenMissing: .means("modern"),
        "The TLS policy; intermediate adds TLS 1.2, which sends the client's certificate unencrypted.")
    /// The former name of the setting.
    static let former = ["minimum_version": key.setting.name]
}
