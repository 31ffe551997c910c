internal import Bytes
internal import EventLoop
internal import HTTP

/// One call on a connection of HTTP/2. An object carries one call after the other.
public final class UpstreamStream {
    /// Nil while it carries no call. It keeps the connection: a response that has come whole outlives that.
    private var owner: HTTP2UpstreamConnection?
    private var call: UpstreamCall?
    /// Its place among those under way.
    var slot = 0
    /// Once the head was written.
    private var wire: CallStream?
    private var isRequestComplete = false
    private var isAnswered = false
    /// The client is slower than the server; the client's own timeouts watch it.
    private var isHeld = false
    /// Content of the request that was not framed when that was looked at last.
    private var unframed = 0
    /// Until when the server has to do what it owes: take more of the request, answer, go on with the response. Nil while it is the
    /// client that is waited for.
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

    var currentCall: UpstreamCall? { call }
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
            // The connection has ended in this very event: it says so itself, at its end.
            case .noRoom, .closing: owner.lose(.disconnected)
            }
        }
        replay(call)
        return true
    }

    /// Sends again what an earlier server got of the content and has not processed.
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

    /// To be called when nothing more can be framed: what waits then, waits for the server.
    func measure() {
        guard let wire, !isRequestComplete else { return }
        let before = unframed
        unframed = wire.unframed
        if unframed != before { limitWait() }
    }

    // MARK: - The response

    func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        isAnswered = true
        // It has been processed: nobody else is asked.
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
        // Anything a client sends may lead to that: it must not have a server ejected.
        case .reset(let code): fail(.reset(code), again: .never, isJudged: false)
        case .malformed(let fault): fail(.malformed(fault), again: .never, isJudged: true)
        case .connectionFaulted(let fault): fail(.http2(fault), again: .never, isJudged: true, ofConnection: true)
        case .disconnected:
            fail(
                owner.loss ?? .disconnected, again: isUnanswered ? .ifIdempotent : .never, isJudged: isRequestComplete,
                ofConnection: true)
        }
    }

    /// Whether the session knows of it.
    var isOnWire: Bool { wire != nil }

    /// The connection has ended before it could take the request.
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
        // In an event of its own: the caller is in the middle of its client's.
        owner.resume(self)
    }

    /// Hands on what was held back.
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
        // Nothing has come for long, for anybody: the connection may lead nowhere, and the next requests go elsewhere.
        let wait = isAnswered ? owner.contentTimeout : owner.responseTimeout
        if (now - owner.lastReceived).nanoseconds >= wait.nanoseconds / 2 { owner.retire() }
        let wire = wire
        let call = call
        // A client whose upload the service does not take must not have it judged by all who share the connection.
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

    /// The pool itself goes.
    func abandon() {
        call?.carrier = nil
        call = nil
        wire?.carrier = nil
        wire = nil
        owner = nil
    }
}

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
