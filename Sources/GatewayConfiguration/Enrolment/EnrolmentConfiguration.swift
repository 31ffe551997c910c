/// How phones that the gateway has never seen become registered devices with a certificate.
public struct EnrolmentConfiguration: Equatable, Sendable {
    /// A literal address, of no other listener.
    public let address: ServerAddress
    /// Nil if the listener speaks with phones directly.
    public let proxyProtocol: ProxyProtocolConfiguration?
    /// At least one, the preferred one first.
    public let protocols: [ProtocolName]
    /// How the listener shows itself; it asks nobody for a certificate.
    public let tls: ListenerConfiguration.TLS
    /// The provider's URL: `aud`, and the beginning of `iss`, of the tokens that bind keys.
    public let url: ServiceURL
    public let authority: EnrolmentAuthorityConfiguration
    /// Of the certificates that are issued; whole seconds.
    public let certificateLife: Duration
    /// How long an old key's binding stays valid after a new one was bound; whole seconds, zero is allowed.
    public let rotationOverlap: Duration
    /// Whole seconds.
    public let nonceLife: Duration
    public let admission: AdmissionConfiguration
    /// Nil if nobody is asked for newer receipts.
    public let receipts: ReceiptsConfiguration?
    /// Bytes of a request's content.
    public let contentLimit: Int
    /// Of one client address; of a /64 where it is IPv6.
    public let requestsPerMinute: Int
    /// Open at once.
    public let connections: Int
    /// Of them from one client address, counted as its requests are; never more than `connections`.
    public let connectionsPerAddress: Int
}

extension EnrolmentConfiguration {
    enum Keys {
        static let address = Key(
            "address",
            .text(
                "a literal address and a port, for example 127.0.0.1:8444", matching: ServerAddress.literalPattern,
                ServerAddress.parseLiteral),
            whenMissing: .refused, "The address and port to listen on; not one of another listener.")
        static let proxyProtocol = Key(
            "proxy_protocol",
            .section(ProxyProtocolConfiguration.enrolmentSection) {
                ProxyProtocolConfiguration($0, in: ProxyProtocolConfiguration.enrolmentSection, $1)
            },
            whenMissing: .allowed,
            "Load balancers in front of the listener that send the phone's address (PROXY protocol).")
        static let protocols = ProtocolName.key
        static let tls = Key(
            "tls",
            .section(EnrolmentConfiguration.tlsSection) {
                ListenerConfiguration.TLS($0, in: EnrolmentConfiguration.tlsSection, $1)
            },
            whenMissing: .refused, "The listener's certificate.")
        static let url = Key(
            "url", .serviceURL, whenMissing: .refused, "The listener's public URL.")
        static let authority = Key(
            "authority", .section(EnrolmentAuthorityConfiguration.Keys.section, EnrolmentAuthorityConfiguration.init),
            whenMissing: .refused,
            "The GMS CA, which issues the phones' certificates.")
        static let certificateLife = Key(
            "certificate_life", .wholeSeconds(.seconds(60) ... .seconds(31_536_000)), unit: "since it was issued",
            whenMissing: .means("30d"), "The validity of a phone's certificate.")
        static let rotationOverlap = Key(
            "rotation_overlap", .wholeSeconds(.zero ... .seconds(604_800)), unit: "since the new key was bound",
            whenMissing: .means("10m"), "How long a phone's old key is still accepted beside its new one.")
        static let nonceLife = Key(
            "nonce_life", .wholeSeconds(.seconds(10) ... .seconds(3600)), unit: "since the nonce was issued",
            whenMissing: .means("5m"), "The lifetime of a nonce.")
        static let admission = Key(
            "admission", .choice as Kind<AdmissionConfiguration.Name>, whenMissing: .refused,
            "What is required, besides the app itself, to admit a device.")
        static let token = Key(
            "token", .section(AdmissionTokenConfiguration.Draft.Keys.section, AdmissionTokenConfiguration.Draft.init),
            whenMissing: .allowed,
            "The issuer of admission tokens.")
        static let receipts = Key(
            "receipts", .section(ReceiptsConfiguration.Keys.section, ReceiptsConfiguration.init), whenMissing: .allowed,
            "How the risk metric of each device is requested from Apple.")
        static let contentLimit = Key(
            "content_limit", .size((32 << 10)...(64 << 10)), unit: "bytes", whenMissing: .means("64KiB"),
            "The maximum size of request content.")
        static let requestsPerMinute = Key(
            "requests_per_minute", .integer(1...100_000), unit: "requests per client address",
            whenMissing: .means("60"), "The maximum rate of requests.")
        static let connections = Key(
            "connections", .integer(1...100_000), unit: "connections", whenMissing: .means("1000"),
            "The maximum number of open client connections.")
        static let connectionsPerAddress = Key(
            "connections_per_address", .integer(1...100_000), unit: "connections per client address",
            whenMissing: .means("32"), "The maximum number of open connections of one client.")

        static let section = Section(
            path: "enrolment",
            settings: [
                address.setting, proxyProtocol.setting, protocols.setting, tls.setting, url.setting, authority.setting,
                certificateLife.setting,
                rotationOverlap.setting, nonceLife.setting, admission.setting, token.setting, receipts.setting,
                contentLimit.setting, requestsPerMinute.setting, connections.setting, connectionsPerAddress.setting,
            ])
    }

    static let tlsSection = Section(
        path: "enrolment.tls", settings: ListenerConfiguration.TLS.Keys.section.settings, former: TLSPolicyName.former)

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let address = reader.read(Keys.address)
        let proxyProtocol = reader.read(Keys.proxyProtocol)
        let protocols = reader.read(Keys.protocols)
        let tls = reader.read(Keys.tls)
        let url = reader.read(Keys.url)
        let authority = reader.read(Keys.authority)
        let certificateLife = reader.read(Keys.certificateLife)
        let rotationOverlap = reader.read(Keys.rotationOverlap)
        let nonceLife = reader.read(Keys.nonceLife)
        let name = reader.read(Keys.admission)
        let token = reader.read(Keys.token)
        let receipts = reader.read(Keys.receipts)
        let contentLimit = reader.read(Keys.contentLimit)
        let requestsPerMinute = reader.read(Keys.requestsPerMinute)
        let connections = reader.read(Keys.connections)
        let connectionsPerAddress = reader.read(Keys.connectionsPerAddress, within: connections)
        if let connections, let connectionsPerAddress, connectionsPerAddress > connections {
            reading.refuse(
                reader.place(of: Keys.connectionsPerAddress),
                "`connections_per_address` (\(connectionsPerAddress)) is larger than `connections` (\(connections))",
                expected: "`connections_per_address` of at most \(connections)")
            return nil
        }
        let admission = name.flatMap { Self.admission($0, token, url, reader, reading) }
        guard let address, let protocols, let tls, let url, let authority, let certificateLife, let rotationOverlap,
            let nonceLife,
            let admission, let contentLimit, let requestsPerMinute, let connections, let connectionsPerAddress,
            receipts != nil || !reader.has(Keys.receipts), proxyProtocol != nil || !reader.has(Keys.proxyProtocol),
            proxyProtocol?.canReach(address, at: reader.place(of: Keys.proxyProtocol), reading) ?? true
        else { return nil }
        reading.mention(.address(address.description), at: reader.place(of: Keys.address))
        self.address = address
        self.proxyProtocol = proxyProtocol
        self.protocols = protocols
        self.tls = tls
        self.url = url
        self.authority = authority
        self.certificateLife = certificateLife
        self.rotationOverlap = rotationOverlap
        self.nonceLife = nonceLife
        self.admission = admission
        self.receipts = receipts
        self.contentLimit = contentLimit
        self.requestsPerMinute = requestsPerMinute
        self.connections = connections
        self.connectionsPerAddress = connectionsPerAddress
    }

    private static func admission(
        _ name: AdmissionConfiguration.Name, _ token: AdmissionTokenConfiguration.Draft?, _ url: ServiceURL?,
        _ reader: SectionReader, _ reading: Reading
    ) -> AdmissionConfiguration? {
        switch (name, reader.has(Keys.token)) {
        case (.token, true):
            return url.flatMap { url in token.map { .token(AdmissionTokenConfiguration($0, audience: url)) } }
        case (.token, false):
            reading.refuse(
                reader.place(of: Keys.admission), "`admission: token` needs the issuer of the tokens",
                expected: "`token`, with `issuer` and `keys`")
            return nil
        case (.open, true), (.approval, true):
            reading.refuse(
                reader.place(of: Keys.token), "`token` has no effect with `admission: \(name.rawValue)`",
                expected: "`admission: token`, or no `token`")
            return nil
        case (.open, false): return .open
        case (.approval, false): return .approval
        }
    }
}
