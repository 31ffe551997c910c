internal import HTTP

/// What the session tells of one stream goes to whoever carries the call, as long as somebody does.
final class CallStream: HTTP2ClientStream {
    var carrier: UpstreamStream? {
        didSet { if let carrier { settling = carrier.currentCall } }
    }
    /// Whose event it is. It is settled, too, if it has given the stream up within.
    private var settling: UpstreamCall?

    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) { carrier?.responseHead(head, bytes) }
    override func receive(content: Span<UInt8>) -> Int { carrier?.receive(content) ?? content.count }
    override func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {
        carrier?.responseTrailers(trailers, bytes)
    }
    override func responseEnded() { carrier?.responseEnded() }
    override func requestSpaceAvailable() { carrier?.requestSpaceAvailable() }
    override func failed(_ failure: HTTP2StreamFailure) { carrier?.failed(failure) }
    override func settle() {
        let call = settling
        if carrier == nil { settling = nil }
        call?.settle()
    }
}
