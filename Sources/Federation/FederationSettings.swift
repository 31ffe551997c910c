public import Enrolment
public import EventLoop
package import Gateway
public import Registry
public import Server
public import Vocabulary

/// The inputs of a federation's service: a configuration whose files were read. Plain values.
public struct FederationSettings: Sendable {
    /// An operator who may have services join.
    public struct Operator: Sendable {
        /// For logs.
        public var name: String
        /// SHA-256 of the token.
        public var secret: Fingerprint

        public init(name: String, secret: Fingerprint) {
            self.name = name
            self.secret = secret
        }
    }

    /// The lives of tokens in seconds.
    public struct Lives: Sendable {
        public var instance: Int64
        public var service: Int64
        public var app: Int64
        public var code: Int64

        public init(instance: Int64, service: Int64, app: Int64, code: Int64) {
            self.instance = instance
            self.service = service
            self.app = app
            self.code = code
        }
    }

    /// One listener. Its clients' certificates are optional.
    public var listeners: [EnrolmentSettings.Listener]
    /// The public URL, without a slash at the end.
    public var url: String
    /// The name in the federation's own RSD2 document.
    public var name: String
    /// The words that an instance may have in a scope.
    public var scopes: [String]
    public var operators: [Operator]
    public var lives: Lives
    /// Whether instances without a person are refused.
    public var needsPerson = false
    /// Whether calls of instances need a certificate and a request proof.
    public var requiresProof = false
    /// How long assertions without `exp` are valid, in seconds. Nil to refuse them.
    public var assertionLifeWithoutExpiry: Int64?
    /// The first version of each app that is admitted.
    public var minimumVersions: [AppID: AppVersion] = [:]
    /// How the documents of services are fetched.
    public var descriptions: DescriptionSettings
    /// The secrets, and what devices are judged by that prove their requests.
    package var enforcement: Enforcement.Settings?
    /// Limit of a request's content in bytes.
    public var contentLimit = 64 << 10
    /// Limit of requests per minute for each client address. Nil for no limit.
    public var requestsPerMinute: Int? = 120
    public var connectionsPerAddress: Int? = 64
    /// Timeouts, and the limits of all clients together.
    public var server = EnrolmentSettings.standardServer
    /// The time that connections have to end during a shutdown.
    public var shutdownTimeout = TimeSpan.seconds(30)

    public init(
        listeners: [EnrolmentSettings.Listener], url: String, name: String, scopes: [String], operators: [Operator],
        lives: Lives, descriptions: DescriptionSettings
    ) {
        self.descriptions = descriptions
        self.listeners = listeners
        self.url = url
        self.name = name
        self.scopes = scopes
        self.operators = operators
        self.lives = lives
    }
}
