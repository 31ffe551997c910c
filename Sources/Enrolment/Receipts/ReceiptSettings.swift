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

/// The result of a device's refresh for the log. It contains no receipt, token or key.
public struct ReceiptNotice: Equatable, Sendable, CustomStringConvertible {
    public enum Severity: Sendable {
        /// An expected event.
        case info
        /// A failure that recovers or concerns only one device.
        case warning
        /// A failure for which an operator must act.
        case error
    }

    public let severity: Severity
    /// A line of `name=value` pairs, followed by an explanation.
    public let description: String
}

extension ReceiptNotice {
    /// Creates a notice.
    ///
    /// - Parameters:
    ///   - device: The device's short id. Nil if it could not be computed.
    ///   - risk: The metric of the stored receipt, if known.
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

    /// Returns a notice that calls are paused.
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
    /// Creates a notice about the resolution of a service's name.
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
