internal import Bytes
internal import EventLoop
internal import HTTP

/// A call on an HTTP/2 connection. An object carries one call after the other.
///
/// ```
///        begin                           head written
/// unused -----> active, without a stream -------------> active, with a stream
///   ^                   |                                     |
///   +---- failed -------+------- ended, failed or cancelled --+
/// ```
public final class UpstreamStream {
    /// The connection is retained because a complete response outlives its use.
    private enum State {
        case unused
        /// The stream of the session is nil until the head is written.
        case active(HTTP2UpstreamConnection, UpstreamCall, CallStream?)
    }

    private enum Request {
        /// `unframed` is the content that was not framed at the last check.
        case open(unframed: Int)
        case complete
    }

    private enum Response {
        case awaited
        /// While the client is slower than the server, the response is held, and the client's own timeouts apply.
        case arriving(isHeld: Bool)
    }

    /// The progress of one call.
    private struct Progress {
        var request = Request.open(unframed: 0)
        var response = Response.awaited
        /// The deadline for the server's next step: accept more of the request, answer, or continue the response. Nil
        /// while the client is awaited.
        var end: Instant?
    }

    private var state = State.unused
    private var progress = Progress()
    /// The index among the streams in flight.
    var slot = 0

    func begin(_ call: UpstreamCall, on owner: HTTP2UpstreamConnection, slot: Int) {
        state = .active(owner, call, nil)
        progress = Progress()
        self.slot = slot
    }

    private var owner: HTTP2UpstreamConnection? { if case .active(let owner, _, _) = state { owner } else { nil } }
    private var call: UpstreamCall? { if case .active(_, let call, _) = state { call } else { nil } }
    private var wire: CallStream? { if case .active(_, _, let wire) = state { wire } else { nil } }
    private var isRequestComplete: Bool { if case .complete = progress.request { true } else { false } }
    var end: Instant? { progress.end }
    var footprint: Int { wire?.footprint ?? 0 }

    // MARK: - The request

    func writeHead(
        _ request: OutgoingRequest, path: Span<UInt8>, query: Span<UInt8>?, authority: Span<UInt8>,
        fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        guard case .active(let owner, let call, _) = state, let session = owner.session else { return true }
        do throws(HTTP2OpenFailure) {
            let opened = try session.open(
                request.method, scheme: owner.transport.isPlain ? "http" : "https", authority: authority,
                endsStream: !request.framing.hasContent
            ) { output in
                output.append(path)
                if let query {
                    output.append("?")
                    output.append(query)
                }
            } fields: { output in
                fields(&output)
                if case .length(let length) = request.framing { output.appendField("content-length", decimal: length) }
            }
            guard let opened = opened as? CallStream else { preconditionFailure("the handler makes no other streams") }
            opened.carry(self, call)
            state = .active(owner, call, opened)
            // An earlier server got this content and has not processed it.
            call.kept.replay { _ = opened.sendContent($0) }
        } catch {
            switch error {
            case .headTooLarge: return false
            // The connection has ended within this event, and reports that at its end.
            case .noRoom, .closing: owner.lose(.disconnected)
            }
        }
        return true
    }

    var contentRoom: Int {
        guard let owner else { return 0 }
        return owner.pool.buffers.blockSize - (wire?.unframed ?? 0)
    }

    func write(_ first: UInt8?, _ content: Span<UInt8>) {
        guard case .active(let owner, let call, let wire?) = state else { return }
        call.kept.keep(first, content, in: owner.pool.buffers)
        if let first {
            let byte: [1 of UInt8] = [first]
            _ = wire.sendContent(byte.span)
        }
        if !content.isEmpty { _ = wire.sendContent(content) }
    }

    func send(isComplete: Bool) {
        guard let owner else { return }
        if isComplete, !isRequestComplete {
            progress.request = .complete
            wire?.sendEnd()
            limitWait()
        }
        owner.workSoon()
    }

    /// Measures the wait for the server. Call it when nothing more can be framed.
    func measure() {
        guard let wire, case .open(let before) = progress.request, wire.unframed != before else { return }
        progress.request = .open(unframed: wire.unframed)
        limitWait()
    }

    // MARK: - The response

    func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        progress.response = .arriving(isHeld: false)
        // The server has processed the request, so no other one gets it.
        call?.kept.drop()
        limitWait()
        call?.responseHead(head, bytes)
    }

    func receive(_ content: Span<UInt8>) -> Int {
        guard let call else { return content.count }
        let taken = call.responseContent(content)
        progress.response = .arriving(isHeld: taken < content.count)
        limitWait()
        return taken
    }

    func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {
        call?.responseTrailers(trailers, bytes)
    }

    func responseEnded() {
        guard let owner, let call = detach() else { return }
        if !owner.isCheck { owner.pool.succeeded(owner.server) }
        call.responseEnded()
    }

    func requestSpaceAvailable() {
        limitWait()
        if !isRequestComplete { call?.requestSpaceAvailable() }
    }

    func failed(_ failure: HTTP2StreamFailure) {
        guard let owner else { return }
        let isUnanswered = wire?.isAnswered != true
        switch failure {
        case .unprocessed(.unsent): fail(owner.loss ?? .disconnected, again: .always, isJudged: false)
        case .unprocessed: fail(.refused, again: .always, isJudged: false)
        // Any client can provoke this, so it must not have a server ejected.
        case .reset(let code): fail(.reset(code), again: .never, isJudged: false)
        case .malformed(let fault): fail(.malformed(fault), again: .never, isJudged: true)
        case .connectionFaulted(let fault): fail(.http2(fault), again: .never, isJudged: true, ofConnection: true)
        case .disconnected:
            fail(
                owner.loss ?? .disconnected, again: isUnanswered ? .ifIdempotent : .never, isJudged: isRequestComplete,
                ofConnection: true)
        }
    }

    /// Fails the call if the connection ended before it could take the request.
    func failUnsent() {
        guard case .active(let owner, let call, nil) = state else { return }
        fail(owner.loss ?? .disconnected, again: .always, isJudged: false)
        call.finishEvent()
    }

    private func fail(
        _ failure: UpstreamFailure, again: Repetition, isJudged: Bool, ofConnection: Bool = false
    ) {
        guard let owner, let call = detach() else { return }
        owner.failed(failure, isJudged: isJudged, ofConnection: ofConnection)
        call.search.tried.insert(owner.server)
        if again != .always { call.kept.drop() }
        call.failed(failure, again: again)
    }

    func resumeResponse() {
        guard case .arriving(isHeld: true) = progress.response, let owner else { return }
        progress.response = .arriving(isHeld: false)
        limitWait()
        // In an event of its own: the caller is within an event of its client.
        owner.resume(self)
    }

    /// Passes on the content that was held back.
    func deliver() { wire?.contentWanted() }

    // MARK: - Time

    private func limitWait() {
        guard let owner else { return }
        let isOwing = isRequestComplete || (wire?.unframed ?? 0) > 0
        progress.end = isOwing ? stepTime(owner).map { owner.loop.now + $0 } : nil
        owner.wait(until: progress.end)
    }

    /// Returns the time for the server's next step, or nil while the client is awaited.
    private func stepTime(_ owner: HTTP2UpstreamConnection) -> TimeSpan? {
        switch progress.response {
        case .awaited: owner.responseTimeout
        case .arriving(isHeld: false): owner.contentTimeout
        case .arriving(isHeld: true): nil
        }
    }

    func judge(now: Instant) {
        guard let end, end <= now, let owner, let call, let time = stepTime(owner) else { return }
        // Nothing has arrived for long on any stream: the connection may be dead, so the next requests use others.
        if (now - owner.lastReceived).nanoseconds >= time.nanoseconds / 2 { owner.retire() }
        let wire = wire
        // A client whose upload the service does not accept must not have it ejected for all clients of the connection.
        fail(.responseTimeout, again: .never, isJudged: wire?.isStarved != true)
        wire?.reset(.cancel)
        call.finishEvent()
    }

    // MARK: - The end

    func cancel() {
        let wire = wire
        detach()?.kept.drop()
        wire?.reset(.cancel)
    }

    private func detach() -> UpstreamCall? {
        guard let owner, let call = forget() else { return nil }
        owner.release(self)
        return call
    }

    private func forget() -> UpstreamCall? {
        let call = call
        call?.placement = .unplaced
        wire?.release()
        state = .unused
        return call
    }

    /// Ends the call because its pool ends.
    func abandon() { _ = forget() }
}

/// The stream of the session, which passes its events to the carrier of the call while there is one.
final class CallStream: HTTP2ClientStream {
    private enum Use {
        case none
        case carrying(UpstreamStream, UpstreamCall)
        /// The carrier has released the stream within an event, which still has to be finished for the call.
        case released(UpstreamCall)
    }

    private var use = Use.none
    private var carrier: UpstreamStream? { if case .carrying(let carrier, _) = use { carrier } else { nil } }

    func carry(_ carrier: UpstreamStream, _ call: UpstreamCall) { use = .carrying(carrier, call) }
    func release() { if case .carrying(_, let call) = use { use = .released(call) } }

    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) { carrier?.responseHead(head, bytes) }
    override func receive(content: Span<UInt8>) -> Int { carrier?.receive(content) ?? content.count }
    override func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {
        carrier?.responseTrailers(trailers, bytes)
    }
    override func responseEnded() { carrier?.responseEnded() }
    override func requestSpaceAvailable() { carrier?.requestSpaceAvailable() }
    override func failed(_ failure: HTTP2StreamFailure) { carrier?.failed(failure) }
    override func finishEvent() {
        switch use {
        case .none: break
        case .carrying(_, let call): call.finishEvent()
        case .released(let call):
            use = .none
            call.finishEvent()
        }
    }
}
