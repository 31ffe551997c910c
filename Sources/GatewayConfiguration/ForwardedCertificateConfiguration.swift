/// A proxy in front of a listener that terminates the clients' TLS and states their certificates.
public struct ForwardedCertificateConfiguration: Equatable, ConfigurationSection {
    @Setting(required: .choice, "The form in which the proxy states the certificate.")
    public var format: Format
    @Setting(
        .text("the name of a request field that has no other meaning", ConfiguredFieldName.parseCertificate),
        "The field with the certificate, if it is not the usual one of the format; of rfc9440, that with the chain has `-chain` added."
    )
    var field: String?
    @Setting(
        .choice,
        "The field to which the proxy appends the client's address; without it, the PROXY protocol states that, or nothing does."
    )
    public var address: AddressField?
    @Setting(.choice, default: "certificate", "What a proxy is known by.")
    public var trust: Trust
    @Setting(
        ProxyProtocolConfiguration.networks,
        "The proxies' addresses, with `trust: network`; others cannot connect.")
    public var networks: [Network]?
    /// The rules for the certificates: the same settings as for those of handshakes, in this section.
    public let clients = ListenerConfiguration.Clients()

    static let section = Section("listeners.forwarded_certificate", of: Self.self)

    /// A form of the certificate.
    public enum Format: String, CaseIterable, Sendable {
        /// RFC 9440.
        case rfc9440
        /// nginx, and AWS's Application Load Balancer.
        case pemURLEncoded = "pem-urlencoded"
        /// HAProxy and Caddy.
        case derBase64 = "der-base64"
        /// Envoy.
        case xfcc
        case traefik

        fileprivate var usualField: String {
            switch self {
            case .rfc9440: "client-cert"
            case .pemURLEncoded, .derBase64: "x-ssl-client-cert"
            case .xfcc: "x-forwarded-client-cert"
            case .traefik: "x-forwarded-tls-client-cert"
            }
        }
    }

    /// A field with addresses, the last of which the proxy has written.
    public enum AddressField: String, CaseIterable, Sendable {
        case forwarded
        case xForwardedFor = "x-forwarded-for"
    }

    /// What a proxy is known by.
    public enum Trust: String, CaseIterable, Sendable {
        /// Its own certificate, or its user at a Unix socket.
        case certificate
        /// Its address alone.
        case network
    }

    /// The name of the field with the certificate, in lower case.
    public var fieldName: String { field ?? format.usualField }
    /// The name of the field with the certificates above it. Nil if the format has none.
    public var chainFieldName: String? { format == .rfc9440 ? fieldName + "-chain" : nil }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        if let trust = _trust.value, let networks = _networks.value, (trust == .network) != (networks != nil) {
            reading.refuse(
                trust == .network ? _trust.place : _networks.place,
                trust == .network ? "`networks` is missing" : "`networks` has no effect without `trust: network`",
                expected: "`trust: network` and `networks` together")
            return false
        }
        if trustsNetworks {
            reading.warn(
                _trust.place, "everybody in these networks can state any client's certificate",
                expected: "`trust: certificate`, where the proxy can have a certificate of its own")
        }
        return clients.check(item, reading)
    }

    /// Whether a proxy is known by its address alone.
    var trustsNetworks: Bool { _trust.value == .network }

    /// Applies the rules between the section and its listener.
    ///
    /// - Parameter isLocal: whether the proxies are known as users of a Unix socket.
    /// - Returns: whether the section is usable as far as these rules say.
    func check(in listener: ListenerConfiguration, isLocal: Bool, _ item: Item, _ reading: Reading) -> Bool {
        func refuse(_ place: Place, _ message: String, _ expected: String) -> Bool {
            reading.refuse(place, message, expected: expected)
            return false
        }
        guard listener.hosts.isEmpty else {
            return refuse(
                item.place(of: "hosts"), "`hosts` has no effect: proxies do not ask for the clients' hosts",
                "no `hosts` with `forwarded_certificate`")
        }
        if trustsNetworks, listener.address.socketPath != nil {
            return refuse(_trust.place, "a Unix socket has no networks", "`socket.users`, and no `trust`")
        }
        if listener.tls == nil, !isLocal {
            return refuse(
                item.place, "without `tls`, the proxies must be known as users of the socket",
                "`socket.users`, or `tls`")
        }
        guard let proxies = listener.clients else {
            if isLocal || trustsNetworks { return true }
            return refuse(
                item.place, "`clients` is missing: with `forwarded_certificate`, they are the proxies",
                "`clients`: \(ListenerConfiguration.section.expectedValue(of: "clients"))")
        }
        guard listener.tls != nil, !trustsNetworks else {
            return refuse(
                proxies.place, "`clients` has no effect: the proxies are known otherwise",
                trustsNetworks ? "no `clients` with `trust: network`" : "`tls`, or no `clients`")
        }
        guard !proxies.areOptional, !proxies.acceptsRegistered else {
            return refuse(
                proxies.place, "with `forwarded_certificate`, `clients` are the proxies, which need certificates",
                "no `require: optional`, and `accept: [issued]`")
        }
        guard proxies.names != nil else {
            return refuse(
                proxies.place, "`names` is missing: with `forwarded_certificate`, they are the names of the proxies",
                "`names`: \(ListenerConfiguration.Clients.section.expectedValue(of: "names"))")
        }
        if listener.protocols.contains(.http2) {
            reading.warn(
                item.place(of: "protocols"),
                "with HTTP/2 clients share the proxy's connections: one that breaks rules ends the requests of others",
                expected: "`protocols: [http/1.1]` with `forwarded_certificate`")
        }
        return true
    }
}
