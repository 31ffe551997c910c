public import HTTP

/// Who waits for an upstream's response. One call is under way on a connection at a time.
///
/// The connection calls the `open` methods from its own events and says `settle()` at the end of each, where the call may
/// write to its client.
open class UpstreamCall {
    /// The connection that serves the call; nil before it started and after it ended.
    public internal(set) final var connection: UpstreamConnection?

    public init() {}

    /// The method of the request, which decides whether the response has content.
    open var method: Method? { nil }

    /// The final response head has arrived.
    open func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {}
    /// Content has arrived. - Returns: how much was taken; if not all, say `resumeResponse()` later.
    open func responseContent(_ content: Span<UInt8>) -> Int { content.count }
    /// The response is complete, and the connection is no longer the call's.
    open func responseEnded() {}
    /// There is room for more of the request.
    open func requestSpaceAvailable() {}
    /// There will be no (complete) response, and the connection is no longer the call's.
    ///
    /// - Parameter isStale: the connection had served other calls and broke before the first byte of a response: most
    ///   likely the server closed it while the request was on its way.
    open func failed(_ failure: UpstreamFailure, isStale: Bool) {}
    /// The event is over: write what is to be written.
    open func settle() {}
}
