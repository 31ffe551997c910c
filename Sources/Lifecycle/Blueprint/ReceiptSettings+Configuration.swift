internal import Enrolment
internal import EventLoop
internal import GatewayConfiguration
internal import Registry
internal import Upstream

extension ReceiptSettings {
    /// Reads the key, and finds where Apple's services are.
    init(_ receipts: ReceiptsConfiguration) throws(StartupError) {
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
        var services: [Service] = []
        for (url, environments) in places {
            // Never in the clear where TLS was meant.
            guard !url.isEncrypted else { throw StartupError("receipts: \(url.text): TLS is not spoken yet") }
            services.append(
                Service(
                    host: url.authority, path: url.path, environments: environments,
                    upstream: try Self.upstream(url, receipts)))
        }
        self.init(team: receipts.team, keyID: receipts.keyID, key: key, services: services)
        interval = receipts.interval.components.seconds
        retry = receipts.retry.components.seconds
        timeout = TimeSpan(receipts.timeout)
        concurrency = receipts.concurrency
        callsPerMinute = receipts.callsPerMinute
    }

    /// One server, with as many connections as calls.
    private static func upstream(
        _ url: OutboundURL, _ receipts: ReceiptsConfiguration
    ) throws(StartupError) -> UpstreamSettings {
        let server: UpstreamSettings.Server
        do throws(EventLoopError) {
            server = UpstreamSettings.Server(
                name: url.server.description,
                addresses: try SocketAddress.resolve(host: url.server.host, port: url.server.port))
        } catch {
            throw StartupError("receipts: cannot resolve \(url.server.host)")
        }
        var upstream = UpstreamSettings(name: "receipts", servers: [server])
        upstream.connections = receipts.concurrency
        upstream.idleConnections = receipts.concurrency
        upstream.waiting = receipts.concurrency
        // The time of the call as a whole is what counts.
        let timeout = TimeSpan(receipts.timeout)
        upstream.waitingTimeout = timeout
        upstream.responseTimeout = timeout
        upstream.contentTimeout = timeout
        upstream.idleTimeout = .seconds(30)
        return upstream
    }
}
