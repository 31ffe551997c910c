public import Attestation
public import Challenges
public import Cryptography
public import EventLoop
package import Gateway
internal import HTTP
public import Registry
public import Server
public import TLS
public import Vocabulary

/// The inputs of an enrolment service: a configuration whose files were read. These are plain values, and only the
/// service's thread makes keys from them.
public struct EnrolmentSettings: Sendable {
    /// A listener with its TLS settings.
    public struct Listener: Sendable {
        /// The address as text, by which sockets are found.
        public var name: String
        public var proxies: TrustedProxies
        /// The certificates in PEM.
        public var certificates: [UInt8]
        public var key: [UInt8]
        public var policy: TLSPolicy
        /// The protocols, the preferred one first.
        public var protocols: [ApplicationProtocol]
        /// The OCSP response for the first certificate.
        public var staple: StapledResponse?
        /// The devices that may connect. Nil if no client certificate is requested.
        public var clients: Clients?

        /// The client certificates of the listener for enrolled devices.
        public struct Clients: Sendable {
            /// The authorities in PEM. Empty if only self-signed certificates are accepted.
            public var authorities: [UInt8]
            /// Asks the registry about keys.
            public var admission: ClientAdmission

            public init(authorities: [UInt8], admission: ClientAdmission) {
                self.authorities = authorities
                self.admission = admission
            }
        }

        public init(
            name: String, proxies: TrustedProxies = .none, certificates: [UInt8], key: [UInt8],
            policy: TLSPolicy = .modern, protocols: [ApplicationProtocol] = [.http11], staple: StapledResponse? = nil,
            clients: Clients? = nil
        ) {
            self.clients = clients
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
        /// The platform with the requirements for its attestations, with the same id.
        public enum Kind: Sendable {
            /// The app in each environment; at least one.
            ///
            /// - maximumRisk: Limit of a receipt's risk metric, if it states one. Nil permits all.
            case apple([AttestedApp], maximumRisk: UInt32?)
            /// - attestsCertificateKey: Whether the certificate's key must be attested at each key binding.
            /// - integrity: Nil if Google Play is not asked.
            case android(AndroidApp, attestsCertificateKey: Bool, integrity: Integrity? = nil)
        }

        /// What is demanded of tokens of the Play Integrity API, with the app's keys as they were read.
        public struct Integrity: Sendable {
            /// Base64 of 32 bytes.
            public var decryptionKey: [UInt8]
            /// Base64 or PEM of a P-256 public key.
            public var verificationKey: [UInt8]
            /// The verdict that a phone must have. Nil for any.
            public var device: String?
            /// Whether each key binding needs a token, too.
            public var isForEachBinding: Bool

            public init(
                decryptionKey: [UInt8], verificationKey: [UInt8], device: String?, isForEachBinding: Bool
            ) {
                self.decryptionKey = decryptionKey
                self.verificationKey = verificationKey
                self.device = device
                self.isForEachBinding = isForEachBinding
            }
        }

        public var id: AppID
        public var kind: Kind
        public var form: ClientDataFormat
        /// The root of its simulators' attestations in PEM. Nil if it is not an app of a simulator.
        public var simulatorRoot: [UInt8]?
        public var counters: CounterMode
        /// The maximum number of devices that were attested for development and are not revoked. Nil for any.
        public var developmentLimit: Int?

        public init(
            id: AppID, kind: Kind, form: ClientDataFormat = .nonceAndTag, simulatorRoot: [UInt8]? = nil,
            counters: CounterMode, developmentLimit: Int? = nil
        ) {
            self.developmentLimit = developmentLimit
            self.id = id
            self.kind = kind
            self.form = form
            self.simulatorRoot = simulatorRoot
            self.counters = counters
        }

        /// The environments for which its devices may be attested.
        var environments: [AttestationEnvironment] {
            switch kind {
            case .apple(let apps, _): apps.map { AttestationEnvironment($0.environment) }
            case .android(let app, _, _): [AttestationEnvironment(app.environment)]
            }
        }

        /// Limit of a receipt's risk metric. Nil if there is none.
        var maximumRisk: UInt32? {
            if case .apple(_, let maximumRisk) = kind { maximumRisk } else { nil }
        }
    }

    /// The condition for enrolment besides a genuine app.
    public enum Admission: Sendable {
        case open
        case approval
        case token(TokenIssuer)
        /// The endpoints are those of the reference system.
        case card(Cards)
    }

    /// The health cards whose holders may register devices.
    public struct Cards: Sendable {
        /// The certificates of their authorities in PEM.
        public var authorities: [UInt8]
        /// Whether the deletion of an unknown registration is answered with 404, not 400.
        public var unknownIsAbsent: Bool

        public init(authorities: [UInt8], unknownIsAbsent: Bool = true) {
            self.authorities = authorities
            self.unknownIsAbsent = unknownIsAbsent
        }
    }

    public struct TokenIssuer: Sendable {
        /// The issuer's public keys.
        public enum Keys: Sendable {
            /// Keys on P-256: 1 to 8 uncompressed points of 65 bytes.
            case listed([[UInt8]])
            case fetched(IssuerKeySettings)
        }

        /// The required `iss`, compared byte by byte.
        public var issuer: String
        /// The required `aud`.
        public var audience: ProviderURL
        public var keys: Keys
        /// The maximum time until `exp`, in seconds.
        public var longestLife: Int64

        public init(
            issuer: String, audience: ProviderURL, keys: Keys, longestLife: Int64 = SingleUse.longestTokenLife
        ) {
            self.issuer = issuer
            self.audience = audience
            self.keys = keys
            self.longestLife = longestLife
        }
    }

    /// Keys derived from the secrets that all gateways of one store share.
    public struct Secrets: Sendable {
        public var current: ChallengeSecret
        public var previous: ChallengeSecret?
        /// The key of devices' short ids in logs, 32 bytes.
        public var log: [UInt8]
        /// The key of the pseudonyms of tokens' subjects, 32 bytes.
        public var subjects: [UInt8]

        /// The secrets of session tickets.
        var ofSessions: [[UInt8]] { [current, previous].compactMap { $0?.bytes } }

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
    /// The settings of receipt refreshes. Nil if there are none.
    public var receipts: ReceiptSettings?
    /// The settings of the status list of Android's attestation keys. Nil if no app demands it.
    public var statusList: StatusListSettings?
    /// The settings of the keys of admission tokens that are fetched. Nil if none are.
    public var fetchedKeys: IssuerKeySettings? {
        guard case .token(let issuer) = admission, case .fetched(let keys) = issuer.keys else { return nil }
        return keys
    }
    var cards: Cards? { if case .card(let cards) = admission { cards } else { nil } }
    /// The settings of device tokens. Nil if none are issued.
    public var deviceTokens: DeviceTokenIssuerSettings?
    /// The settings of the wallet profile. Nil without it.
    public var wallet: WalletSettings?
    /// The lifetime of issued certificates in seconds.
    public var certificateLifetime = ClientCertificateIssue.defaultLifetime
    /// The number of seconds for which a replaced key stays valid.
    public var rotationOverlap: Int64 = 86_400
    /// Whether devices renew their keys without a client certificate, too.
    public var renewal = KeyRenewal.permitted
    /// What devices are judged by that connect with their certificate. Nil if none can.
    package var enforcement: Enforcement.Settings?
    /// The lifetime of a nonce in seconds.
    public var nonceLife: UInt64 = 300
    /// Limit of a request's content in bytes, at most `RequestContent.lengthLimit`.
    public var contentLimit = RequestContent.lengthLimit
    /// Limit of requests per minute for each client address. Nil for no limit.
    public var requestsPerMinute: Int? = 120
    public var connectionsPerAddress: Int? = 64
    /// Timeouts, and the limits of all clients together.
    public var server = EnrolmentSettings.standardServer
    /// The time that connections have to end during a shutdown.
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

    /// The default server settings, for phones with rare and short connections.
    public static var standardServer: ServerSettings {
        var settings = ServerSettings()
        settings.head = HeadLimits(bytes: 8 * 1024, target: 1024, fields: 64)
        settings.connections = 1_000
        settings.requestsPerConnection = 100
        // A phone enrols one step after the other, and anyone may connect.
        settings.http2.concurrentStreams = 8
        settings.http2.headerList = 8 * 1024 + 32 * 64
        settings.http2.streamWindow = 32 * 1024
        settings.http2.connectionWindow = 65_535
        // No client is known here. If there is no room, the oldest connection of the address with the most is closed.
        settings.strangersGiveWay = true
        settings.contentIdleTimeout = .seconds(10)
        settings.keepAliveTimeout = .seconds(15)
        return settings
    }
}
