/// A proxy in front of a listener that terminates the clients' TLS and states their certificates.
public struct ForwardedCertificateConfiguration: Equatable, ConfigurationSection {
    @Setting(required: .choice, "The form in which the proxy states the certificate.")
    public var format: Format
    @Setting(
        .text("the name of a request field", ConfiguredFieldName.parse),
        "The field with the certificate, if it is not the usual one of the format; of rfc9440, that with the chain has `-chain` added."
    )
    var field: String?
    @Setting(
        .choice,
        "The field to which the proxy appends the client's address; without it, the PROXY protocol states that, or nothing does."
    )
    public var address: AddressField?
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

    /// The name of the field with the certificate, in lower case.
    public var fieldName: String { field ?? format.usualField }
    /// The name of the field with the certificates above it. Nil if the format has none.
    public var chainFieldName: String? { format == .rfc9440 ? fieldName + "-chain" : nil }

    func check(_ item: Item, _ reading: Reading) -> Bool { clients.check(item, reading) }

    /// Applies the rules between the section and its listener.
    ///
    /// - Returns: whether the section is usable as far as these rules say.
    func check(in listener: ListenerConfiguration, _ item: Item, _ reading: Reading) -> Bool {
        let proxies = listener.clients
        guard !proxies.areOptional, !proxies.acceptsRegistered else {
            reading.refuse(
                proxies.place, "with `forwarded_certificate`, `clients` are the proxies, which need certificates",
                expected: "no `require: optional`, and `accept: [issued]`")
            return false
        }
        guard proxies.names != nil else {
            reading.refuse(
                proxies.place, "`names` is missing: with `forwarded_certificate`, they are the names of the proxies",
                expected: "`names`: \(ListenerConfiguration.Clients.section.expectedValue(of: "names"))")
            return false
        }
        guard listener.hosts.isEmpty else {
            reading.refuse(
                item.place(of: "hosts"), "`hosts` has no effect: proxies do not ask for the clients' hosts",
                expected: "no `hosts` with `forwarded_certificate`")
            return false
        }
        return true
    }
}
