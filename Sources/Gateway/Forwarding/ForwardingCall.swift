internal import HTTP
internal import Upstream

/// The upstream's side of an exchange.
///
/// Refers to its exchange only while a request is under way: an upstream may still be in the middle of an event of a call
/// whose client is gone already.
final class ForwardingCall: UpstreamCall {
    var exchange: ForwardingExchange?

    override var method: Method? { exchange?.routedMethod }

    override func began(on carrier: UpstreamCarrier) { exchange?.began(on: carrier) }
    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) { exchange?.answer(head, bytes) }
    override func switched(_ head: ResponseHead, _ bytes: Span<UInt8>) -> UpstreamFailure? {
        exchange?.switched(head, bytes) ?? (exchange == nil ? .unexpectedUpgrade : nil)
    }
    override func tunnelEnded() { exchange?.serviceEndedTunnel() }
    override func responseContent(_ content: Span<UInt8>) -> Int { exchange?.passBack(content) ?? content.count }
    override func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {
        exchange?.passBack(trailers, bytes)
    }
    override func responseEnded() { exchange?.responseEnded() }
    override func requestSpaceAvailable() { exchange?.requestSpaceAvailable() }
    override func failed(_ failure: UpstreamFailure, again: Repetition) {
        exchange?.upstreamFailed(failure, again: again)
    }
    override func finishEvent() { exchange?.advance() }
}
