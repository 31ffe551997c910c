public import EventLoop
public import Registry
public import Upstream

/// The settings of receipt refreshes. Plain values; files were read before.
public struct ReceiptSettings: Sendable {
    /// A service and the environments of its devices.
    public struct Service: Sendable {
        /// The value of Host.
        public var host: String
        /// The path before `/v1/attestationData`: empty, or a slash and more.
        public var path: String
        public var environments: Set<AttestationEnvironment>
        /// The service, an upstream with one server.
        public var upstream: UpstreamSettings

        public init(host: String, path: String, environments: Set<AttestationEnvironment>, upstream: UpstreamSettings) {
            self.host = host
            self.path = path
            self.environments = environments
            self.upstream = upstream
        }
    }

    /// The team id and the key id, ten letters and digits each.
    public var team: String
    public var keyID: String
    /// The private key: PKCS #8 in PEM.
    public var key: [UInt8]
    public var services: [Service]
    /// The resolver of the services' names, with the addresses that are not permitted.
    public var resolver: ResolverSettings
    public var forbidden: ForbiddenAddresses
    /// The minimum number of seconds between two calls about one device.
    public var interval: Int64 = 86_400
    /// The number of seconds from a failed call to the next.
    public var retry: Int64 = 300
    public var timeout = TimeSpan.seconds(20)
    /// The number of simultaneous calls.
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

/// A claimed device whose receipt is worth a call.
struct ReceiptWork {
    let device: DeviceDetails
    let receipt: [UInt8]
    let times: ReceiptTimes
    let assessment: ReceiptAssessment
    /// The index of the service to call.
    let service: Int
    let claimEnd: Int64
}

extension EnrolmentNotice {
    /// Creates a notice about a device's refresh. It contains no receipt, token or key.
    ///
    /// - Parameters:
    ///   - device: The device's short id. Nil if it could not be computed.
    ///   - risk: The metric of the stored receipt, if known.
    init(
        _ severity: Severity, _ outcome: String, device: String?, app: String, risk: UInt32? = nil,
        because reason: String? = nil
    ) {
        var facts = [LogFact("outcome", outcome)]
        if let device { facts.append(LogFact("device", device)) }
        facts.append(LogFact("app", app))
        if let risk { facts.append(LogFact("risk", risk)) }
        self.init(.receipts, severity, facts, because: reason)
    }

    /// Returns a notice that calls are paused.
    static func paused(_ reason: RefreshSchedule.Pause, seconds: Int64) -> EnrolmentNotice {
        let (severity, word, text): (Severity, String, String) =
            switch reason {
            case .tokenRefused:
                (
                    .error, "token_refused",
                    "Apple refuses the token, so `team`, `key_id` and `key` do not match, the key is not enabled for"
                        + " DeviceCheck, or the clock is wrong"
                )
            case .throttled: (.warning, "throttled", "Apple receives too many calls")
            case .failing: (.warning, "failing", "consecutive calls fail")
            }
        return EnrolmentNotice(
            .receipts, severity, [LogFact("paused", word), LogFact("seconds", seconds)], because: text)
    }
}
