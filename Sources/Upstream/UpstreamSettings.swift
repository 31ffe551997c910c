public import EventLoop
public import HTTP

/// One upstream: its servers, and how its connections are kept.
public struct UpstreamSettings: Sendable {
    public var name: String
    /// Taken in turn by new connections; at least one.
    public var servers: [SocketAddress]
    /// Open connections per worker, idle ones included.
    public var connections = 1024
    /// Unused connections kept per worker.
    public var idleConnections = 128
    public var connectTimeout = TimeSpan.seconds(5)
    /// Longest wait for the response head, and between two reads of its content.
    public var responseTimeout = TimeSpan.seconds(60)
    /// How long an unused connection is kept.
    public var idleTimeout = TimeSpan.seconds(60)
    public var head = HeadLimits.standard

    public init(name: String, servers: [SocketAddress]) {
        precondition(!servers.isEmpty, "an upstream has at least one server")
        self.name = name
        self.servers = servers
    }
}
