internal import Bytes
internal import EventLoop
internal import HTTP
internal import Server

extension RateExcess {
    /// `Retry-After` (RFC 9110 section 10.2.3), and what draft-ietf-httpapi-ratelimit-headers says: the burst is the quota,
    /// and the window is the time in which as many become free again.
    func append(to output: inout ByteBuffer) {
        output.appendField("Retry-After", decimal: UInt64(wait))
        let policy = Array("\"\(scope.rawValue)\";q=\(rate.burst);w=\(rate.refill.wholeSeconds)".utf8)
        output.appendField("RateLimit-Policy", policy.span)
        let state = Array("\"\(scope.rawValue)\";r=0;t=\(wait)".utf8)
        output.appendField("RateLimit", state.span)
    }
}
