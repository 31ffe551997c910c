public import Attestation
public import Challenges
public import Cryptography
public import EventLoop
internal import HTTP
public import Registry
public import Server
public import TLS
public import Vocabulary

/// All inputs of an enrolment service: a configuration with its files read. Plain values: the reader of the files hands
/// them over, and only the service's thread makes keys from them.
public struct EnrolmentSettings: Sendable {
    /// Where it listens, and how it shows itself there. Clients are asked for no certificate.
    public struct Listener: Sendable {
        /// The address as text; sockets are found by it.
        public var name: String
        public var proxies: TrustedProxies
        /// Texts in PEM.
        public var certificates: [UInt8]
        public var key: [UInt8]
        public var policy: TLSPolicy
        /// The preferred one first.
        public var protocols: [ApplicationProtocol]
        /// Of the first of the certificates.
        public var staple: StapledResponse?

        public init(
            name: String, proxies: TrustedProxies = .none, certificates: [UInt8], key: [UInt8],
            policy: TLSPolicy = .modern, protocols: [ApplicationProtocol] = [.http11], staple: StapledResponse? = nil
        ) {
            self.name = name
            self.proxies = proxies
            self.certificates = certificates
            self.key = key
            self.policy = policy
            self.protocols = protocols
            self.staple = staple
        }
    }

    /// An app whose phones may enrol.
    public struct App: Sendable {
        public var id: AppID
        /// What its attestations must be; of the same id.
        public var attested: AttestedApp
        public var form: ClientDataFormat
        /// What attestations of its simulators lead to, in PEM; nil if it is none of a simulator.
        public var simulatorRoot: [UInt8]?
        /// The greatest risk metric of a receipt, where one says any. Nil: whatever it says.
        public var maximumRisk: UInt32?
        public var counters: CounterMode

        public init(
            id: AppID, attested: AttestedApp, form: ClientDataFormat = .nonceAndTag, simulatorRoot: [UInt8]? = nil,
            maximumRisk: UInt32? = nil, counters: CounterMode
        ) {
            self.id = id
            self.attested = attested
            self.form = form
            self.simulatorRoot = simulatorRoot
            self.maximumRisk = maximumRisk
            self.counters = counters
        }
    }

    /// Who is let in besides being a genuine app.
    public enum Admission: Sendable {
        case open
        case approval
        case token(TokenIssuer)
    }

    public struct TokenIssuer: Sendable {
        /// `iss`, byte by byte.
        public var issuer: String
        /// `aud`.
        public var audience: ProviderURL
        /// Its public keys: uncompressed points of 65 bytes, 1 to 8.
        public var points: [[UInt8]]
        /// How far ahead `exp` may lie, in seconds.
        public var longestLife: Int64

        public init(
            issuer: String, audience: ProviderURL, points: [[UInt8]], longestLife: Int64 = SingleUse.longestTokenLife
        ) {
            self.issuer = issuer
            self.audience = audience
            self.points = points
            self.longestLife = longestLife
        }
    }

    /// What is derived of the secrets that all gateways of one store share.
    public struct Secrets: Sendable {
        public var current: ChallengeSecret
        public var previous: ChallengeSecret?
        /// Of the short ids by which logs know devices: 32 bytes.
        public var log: [UInt8]
        /// Of the pseudonyms of those whom tokens name: 32 bytes.
        public var subjects: [UInt8]

        public init(current: ChallengeSecret, previous: ChallengeSecret?, log: [UInt8], subjects: [UInt8]) {
            self.current = current
            self.previous = previous
            self.log = log
            self.subjects = subjects
        }
    }

    public var listeners: [Listener]
    public var provider: ProviderURL
    public var apps: [App]
    public var admission: Admission
    /// The GMS CA.
    public var authority: AuthoritySource
    public var secrets: Secrets
    /// Nil if nobody is asked for newer receipts.
    public var receipts: ReceiptSettings?
    /// How long issued certificates are good for, in seconds.
    public var certificateLifetime = ClientCertificateIssue.defaultLifetime
    /// How long a key that was replaced stays good, in seconds.
    public var rotationOverlap: Int64 = 86_400
    /// How long a nonce is good for, in seconds.
    public var nonceLife: UInt64 = 300
    /// Bytes of a request's content; no more than `RequestContent.lengthLimit`.
    public var contentLimit = RequestContent.lengthLimit
    /// For each client address. Nil: no limit.
    public var requestsPerMinute: Int? = 120
    public var connectionsPerAddress: Int? = 64
    /// Timeouts and the limits of all clients together.
    public var server = EnrolmentSettings.standardServer
    /// How long connections may take to end once they are to.
    public var shutdownTimeout = TimeSpan.seconds(30)

    public init(
        listeners: [Listener], provider: ProviderURL, apps: [App], admission: Admission, authority: AuthoritySource,
        secrets: Secrets
    ) {
        self.listeners = listeners
        self.provider = provider
        self.apps = apps
        self.admission = admission
        self.authority = authority
        self.secrets = secrets
    }

    /// For phones that come seldom and for a moment.
    public static var standardServer: ServerSettings {
        var settings = ServerSettings()
        settings.head = HeadLimits(bytes: 8 * 1024, target: 1024, fields: 64)
        settings.connections = 1_000
        settings.requestsPerConnection = 100
        // A phone enrols one step after the other, and anybody may connect.
        settings.http2.concurrentStreams = 8
        settings.http2.headerList = 8 * 1024 + 32 * 64
        settings.http2.streamWindow = 32 * 1024
        settings.http2.connectionWindow = 65_535
        // Nobody is known here: of the address with the most connections the oldest makes room for a new one.
        settings.strangersGiveWay = true
        settings.contentIdleTimeout = .seconds(10)
        settings.keepAliveTimeout = .seconds(15)
        return settings
    }
}
