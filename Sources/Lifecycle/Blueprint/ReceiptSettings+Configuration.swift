internal import Enrolment
internal import EventLoop
internal import GatewayConfiguration
internal import Registry
internal import Upstream

extension ReceiptSettings {
    /// Reads the files. Names are resolved when somebody is asked.
    ///
    /// - Parameter warnings: what is doubtful in them is added.
    init(
        _ receipts: ReceiptsConfiguration, _ configuration: Configuration, warnings: inout [StartupWarning]
    ) throws(StartupError) {
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
        do { key = try FileContents.readPrivate(receipts.keyPath) } catch {
            throw StartupError(in: "receipts", error)
        }
        // Read once for all services: Debian's bundle has some 140 certificates.
        let isEncrypted = places.contains { $0.0.isEncrypted }
        let tls = isEncrypted ? try OutboundService.tls(receipts.authoritiesPath, of: "receipts", &warnings) : nil
        var services: [Service] = []
        for (url, environments) in places {
            services.append(
                Service(
                    host: url.authority, path: url.path, environments: environments,
                    upstream: try OutboundService.upstream(
                        url, url.isEncrypted ? tls : nil, of: "receipts", connections: receipts.concurrency,
                        timeout: TimeSpan(receipts.timeout))))
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
}
