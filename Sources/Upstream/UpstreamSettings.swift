public import EventLoop
public import HTTP
public import TLS

/// One upstream: its servers, how they are chosen and judged, and how its connections are kept.
public struct UpstreamSettings: Sendable {
    /// One server as it is configured.
    public struct Server: Sendable {
        /// As the conf file has it: in logs and metrics.
        public var name: String
        /// Tried in turn by new connections. None while its name has not been resolved.
        public var addresses: [SocketAddress]
        /// What is resolved, again and again; nil if the addresses are what is configured.
        public let resolved: NamedServer?
        /// What its certificate must name: a host name, or an address without brackets. Nil only where there is no TLS.
        public var certificateName: String?

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

    /// Of one upstream at most.
    public static let mostServers = ServerSet.limit

    public var name: String
    /// At least one.
    public var servers: [Server]
    /// Nil: in the clear, which somebody has decided.
    public var tls: ClientContext.Settings?
    /// Spoken with all servers; with TLS, `tls` offers the same.
    public var speaks = ApplicationProtocol.http11
    public var balance = Balance.roundRobin
    /// Open connections per worker, idle ones included.
    public var connections = 1024
    /// No connection is opened while the process has as many descriptors open; those above are for other uses.
    public var descriptorCeiling = Int32.max
    /// Of those to one server at most; nil: half of them while there are other servers to ask.
    public var connectionsPerServer: Int?
    /// Requests under way on one connection at most: no more than one with HTTP/1.1, with HTTP/2 also no more than the server admits.
    public var streams = 100
    /// Unused connections kept per worker.
    public var idleConnections = 128
    /// Of those connections, the ones that may be tunnels, open or about to be.
    public var tunnels = 512
    /// Requests under way and waiting, per worker; nil: as many as connections and places to wait admit.
    public var requests: Int?
    /// Requests that wait for a connection, per worker.
    public var waiting = 256
    public var waitingTimeout = TimeSpan.seconds(2)
    /// For one server, the TLS handshake included; with others to go on to, twice that in all.
    public var connectTimeout = TimeSpan.seconds(5)
    /// Longest wait for the response head, once the request was sent, and for a server to take more of a request.
    public var responseTimeout = TimeSpan.seconds(60)
    /// Between two reads of a response's content.
    public var contentTimeout = TimeSpan.seconds(60)
    /// How long an unused connection is kept.
    public var idleTimeout = TimeSpan.seconds(60)
    public var ejection = EjectionRules()
    /// Nil: servers are judged by requests alone.
    public var health: HealthCheckRules?
    public var head = HeadLimits.standard

    /// Requests that one server may have under way.
    var requestsPerServer: Int { (connectionsPerServer ?? connections) * requestsPerConnection }

    var requestsPerConnection: Int { speaks == .http2 ? streams : 1 }

    public init(name: String, servers: [Server]) {
        precondition((1...Self.mostServers).contains(servers.count), "an upstream has 1 to 64 servers")
        self.name = name
        self.servers = servers
    }
}
