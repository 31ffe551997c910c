public import EventLoop
public import Registry
public import Upstream

/// How Apple is asked for newer receipts, its files read. Plain values.
public struct ReceiptSettings: Sendable {
    /// One that is asked, and about which devices.
    public struct Service: Sendable {
        /// The value of Host.
        public var host: String
        /// What comes before `/v1/attestationData`: nothing, or a slash and more.
        public var path: String
        public var environments: Set<AttestationEnvironment>
        /// One server.
        public var upstream: UpstreamSettings

        public init(host: String, path: String, environments: Set<AttestationEnvironment>, upstream: UpstreamSettings) {
            self.host = host
            self.path = path
            self.environments = environments
            self.upstream = upstream
        }
    }

    /// Ten letters and digits each.
    public var team: String
    public var keyID: String
    /// The private key, PKCS #8 in PEM.
    public var key: [UInt8]
    public var services: [Service]
    /// How their names are resolved, and to which addresses they must not lead.
    public var resolver: ResolverSettings
    public var forbidden: ForbiddenAddresses
    /// Between two questions about one device, at least, in seconds.
    public var interval: Int64 = 86_400
    /// From a call that failed to the next, in seconds.
    public var retry: Int64 = 300
    public var timeout = TimeSpan.seconds(20)
    /// Calls at once.
    public var concurrency = 4
    public var callsPerMinute = 60

    public init(
        team: String, keyID: String, key: [UInt8], services: [Service], resolver: ResolverSettings,
        forbidden: ForbiddenAddresses
    ) {
        self.team = team
        self.keyID = keyID
        self.key = key
        self.services = services
        self.resolver = resolver
        self.forbidden = forbidden
    }
}
