public import EventLoop
public import HTTP

/// Limits and timeouts of the server role, the same for every listener of a worker.
public struct ServerSettings: Sendable {
    public var head = HeadLimits.standard
    /// Limits of a connection of HTTP/2: its size, and how often it may cause more work than it costs the client.
    public var http2 = HTTP2Limits()
    /// Open connections per worker. At that limit idle connections are closed for new ones; without any, a new one is
    /// closed immediately.
    public var connections = 10_000
    /// Accepting pauses while the process has this many descriptors open; the rest is for other uses.
    public var descriptorCeiling = Int32.max
    /// TLS handshakes in flight per worker. At that limit the oldest one is ended for a new one.
    public var handshakes = Int.max
    /// Whether, at the limit of connections, one whose client has not authenticated (`ServerConnection.isKnown`) may
    /// also be closed for a new one, so that silent clients cannot keep all others out.
    public var strangersGiveWay = false
    /// Requests served on one connection before it is closed.
    public var requestsPerConnection = 10_000
    /// Total time for the TLS handshake.
    public var handshakeTimeout = TimeSpan.seconds(10)
    /// Total time from the first byte of a head to its last.
    public var headTimeout = TimeSpan.seconds(10)
    /// The longest pause within the content of a request, or while the client reads the response.
    public var contentIdleTimeout = TimeSpan.seconds(30)
    /// The minimum of content that a client has to send or read, in bytes per second, beyond such pauses; 0 for none.
    public var contentRate = 0
    /// How long an idle connection is kept.
    public var keepAliveTimeout = TimeSpan.seconds(75)
    /// The idle timeout and the maximum life of a tunnel.
    public var tunnelIdleTimeout = TimeSpan.seconds(300)
    public var tunnelLife = TimeSpan.seconds(3600)
    /// The time, and the number of bytes, for which a refused client is read from before its connection closes.
    /// Closing immediately would reset the connection and could destroy the answer on its way (RFC 9112 section 9.6).
    public var lingerTimeout = TimeSpan.seconds(2)
    public var lingerBytes = 256 * 1024
    /// The same for HTTP/1.1 clients with a certificate. A proxy that reads no answer before it has sent so much would
    /// find the connection reset, and tell its client of an error of its own.
    public var knownLingerBytes = 16 * 1024 * 1024

    public init() {}
}
