internal import HTTP

/// Passes the session's events of one stream to the carrier of the call, as long as there is one.
final class CallStream: HTTP2ClientStream {
    var carrier: UpstreamStream? {
        didSet { if let carrier { finishing = carrier.currentCall } }
    }
    /// Whose event it is. It is settled, too, if it has given the stream up within.
    private var finishing: UpstreamCall?

    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) { carrier?.responseHead(head, bytes) }
    override func receive(content: Span<UInt8>) -> Int { carrier?.receive(content) ?? content.count }
    override func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {
        carrier?.responseTrailers(trailers, bytes)
    }
    override func responseEnded() { carrier?.responseEnded() }
    override func requestSpaceAvailable() { carrier?.requestSpaceAvailable() }
    override func failed(_ failure: HTTP2StreamFailure) { carrier?.failed(failure) }
    override func finishEvent() {
        let call = finishing
        if carrier == nil { finishing = nil }
        call?.finishEvent()
    }
}
