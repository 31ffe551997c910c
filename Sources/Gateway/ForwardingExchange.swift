internal import Bytes
internal import EventLoop
internal import HTTP
internal import Policy
internal import Server
internal import Upstream
internal import Vocabulary

/// One request on its way through the gateway: routed, decided, forwarded; its response on the way back.
final class ForwardingExchange: Exchange {
    private let gateway: GatewayApplication
    private let call = ForwardingCall()
    /// Index into the gateway's routes.
    private var route: Int?
    private var trace = TraceID.none
    private var denial: Denial?
    private var detail: String?
    private var isAborted = false
    /// The request was sent again on a fresh connection, after a kept one had turned out to be dead.
    private var isRetried = false
    /// The end of the request, or of the response, waits for room.
    private var isRequestEndDue = false
    private var isResponseEndDue = false
    /// Written once a connection, on its first request.
    private lazy var forwarded = ClientNetwork.forwardedPrefix(of: connection.peer)
    private lazy var client = ClientNetwork.text(of: connection.peer)

    init(connection: ServerConnection, gateway: GatewayApplication) {
        self.gateway = gateway
        super.init(connection: connection)
    }

    // MARK: - Deciding

    override func headReceived() {
        trace = gateway.traces.next()
        let match = gateway.routes.match(
            host: head.host.of(headBytes.readable), path: head.path.of(headBytes.readable), method: head.method)
        switch match {
        case .none: deny(.routeUnknown)
        case .methodRefused(let index):
            route = index
            deny(.methodRefused)
        case .route(let index):
            route = index
            guard let method = head.method, authorise(index) else { return }
            forward(method, to: index)
        }
    }

    /// - Returns: false if the request was denied.
    private func authorise(_ route: Int) -> Bool {
        switch gateway.routes.routes[route].requirement {
        case .certificate:
            // TLS let nobody in without a verified certificate, and the connection ends with it.
            break
        }
        if case .length(let length) = head.framing, length > gateway.routes.routes[route].contentLimit {
            deny(.contentTooLarge)
            return false
        }
        return true
    }

    // MARK: - Forwarding

    private func forward(_ method: Method, to route: Int, fresh: Bool = false) {
        var request = ByteBuffer(pool: gateway.pool)
        switch gateway.upstreamRequest.write(method, head, headBytes.readable, forwarded: forwarded, to: &request) {
        case .written: break
        case .refused: return deny(.headerRefused, "a field that overrides method or target")
        case .tooLarge: return deny(.headTooLarge)
        }
        do throws(UpstreamFailure) {
            let upstream = try gateway.upstreams[gateway.routes.routes[route].upstream].start(call, fresh: fresh)
            call.exchange = self
            swap(&request, &upstream.output)
            if !head.framing.hasContent {
                upstream.send(isComplete: true)
            } else if head.expectsContinue {
                sendContinue()
            }
        } catch {
            deny(Denial(error), RefusalDetail.of(error))
        }
    }

    override func receive(content: Span<UInt8>) -> Int {
        // After a denial, or an early answer, the rest is read and dropped until the connection closes.
        guard denial == nil, let upstream = call.connection else { return content.count }
        let received = requestBytes + UInt64(content.count)
        let taken: Int
        switch head.framing {
        case .length: taken = upstream.output.appendPrefix(of: content)
        default:
            if let route, received > gateway.routes.routes[route].contentLimit {
                deny(.contentTooLarge)
                return content.count
            }
            taken = upstream.output.appendChunk(prefixOf: content)
        }
        // What fits is collected and leaves in one write: a client that sends many small chunks must not cost one each.
        if taken < content.count { upstream.send(isComplete: false) }
        return taken
    }

    override func contentPaused() {
        guard head.framing.hasContent, denial == nil, let upstream = call.connection, !upstream.output.isEmpty else {
            return
        }
        upstream.send(isComplete: false)
    }

    override func contentEnded() {
        guard head.framing.hasContent, denial == nil, let upstream = call.connection else { return }
        isRequestEndDue = head.framing == .chunked && !upstream.output.appendLastChunk()
        upstream.send(isComplete: !isRequestEndDue)
    }

    fileprivate func requestSpaceAvailable() {
        if isRequestEndDue { contentEnded() } else { contentWanted() }
    }

    // MARK: - Answering

    fileprivate func answer(_ response: ResponseHead, _ bytes: Span<UInt8>) {
        guard !isAnswered else { return }
        let isSent = sendHead(response.status, content: response.framing, statedLength: statedLength(response)) {
            output in
            for index in response.fields.indices {
                let field = response.fields[index]
                guard !field.name.isHopByHop, field.name != .contentLength, !response.connection.drops(field, of: bytes)
                else { continue }
                output.appendField(field.nameRange.of(bytes), field.valueRange.of(bytes))
            }
        }
        if !isSent { deny(.upstreamUnavailable, "the response head is too large") }
    }

    /// Content-Length tells of content even where none follows: with HEAD and 304 (RFC 9110 section 8.6).
    private func statedLength(_ response: ResponseHead) -> UInt64? {
        response.framing == .none && (head.method == .head || response.status == 304) ? response.statedLength : nil
    }

    fileprivate func responseEnded() {
        isResponseEndDue = !sendEnd()
    }

    override func outputDrained() {
        if isResponseEndDue {
            responseEnded()
        } else {
            call.connection?.resumeResponse()
        }
    }

    fileprivate func upstreamFailed(_ failure: UpstreamFailure, isStale: Bool) {
        guard !isAnswered else {
            // Cut off, so that the client cannot take half a response for a whole one.
            detail = RefusalDetail.of(failure)
            denial = Denial(failure)
            return abort()
        }
        if isStale, !isRetried, !head.framing.hasContent, let method = head.method, method.isIdempotent, let route {
            isRetried = true
            return forward(method, to: route, fresh: true)
        }
        deny(Denial(failure), RefusalDetail.of(failure))
    }

    // MARK: - Denying

    override func requestFaulted(_ fault: MessageFault) {
        if trace == .none { trace = gateway.traces.next() }
        deny(Denial(fault), String(describing: fault.reason))
    }

    override func requestTimedOut() {
        if trace == .none { trace = gateway.traces.next() }
        deny(.requestTimeout)
    }

    private func deny(_ denial: Denial, _ detail: String? = nil) {
        call.connection?.cancel()
        self.denial = denial
        self.detail = detail
        guard !isAnswered, let status = denial.status else { return abort() }
        let length = gateway.denials.contentLength(of: denial)
        let isHead = head.method == .head
        let isSent = sendHead(status, content: isHead ? .none : .length(length), statedLength: length) { output in
            output.appendField("Content-Type", "application/json")
            output.appendField("Cache-Control", "no-store")
            output.append("Date: ")
            output.append(gateway.httpDate())
            output.append("\r\n")
            if denial == .methodRefused, let route {
                output.appendField("Allow", gateway.routes.allow(at: route).span)
            }
        }
        guard isSent else { return abort() }
        if !isHead {
            var body = ByteBuffer(pool: gateway.pool)
            body.append(gateway.denials.body(of: denial))
            body.append(hex: trace.high, digits: 16)
            body.append(hex: trace.low, digits: 16)
            body.append(DenialResponses.bodyEnd)
            guard sendContent(body.readable) == body.count else { return abort() }
        }
        _ = sendEnd()
    }

    // MARK: - Ending

    override func abandoned() {
        isAborted = true
        call.connection?.cancel()
    }

    override func ended() {
        // An upstream that still wants the rest of a request it has answered already.
        call.connection?.cancel()
        call.exchange = nil
        gateway.log?.record(
            AccessLog.Entry(
                trace: trace, client: client, route: route.map { gateway.routes.routes[$0].name }, method: head.method,
                status: status, denial: denial,
                detail: detail, requestBytes: requestBytes, responseBytes: responseBytes,
                duration: connection.loop.now - began,
                isAborted: isAborted))
        route = nil
        trace = .none
        denial = nil
        detail = nil
        isAborted = false
        isRetried = false
        isRequestEndDue = false
        isResponseEndDue = false
    }
}

/// The upstream's side of an exchange.
///
/// Refers to its exchange only while a request is under way: an upstream may still be in the middle of an event of a call
/// whose client is gone already.
final class ForwardingCall: UpstreamCall {
    fileprivate(set) var exchange: ForwardingExchange?

    override var method: Method? { exchange?.head.method }

    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) { exchange?.answer(head, bytes) }
    override func responseContent(_ content: Span<UInt8>) -> Int { exchange?.sendContent(content) ?? content.count }
    override func responseEnded() { exchange?.responseEnded() }
    override func requestSpaceAvailable() { exchange?.requestSpaceAvailable() }
    override func failed(_ failure: UpstreamFailure, isStale: Bool) {
        exchange?.upstreamFailed(failure, isStale: isStale)
    }
    override func settle() { exchange?.settle() }
}
