public import EventLoop
public import HTTP
public import TLS

/// The settings of one upstream: its servers, their choice and health, and its connections.
public struct UpstreamSettings: Sendable {
    /// A configured server.
    public struct Server: Sendable {
        /// The name in the conf file, for logs and metrics.
        public var name: String
        /// The addresses that new connections try in turn. Empty while the name is not resolved.
        public var addresses: [SocketAddress]
        /// The name that is resolved repeatedly. Nil if the addresses are configured.
        public let resolved: NamedServer?
        /// The name that the certificate must contain: a host name, or an address without brackets. Nil only without
        /// TLS.
        public var certificateName: String?

        /// The host of the gateway's own requests. A Unix socket has none of its own.
        var hostName: String { addresses.first?.isUnix == true ? "localhost" : name }

        public init(name: String, addresses: [SocketAddress], certificateName: String? = nil) {
            precondition(!addresses.isEmpty, "a server has at least one address")
            self.name = name
            self.addresses = addresses
            self.certificateName = certificateName
            resolved = nil
        }

        public init(_ server: NamedServer, certificateName: String? = nil) {
            name = server.description
            addresses = []
            self.certificateName = certificateName
            resolved = server
        }
    }

    /// The maximum number of servers of an upstream.
    public static let mostServers = ServerSet.limit

    public var name: String
    /// At least one server.
    public var servers: [Server]
    /// The TLS settings. Nil for plaintext, which the operator has accepted.
    public var tls: ClientContext.Settings?
    /// The protocol of all servers. With TLS, `tls` offers the same.
    public var speaks = ApplicationProtocol.http11
    public var balance = Balance.roundRobin
    /// The maximum number of open connections per worker, idle ones included.
    public var connections = 1024
    /// No connection is opened while the process has this many descriptors open. Those above are for other uses.
    public var descriptorCeiling = Int32.max
    /// The maximum number of connections to one server. Nil for half of all while other servers exist.
    public var connectionsPerServer: Int?
    /// The maximum number of requests in flight on one connection. It is 1 with HTTP/1.1. With HTTP/2 the server's
    /// limit applies too.
    public var streams = 100
    /// The maximum number of idle connections per worker.
    public var idleConnections = 128
    /// The maximum number of connections that are tunnels, open or opening.
    public var tunnels = 512
    /// The maximum number of requests in flight and waiting, per worker. Nil for as many as connections and waiting
    /// places admit.
    public var requests: Int?
    /// The maximum number of requests that wait for a connection, per worker.
    public var waiting = 256
    public var waitingTimeout = TimeSpan.seconds(2)
    /// The time to connect to one server, including the TLS handshake. With further servers, twice that in all.
    public var connectTimeout = TimeSpan.seconds(5)
    /// The maximum wait for the response head after the request was sent, and for a server to accept more of a request.
    public var responseTimeout = TimeSpan.seconds(60)
    /// The time between two reads of a response's content.
    public var contentTimeout = TimeSpan.seconds(60)
    /// The time after which an idle connection is closed.
    public var idleTimeout = TimeSpan.seconds(60)
    public var ejection = EjectionRules()
    /// The health checks. Nil if only requests show the health of servers.
    public var health: HealthCheckRules?
    public var head = HeadLimits.standard
    /// The fields about the client that requests have.
    public var clientFields = ClientFieldSettings()

    /// The maximum number of requests in flight at one server.
    var requestsPerServer: Int { (connectionsPerServer ?? connections) * requestsPerConnection }

    var requestsPerConnection: Int { speaks == .http2 ? streams : 1 }

    public init(name: String, servers: [Server]) {
        precondition((1...Self.mostServers).contains(servers.count), "an upstream has 1 to 64 servers")
        self.name = name
        self.servers = servers
    }
}

/// The settings of the fields about the client that an upstream receives.
public struct ClientFieldSettings: Sendable {
    public let names: ForwardedNames
    public let certificate: CertificateForwarding
    /// Whether the upstream receives Forwarded, and nothing else.
    public let isForwardedAlone: Bool

    public init(_ names: ForwardedNames = .forwarded, _ certificate: CertificateForwarding = .off) {
        self.names = names
        self.certificate = certificate
        isForwardedAlone = names == .forwarded && certificate == .off
    }
}

/// The fields that state the client's address, scheme and host.
public struct ForwardedNames: OptionSet, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// `Forwarded` (RFC 7239).
    public static let forwarded = ForwardedNames(rawValue: 1)
    public static let xForwardedFor = ForwardedNames(rawValue: 2)
    public static let xForwardedProto = ForwardedNames(rawValue: 4)
    public static let xForwardedHost = ForwardedNames(rawValue: 8)
}

/// The rule that chooses a request's server.
public enum Balance: Sendable {
    /// Each server in turn.
    case roundRobin
    /// The server with the fewest requests in flight.
    case leastConnections
    /// The same server for the same device, for as long as it is usable.
    case device
}

/// The settings of ejection, during which a server that fails requests gets none.
public struct EjectionRules: Sendable {
    /// The number of consecutive failures that lead to an ejection.
    public var failures = 5
    /// The duration of the first ejection. Each further one is twice as long.
    public var time = TimeSpan.seconds(10)
    /// The maximum duration.
    public var longest = TimeSpan.seconds(300)
    /// The number of servers that are never ejected, so that requests have a destination.
    public var minimumServers = 1

    public init() {}
}

/// The settings of health checks.
public struct HealthCheckRules: Sendable {
    /// The path of the request: `/health`.
    public var path: String
    /// The value of Host in the request. Nil for the server as configured.
    public var host: String?
    /// The time from one check to the next.
    public var interval = TimeSpan.seconds(5)
    /// The timeout of a whole check, less than `interval`.
    public var timeout = TimeSpan.seconds(2)
    /// The number of consecutive checks that make the server healthy or unhealthy.
    public var healthyAfter = 2
    public var unhealthyAfter = 3
    /// The required status. Nil for 200 to 299.
    public var status: UInt16?

    public init(path: String) {
        self.path = path
    }

    func passes(_ status: UInt16) -> Bool {
        if let expected = self.status { return status == expected }
        return (200...299).contains(status)
    }
}
