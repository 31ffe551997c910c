public import Bytes

/// The user of an HTTP/2 server connection: makes its streams, and receives the events that concern all of them.
///
/// The session refers to it and does not keep it alive: the handler owns the session.
open class HTTP2Handler {
    public init() {}

    /// A stream is needed: a new object, which the session keeps and uses for one request after the other.
    open func makeStream(_ pool: BufferPool) -> HTTP2Stream { HTTP2Stream(pool: pool) }
    /// The client begins no more requests (GOAWAY). If it does all the same, they may or may not be served.
    open func clientGoesAway(_ code: HTTP2ErrorCode) {}
}
