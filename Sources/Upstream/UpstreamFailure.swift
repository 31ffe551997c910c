public import HTTP

/// Why an upstream gave no complete response.
public enum UpstreamFailure: Error, Equatable, Sendable {
    /// No server accepted a connection.
    case unreachable(errno: Int32)
    case connectTimeout
    /// All connections the worker may have are in use.
    case connectionLimit
    /// The connection ended before the response was complete.
    case disconnected
    /// The response did not come, or stopped coming.
    case responseTimeout
    /// The response is not well-formed HTTP.
    case malformed(MessageFault)
    /// The upstream switched protocols without being asked to.
    case unexpectedUpgrade
}
