internal import Bytes
internal import EventLoop
internal import HTTP

/// A call on an HTTP/2 connection. An object carries one call after the other.
public final class UpstreamStream {
    /// The connection. Nil while there is no call. It is retained because a complete response outlives its use.
    private var owner: HTTP2UpstreamConnection?
    private var call: UpstreamCall?
    /// The index among the streams in flight.
    var slot = 0
    /// The stream, once the head was written.
    private var wire: CallStream?
    private var isRequestComplete = false
    private var isAnswered = false
    /// Whether the client is slower than the server. The client's own timeouts apply then.
    private var isHeld = false
    /// The content of the request that was not framed at the last check.
    private var unframed = 0
    /// The deadline for the server's next step: accept more of the request, answer, or continue the response. Nil while
    /// the client is awaited.
    private(set) var end: Instant?

    func begin(_ call: UpstreamCall, on owner: HTTP2UpstreamConnection, slot: Int) {
        self.owner = owner
        self.call = call
        self.slot = slot
        isRequestComplete = false
        isAnswered = false
        isHeld = false
        unframed = 0
        end = nil
    }

    fileprivate var currentCall: UpstreamCall? { call }
    var footprint: Int { wire?.footprint ?? 0 }

    // MARK: - The request

    func writeHead(
        _ request: OutgoingRequest, path: Span<UInt8>, query: Span<UInt8>?, authority: Span<UInt8>,
        fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        guard let owner, let call, let session = owner.session else { return true }
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
            opened.carrier = self
            wire = opened
        } catch {
            switch error {
            case .headTooLarge: return false
            // The connection has ended within this event, and reports that at its end.
            case .noRoom, .closing: owner.lose(.disconnected)
            }
        }
        replay(call)
        return true
    }

    /// Sends the content again that an earlier server got and has not processed.
    private func replay(_ call: UpstreamCall) {
        guard let wire else { return }
        call.kept.replay { _ = wire.sendContent($0) }
    }

    var contentRoom: Int {
        guard let owner else { return 0 }
        return owner.pool.buffers.blockSize - (wire?.unframed ?? 0)
    }

    func write(_ first: UInt8?, _ content: Span<UInt8>) {
        guard let wire, let call, let owner else { return }
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
            isRequestComplete = true
            wire?.sendEnd()
            limitWait()
        }
        owner.workSoon()
    }

    /// Measures the wait for the server. Call it when nothing more can be framed.
    func measure() {
        guard let wire, !isRequestComplete else { return }
        let before = unframed
        unframed = wire.unframed
        if unframed != before { limitWait() }
    }

    // MARK: - The response

    func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        isAnswered = true
        // The server has processed the request, so no other one gets it.
        call?.kept.drop()
        limitWait()
        call?.responseHead(head, bytes)
    }

    func receive(_ content: Span<UInt8>) -> Int {
        guard let call else { return content.count }
        let taken = call.responseContent(content)
        isHeld = taken < content.count
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

    /// Whether the session knows the stream.
    var isOnWire: Bool { wire != nil }

    /// Fails the call because the connection ended before it could take the request.
    func failUnsent() {
        let call = call
        fail(owner?.loss ?? .disconnected, again: .always, isJudged: false)
        call?.finishEvent()
    }

    private func fail(
        _ failure: UpstreamFailure, again: Repetition, isJudged: Bool, ofConnection: Bool = false
    ) {
        guard let owner, let call = detach() else { return }
        owner.failed(failure, isJudged: isJudged, ofConnection: ofConnection)
        call.tried.insert(owner.server)
        if again != .always { call.kept.drop() }
        call.failed(failure, again: again)
    }

    func resumeResponse() {
        guard isHeld, let owner else { return }
        isHeld = false
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
        end = isOwing && !isHeld ? owner.loop.now + (isAnswered ? owner.contentTimeout : owner.responseTimeout) : nil
        owner.wait(until: end)
    }

    func judge(now: Instant) {
        guard let end, end <= now, let owner else { return }
        // Nothing has arrived for long on any stream: the connection may be dead, so the next requests use others.
        let wait = isAnswered ? owner.contentTimeout : owner.responseTimeout
        if (now - owner.lastReceived).nanoseconds >= wait.nanoseconds / 2 { owner.retire() }
        let wire = wire
        let call = call
        // A client whose upload the service does not accept must not have it ejected for all clients of the connection.
        fail(.responseTimeout, again: .never, isJudged: wire?.isStarved != true)
        wire?.reset(.cancel)
        call?.finishEvent()
    }

    // MARK: - The end

    func cancel() {
        let wire = wire
        detach()?.kept.drop()
        wire?.reset(.cancel)
    }

    private func detach() -> UpstreamCall? {
        guard let owner, let call else { return nil }
        call.carrier = nil
        self.owner = nil
        self.call = nil
        wire?.carrier = nil
        wire = nil
        end = nil
        owner.release(self)
        return call
    }

    /// Ends the call because its pool ends.
    func abandon() {
        call?.carrier = nil
        call = nil
        wire?.carrier = nil
        wire = nil
        owner = nil
    }
}

/// The stream of the session, which passes its events to the carrier of the call while there is one.
final class CallStream: HTTP2ClientStream {
    var carrier: UpstreamStream? {
        didSet { if let carrier { finishing = carrier.currentCall } }
    }
    /// The call of the present event. Its event is finished even if the call has released the stream within it.
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
