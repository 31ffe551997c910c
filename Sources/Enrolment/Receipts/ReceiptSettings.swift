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

/// A device that was claimed, and whose receipt is worth a call.
struct ReceiptWork {
    let device: DeviceDetails
    let receipt: [UInt8]
    let times: ReceiptTimes
    let judge: ReceiptJudge
    /// Which of the services is asked.
    let service: Int
    let claimEnd: Int64
}

/// What came of a device's receipt, for the log. Holds no receipt, token or key.
public struct ReceiptNotice: Equatable, Sendable, CustomStringConvertible {
    public enum Severity: Sendable {
        /// As it should be.
        case info
        /// A failure that recovers by itself, or that concerns one device.
        case warning
        /// An operator has to do something.
        case error
    }

    public let severity: Severity
    /// One line of `name=value`, then what it means.
    public let description: String
}

extension ReceiptNotice {
    /// - Parameters:
    ///   - device: its short id; nil if it could not be computed.
    ///   - risk: of the receipt that is kept now, if this says.
    init(
        _ severity: Severity, _ outcome: String, device: String?, app: String, risk: UInt32? = nil,
        because reason: String? = nil
    ) {
        var text = "outcome=\(outcome)"
        if let device { text += " device=\(device)" }
        text += " app=\(app)"
        if let risk { text += " risk=\(risk)" }
        if let reason { text += ": \(reason)" }
        self.init(severity: severity, description: text)
    }

    /// Nobody is asked about for a while.
    static func paused(_ reason: RefreshSchedule.Pause, seconds: Int64) -> ReceiptNotice {
        switch reason {
        case .tokenRefused:
            ReceiptNotice(
                severity: .error,
                description: "paused=token_refused seconds=\(seconds): Apple refuses the token, so `team`, `key_id` and"
                    + " `key` do not match, the key is not enabled for DeviceCheck, or the clock is wrong")
        case .throttled:
            ReceiptNotice(
                severity: .warning, description: "paused=throttled seconds=\(seconds): Apple receives too many calls")
        case .failing:
            ReceiptNotice(
                severity: .warning, description: "paused=failing seconds=\(seconds): consecutive calls fail")
        }
    }
}

extension ReceiptNotice {
    /// What becomes of the services' names.
    init(_ event: NameBook.Event) {
        switch event {
        case .failing(let server, let fault, _):
            self.init(severity: .warning, description: "\(server) cannot be resolved: \(fault.text)")
        case .recovered(let server): self.init(severity: .info, description: "\(server) is resolved again")
        case .refused(let server, let address, let reason):
            self.init(
                severity: .warning,
                description: "\(server) resolves to \(address.host), which \(reason): it is not used")
        }
    }
}
