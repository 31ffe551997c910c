public import EventLoop
public import HTTP

/// Limits and timeouts of the server role, the same for every listener of a worker.
public struct ServerSettings: Sendable {
    public var head = HeadLimits.standard
    /// What a connection of HTTP/2 may take up, and how often it may do what costs more than it.
    public var http2 = HTTP2Limits()
    /// Open connections per worker. At that limit idle connections are closed for new ones; without any, a new one is
    /// closed at once.
    public var connections = 10_000
    /// Accepting pauses while the process has as many descriptors open; those above are for other uses.
    public var descriptorCeiling = Int32.max
    /// TLS handshakes under way per worker: at that limit the oldest one gives way to a new one.
    public var handshakes = Int.max
    /// Whether at that limit also a connection is closed for a new one whose client has shown nothing yet
    /// (`ServerConnection.isKnown`), so that silent clients cannot keep all others out.
    public var strangersGiveWay = false
    /// Requests served on one connection before it is closed.
    public var requestsPerConnection = 10_000
    /// Total time for the TLS handshake.
    public var handshakeTimeout = TimeSpan.seconds(10)
    /// Total time from the first byte of a head to its last.
    public var headTimeout = TimeSpan.seconds(10)
    /// Longest pause within the content of a request, or while the client takes a response.
    public var contentIdleTimeout = TimeSpan.seconds(30)
    /// How many octets of content a client has to send or take in a second, beyond such pauses; 0 for any number.
    public var contentRate = 0
    /// How long a connection is kept without a request.
    public var keepAliveTimeout = TimeSpan.seconds(75)
    /// How long nothing may move in a tunnel, and how long one may last at all.
    public var tunnelIdleTimeout = TimeSpan.seconds(300)
    public var tunnelLife = TimeSpan.seconds(3600)
    /// How long, and for how many bytes, a refused client is listened to before its connection is closed. Closing at
    /// once would reset the connection and could destroy the answer on its way (RFC 9112 section 9.6).
    public var lingerTimeout = TimeSpan.seconds(2)
    public var lingerBytes = 256 * 1024

    public init() {}
}
