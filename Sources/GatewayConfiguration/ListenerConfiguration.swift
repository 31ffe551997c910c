public import Vocabulary

/// A listener for clients, and the authentication of its clients.
public struct ListenerConfiguration: Equatable, ConfigurationSection {
    /// A literal address, or a Unix socket.
    @Setting(
        required: .text(
            "a literal address and a port, for example 127.0.0.1:8443 or \"[::1]:8443\", or a Unix socket such as unix:/run/attestgate/edge.sock",
            matching: ServerAddress.listenerPattern, ServerAddress.parseListener),
        "The address and port to listen on; 0.0.0.0 is every IPv4 address. Or the path of a Unix socket.")
    public var address: ServerAddress
    @Setting(.section, "The file of a Unix socket, and who may connect to it.")
    public var socket: SocketConfiguration?
    @Setting(
        .distinct(.integer(1...65_535), minimum: 0), default: "[]",
        "The ports that requests may name, in addition to that of the address.")
    public var ports: [Int]
    /// Nil for the worker's own limit.
    @Setting(
        .integer(1...1_000_000), unit: "connections per worker", isIndependent: true,
        "The maximum number of open connections of this listener.")
    public var connections: Int?
    /// Nil if clients connect directly.
    @Setting(.section, "Load balancers in front of the listener that send the client's address (PROXY protocol).")
    public var proxyProtocol: ProxyProtocolConfiguration?
    @Setting(ProtocolName.list, default: ProtocolName.standard, ProtocolName.summary)
    public var protocols: [ProtocolName]
    /// Nil for connections without TLS, which only local proxies make.
    @Setting(.section, "The gateway's certificate for clients.")
    public var tls: TLS?
    /// Nil if no certificates are requested: from proxies that are known otherwise.
    @Setting(.section, "The client certificates that are accepted.")
    public var clients: Clients?
    /// Nil if clients terminate their TLS here.
    @Setting(
        .section,
        "A proxy in front of the listener that terminates the clients' TLS and states their certificates in a field.")
    public var forwardedCertificate: ForwardedCertificateConfiguration?
    @Setting(key: "hosts", Host.list, "Hosts at this address with their own TLS settings.")
    var writtenHosts: [Host]?

    static let section = Section("listeners", of: Self.self)

    /// The hosts with rules of their own. `tls` and `clients` apply to all other names.
    public var hosts: [Host] { writtenHosts ?? [] }
    /// The client rules of the listener and of all its hosts, and those for certificates that a proxy states.
    public var allClients: [Clients] {
        [clients, forwardedCertificate?.clients].compactMap(\.self) + hosts.map(\.clients)
    }
    /// The certificates of the listener and of all its hosts.
    public var allTLS: [TLS] { [tls].compactMap(\.self) + hosts.map(\.tls) }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        let isProtected = checkProtection(item, reading)
        guard isComplete, isProtected, checkSocket(reading) else { return false }
        let isLocal = address.socketPath != nil && socket?.users != nil
        guard forwardedCertificate?.check(in: self, isLocal: isLocal, item, reading) ?? true else { return false }
        return proxyProtocol?.canReach(address, at: _proxyProtocol.place, reading) ?? true
    }

    private func checkSocket(_ reading: Reading) -> Bool {
        guard address.socketPath == nil else {
            guard proxyProtocol == nil else {
                reading.refuse(
                    _proxyProtocol.place, "a Unix socket has no peers with addresses",
                    expected: "no `proxy_protocol`; `forwarded_certificate.address` states clients' addresses")
                return false
            }
            return true
        }
        guard socket == nil else {
            reading.refuse(
                _socket.place, "`socket` has no effect: \(address) is no Unix socket", expected: "`address: unix:/PATH`"
            )
            return false
        }
        return true
    }

    /// Refuses a listener without TLS, or without rules for certificates, unless a proxy states those of clients.
    private func checkProtection(_ item: Item, _ reading: Reading) -> Bool {
        guard _forwardedCertificate.isWritten else {
            return checkPresence(of: ["tls", "clients"], item, reading)
        }
        // Whether `clients` may be missing depends on what the proxy is known by.
        let isUnix = _address.value.map { $0.socketPath != nil } ?? true
        return isUnix || checkPresence(of: ["tls"], item, reading)
    }

    private func checkPresence(of names: [String], _ item: Item, _ reading: Reading) -> Bool {
        let missing = names.filter { item[$0] == nil }
        for name in missing {
            reading.refuse(
                item.place, "`\(name)` is missing",
                expected: "`\(name)`: \(Self.section.expectedValue(of: name))")
        }
        return missing.isEmpty
    }

    /// A list of at least one listener in which no address occurs twice.
    static var list: Kind<[Self]> {
        .list(of: .section, minimum: 1) { listeners, reading in
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
    /// The gateway's certificate for clients.
    public struct TLS: Equatable, ConfigurationSection {
        @Setting(
            key: "certificate", required: .file("a readable PEM file"),
            "The gateway's certificate and its intermediates, leaf first.")
        public var certificatePath: String
        @Setting(key: "key", required: .keyFile("a readable PEM file"), "The private key of the certificate.")
        public var keyPath: String
        @Setting(.choice, default: TLSPolicyName.standard, TLSPolicyName.summary)
        public var policy: TLSPolicyName
        @Setting(
            key: "ocsp_response", .file("a readable DER file"),
            "The OCSP response for the certificate, stapled for clients that request it.")
        public var responsePath: String?

        static let section = Section("listeners.tls", of: Self.self, former: TLSPolicyName.former)

        /// The place at which the section begins.
        public var place: Place { beginning }
    }

    /// The client certificates that the gateway accepts.
    public struct Clients: Equatable, ConfigurationSection {
        @Setting(.choice, default: Presence.standard, "Whether a client must present a certificate.")
        public var require: Presence
        @Setting(
            .distinct(.choice, minimum: 1), default: "[issued]",
            "The accepted kinds of client certificate: issued by an authority, or self-signed by a registered device.")
        var accept: [Acceptance]
        @Setting(
            .distinct(.file("a readable PEM file"), minimum: 1), "The authorities of issued client certificates.")
        var authorities: [String]?
        @Setting(
            .distinct(.file("a readable PEM or DER file"), minimum: 1), "The revocation lists of the authorities.")
        var crls: [String]?
        @Setting(
            key: "crl_policy", .choice,
            "Whether certificates are accepted without a fresh revocation list; require-fresh where `crls` are configured."
        )
        var writtenPolicy: RevocationPolicy?
        @Setting(
            .distinct(.choice, minimum: 1), default: "[p256]",
            "The keys of issued certificates and of their authorities; of RSA, the smallest modulus.")
        public var keys: [KeyKind]
        @Setting(
            .choice, default: "required",
            "Whether issued certificates must state extended key usage; where they do, it must include clientAuth.")
        public var usage: Usage
        /// Nil for any key.
        @Setting(
            .distinct(.text(KeyIDText.expected, matching: KeyIDText.pattern, KeyIDText.parse), minimum: 1),
            "The key ids of the only keys that are accepted.")
        public var pins: [KeyID]?
        /// Nil for any name.
        @Setting(
            .distinct(
                .text("an exact DNS name in lower case", matching: HostName.pattern, HostName.parseName), minimum: 1),
            "The DNS names in subjectAltName of which an issued certificate needs one.")
        public var names: [String]?

        static let section = Section("listeners.clients", of: Self.self)

        /// The place at which the section begins.
        public var place: Place { beginning }

        /// The paths of PEM files. Empty if only self-signed certificates are accepted.
        public var authoritiesPaths: [String] { authorities ?? [] }
        /// Whether self-signed certificates are accepted whose key is bound to a registered device.
        public var acceptsRegistered: Bool { accept.contains(.registered) }
        /// The paths of PEM or DER files.
        public var revocationListsPaths: [String] { crls ?? [] }
        /// Whether a client may come without a certificate.
        public var areOptional: Bool { require == .optional }
        public var revocationPolicy: RevocationPolicy { writtenPolicy ?? (crls == nil ? .noLists : .requireFresh) }

        /// Whether clients present certificates.
        public enum Presence: String, CaseIterable, Sendable {
            case always
            /// A client may present none. A certificate that is presented and not accepted is refused.
            case optional

            static let standard = always.rawValue
        }

        /// A kind of key. The number of an RSA kind is its smallest modulus in bits.
        public enum KeyKind: String, CaseIterable, Sendable {
            case p256
            case p384
            case p521
            case ed25519
            case rsa2048
            case rsa3072
            case rsa4096

            var isRSA: Bool { [.rsa2048, .rsa3072, .rsa4096].contains(self) }
        }

        /// What certificates must state of their purpose.
        public enum Usage: String, CaseIterable, Sendable {
            case required
            case ifPresent = "if-present"
        }

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

    /// A host with a certificate and client rules of its own.
    public struct Host: Equatable, ConfigurationSection {
        /// At least one name, in lower case. A name belongs to one host of a listener.
        @Setting(
            required: .distinct(
                .text(
                    "an exact host name in lower case, without a port", matching: HostName.pattern, HostName.parseName),
                minimum: 1),
            "The host's names.")
        public var names: [String]
        @Setting(required: .section, "The gateway's certificate for the host's clients.")
        public var tls: TLS
        @Setting(required: .section, "The client certificates that the host accepts.")
        public var clients: Clients

        static let section = Section("listeners.hosts", of: Self.self)
    }
}

extension ListenerConfiguration.Clients {
    func check(_ item: Item, _ reading: Reading) -> Bool {
        for (path, entry) in zip(_crls.value.flatMap(\.self) ?? [], item["crls"]?.elements ?? []) {
            reading.mention(.revocationList(path), at: entry.place)
        }
        guard isComplete else { return false }
        return checkKeys(item, reading) && checkAuthorities(item, reading)
    }

    /// Refuses keys that have no effect, and pins that no key can match.
    private func checkKeys(_ item: Item, _ reading: Reading) -> Bool {
        for (name, isWritten, place) in [
            ("keys", _keys.isWritten, _keys.place), ("usage", _usage.isWritten, _usage.place),
            ("names", _names.isWritten, _names.place),
        ] where isWritten && !accept.contains(.issued) {
            reading.refuse(
                place, "`\(name)` has no effect without `issued` in `accept`",
                expected: "`issued` in `accept`, or no `\(name)`")
            return false
        }
        // In ascending order.
        if let least = KeyKind.allCases.first(where: { $0.isRSA && keys.contains($0) }),
            let (idle, entry) = zip(keys, item["keys"]?.elements ?? []).first(where: { $0.0.isRSA && $0.0 != least })
        {
            reading.refuse(
                entry.place, "`\(idle.rawValue)` has no effect beside `\(least.rawValue)`, the smallest modulus",
                expected: "one kind of RSA key")
            return false
        }
        if pins != nil, !keys.contains(.p256), !acceptsRegistered {
            reading.refuse(
                _pins.place, "no certificate can match `pins`: key ids are of P-256, which `keys` does not have",
                expected: "`p256` among the `keys`, or no `pins`")
            return false
        }
        return true
    }

    private func checkAuthorities(_ item: Item, _ reading: Reading) -> Bool {
        switch (accept.contains(.issued), authorities) {
        case (true, nil):
            reading.refuse(
                item.place, "`authorities` is missing",
                expected: "`authorities`: \(Self.section.expectedValue(of: "authorities")), or `accept: [registered]`")
            return false
        case (false, _?):
            reading.refuse(
                _authorities.place, "`authorities` has no effect without `issued` in `accept`",
                expected: "`issued` in `accept`, or no `authorities`")
            return false
        case (true, _?), (false, nil): break
        }
        if crls != nil, authorities == nil {
            reading.refuse(
                _crls.place, "`crls` has no effect without `issued` in `accept`",
                expected: "`issued` in `accept`, or no `crls`")
            return false
        }
        switch (crls, writtenPolicy) {
        case (_?, .noLists?):
            reading.refuse(
                _writtenPolicy.place, "`none` would ignore `crls`",
                expected: "`require-fresh` or `accept-stale`, or no `crls`")
            return false
        case (nil, .requireFresh?), (nil, .acceptStale?):
            reading.refuse(
                _writtenPolicy.place, "there are no revocation lists",
                expected: "`crls`: \(Self.section.expectedValue(of: "crls")), or `crl_policy: none`")
            return false
        case (_, nil), (_?, _?), (nil, .noLists?): return true
        }
    }
}

extension ListenerConfiguration.Host {
    /// A list of at least one host in which no name occurs twice.
    fileprivate static var list: Kind<[Self]> {
        .list(of: .section, minimum: 1) { hosts, reading in
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
    /// Refuses or warns of hosts and routes that do not fit together.
    ///
    /// A host without a route has a certificate and rules for nothing: mostly its name is misspelt. A route is served
    /// on every listener. A listener without the route's host applies its default rules.
    ///
    /// - Parameters:
    ///   - routes: the routes.
    ///   - configured: the listeners.
    ///   - root: the settings as written, for the places of diagnostics.
    ///   - reading: the reading of the file.
    static func check(
        _ routes: [RouteConfiguration], _ configured: [ListenerConfiguration], in root: Item, _ reading: Reading
    ) {
        for (route, item) in zip(routes, root["routes"]?.elements ?? []) where route.require == .nothing {
            checkOpenness(of: route, at: item, configured, reading)
        }
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

    /// Refuses a route for clients without a certificate if every listener demands one for its host.
    private static func checkOpenness(
        of route: RouteConfiguration, at item: Item, _ listeners: [ListenerConfiguration], _ reading: Reading
    ) {
        let rules = listeners.compactMap { listener in
            listener.forwardedCertificate?.clients
                ?? listener.hosts.first { $0.names.contains(route.host) }?.clients ?? listener.clients
        }
        guard !rules.contains(where: \.areOptional) else { return }
        reading.refuse(
            item.place(of: "require"),
            "`require: nothing` has no effect: every listener demands a certificate for the host "
                + Printable.quoted(route.host),
            expected: "`require: optional` among the `clients` of a listener or host that serves it",
            suggestion: RouteConfiguration.Requirement.certificate.rawValue)
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
    /// The protocols of a listener.
    static var list: Kind<[ProtocolName]> { .distinct(kind, minimum: 1) }
    static let standard = "[h2, http/1.1]"
    static let summary = "The protocols, in order of preference."

    private static var kind: Kind<ProtocolName> {
        let choice = Kind<ProtocolName>.choice
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

    static let standard = "modern"
    static let summary = "The TLS policy; intermediate adds TLS 1.2, which sends the client's certificate unencrypted."
    /// The former name of the setting.
    static let former = ["minimum_version": "policy"]
}
