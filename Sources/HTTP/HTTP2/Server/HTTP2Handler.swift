public import Bytes

/// Whoever serves a connection of HTTP/2: gives it its streams, and hears what concerns all of them.
///
/// The session refers to it and does not keep it alive: the handler owns the session.
open class HTTP2Handler {
    public init() {}

    /// A stream is needed: a new object, which the session keeps and uses for one request after the other.
    open func makeStream(_ pool: BufferPool) -> HTTP2Stream { HTTP2Stream(pool: pool) }
    /// The client begins no more requests (GOAWAY). If it does all the same, they may or may not be served.
    open func clientGoesAway(_ code: HTTP2ErrorCode) {}
}
