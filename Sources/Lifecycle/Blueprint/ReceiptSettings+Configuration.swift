internal import Enrolment
internal import EventLoop
internal import GatewayConfiguration
internal import Registry
internal import TLS
internal import Upstream

extension ReceiptSettings {
    /// Reads the files. Names are resolved when somebody is asked.
    init(_ receipts: ReceiptsConfiguration, _ configuration: Configuration) throws(StartupError) {
        let places: [(OutboundURL, Set<AttestationEnvironment>)]
        if let url = receipts.baseURL {
            places = [(url, Set(AttestationEnvironment.allCases))]
        } else {
            // Nobody at Apple's knows a software phone.
            places = [
                (ReceiptsConfiguration.production, [.production]), (ReceiptsConfiguration.development, [.development]),
            ]
        }
        let key: [UInt8]
        do { key = try FileContents.readPrivate(receipts.keyPath) } catch { throw StartupError("receipts: \(error)") }
        // Read once for all services: Debian's bundle has some 140 certificates.
        let isEncrypted = places.contains { $0.0.isEncrypted }
        let tls = isEncrypted ? try Self.tls(receipts.authoritiesPath) : nil
        var services: [Service] = []
        for (url, environments) in places {
            services.append(
                Service(
                    host: url.authority, path: url.path, environments: environments,
                    upstream: try Self.upstream(url, url.isEncrypted ? tls : nil, receipts)))
        }
        let forbidden = try ForbiddenAddresses(configuration)
        try Blueprint.check(services.map(\.upstream), against: forbidden)
        self.init(
            team: receipts.team, keyID: receipts.keyID, key: key, services: services,
            resolver: try ResolverSettings(configuration.resolver), forbidden: forbidden)
        interval = receipts.interval.components.seconds
        retry = receipts.retry.components.seconds
        timeout = TimeSpan(receipts.timeout)
        concurrency = receipts.concurrency
        callsPerMinute = receipts.callsPerMinute
    }

    private static func tls(_ path: String) throws(StartupError) -> ClientContext.Settings {
        do {
            let authorities = try TrustedAuthorities(pem: [try FileContents.read(path)])
            guard !authorities.certificates.isEmpty else { throw StartupError("it holds no certificate") }
            // What Apple's services offer is Apple's to say: TLS 1.2 will do.
            return ClientContext.Settings(authorities: authorities, policy: .intermediate)
        } catch {
            throw StartupError("receipts: authorities: \(path): \(error)")
        }
    }

    /// One server, with as many connections as calls.
    private static func upstream(
        _ url: OutboundURL, _ tls: ClientContext.Settings?, _ receipts: ReceiptsConfiguration
    ) throws(StartupError) -> UpstreamSettings {
        var server = try UpstreamSettings.Server(url.server, of: "receipts")
        if tls != nil { server.certificateName = url.server.host }
        var upstream = UpstreamSettings(name: "receipts", servers: [server])
        upstream.tls = tls
        upstream.connections = receipts.concurrency
        upstream.idleConnections = receipts.concurrency
        upstream.waiting = receipts.concurrency
        // The time of the call as a whole is what counts.
        let timeout = TimeSpan(receipts.timeout)
        upstream.connectTimeout = timeout
        upstream.waitingTimeout = timeout
        upstream.responseTimeout = timeout
        upstream.contentTimeout = timeout
        upstream.idleTimeout = .seconds(30)
        return upstream
    }
}
