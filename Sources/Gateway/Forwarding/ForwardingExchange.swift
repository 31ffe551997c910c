internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import Server
internal import Upstream
internal import Vocabulary

/// One request on its way through the gateway: routed, decided, forwarded; its response on the way back.
///
/// Deciding is in `ForwardingExchange+Admission`, refusing in `ForwardingExchange+Denial`, tunnels in
/// `ForwardingExchange+Tunnel`, what is logged of it in `ForwardingExchange+Log`.
final class ForwardingExchange: Exchange {
    /// How far the request has come.
    enum Stage {
        /// Its device is being looked up, its proof verified. Content waits with the client.
        case deciding
        /// Its proof is good; content is collected and hashed, where it is not streamed.
        case collecting
        /// Its counter is being made durable.
        case committing
        /// It waits for a connection to the upstream. Content waits with the client.
        case queued
        /// It goes to the upstream, as it comes or as it was collected.
        case forwarding
        /// The service has switched protocols: bytes both ways.
        case tunnel
        /// It was answered here. Content that still comes is dropped.
        case answered
    }

    let gateway: GatewayApplication
    let call = ForwardingCall()
    var stage = Stage.deciding
    /// Index into the gateway's routes.
    var route: Int?
    var trace = TraceContext.none
    var refusal: Refusal?
    /// The token of a wait for the registry.
    var waiting: UInt64?
    var isRequestComplete = false
    var device: DeviceSnapshot?
    /// The place of the device's app in the configuration.
    var app = 0
    var proof: VerifiedProof?
    /// From then on the proof, or the certificate that came with it, is no longer good.
    var proofEnd = Instant(nanoseconds: .max)
    /// Of a request whose proof is good.
    var content: ProvenContent?
    /// What became of the request; nil while that is open, or if the client left before.
    var decision: Decision?
    var timings = RequestTimings()
    /// When the phase began that the request is in: the commit, or the upstream's.
    var phaseBegan = Instant(nanoseconds: 0)
    /// How the log calls the device of this connection, which hardly ever becomes another one.
    var label: (device: DeviceID, label: DeviceLabel?)?
    /// Whether the registry knows that device for this request.
    var isDeviceKnown = false
    /// Of a request that asks for a WebSocket.
    var tunnelling = Tunnelling()
    var isAborted = false
    /// It was to be forwarded, whatever came of that.
    private(set) var isUpstreamAsked = false
    /// The request was sent again, after a connection had ended before the first byte of an answer.
    private var isRetried = false
    /// The end of the request, or of the response, waits for room.
    private var isRequestEndDue = false
    private var isResponseEndDue = false
    /// Written once, on the first request.
    private lazy var forwarded = ClientNetwork.forwardedPrefix(of: connection.peer)
    private(set) lazy var client = gateway.log?.client(connection.peer) ?? ConnectionPiece()
    /// Whose the rate of a source is.
    private lazy var source = connection.peer.block.hashValue
    /// Of this connection's device for the upstream it asked for last.
    private var pseudonym: (device: DeviceID, upstream: Int, digest: Digest256)?

    init(connection: ServerConnection, gateway: GatewayApplication) {
        self.gateway = gateway
        super.init(connection: connection)
    }

    // MARK: - What comes from the client

    override func headReceived() {
        trace = gateway.trace(of: head, headBytes.readable)
        if let limiter = gateway.limiter, limiter.limitsSources,
            let excess = limiter.excess(ofSource: source, now: connection.loop.now)
        {
            return deny(excess)
        }
        decide()
    }

    override func receive(content: Span<UInt8>) -> Int {
        switch stage {
        case .deciding, .committing, .queued: 0
        case .collecting: collect(content)
        case .forwarding: pass(content)
        case .tunnel: passOn(content)
        case .answered: content.count
        }
    }

    override func contentEnded() {
        isRequestComplete = true
        contentComplete()
    }

    override func requestFaulted(_ fault: MessageFault) {
        if trace == .none { trace = gateway.beginTrace() }
        deny(Denial(fault), String(describing: fault.reason))
    }

    override func requestTimedOut() {
        if trace == .none { trace = gateway.beginTrace() }
        deny(.requestTimeout)
    }

    override func cutOff(_ debt: ClientDebt) {
        // What the client was told stays what the log says.
        guard refusal == nil else { return }
        if stage == .tunnel { noteTunnelEnd(.denied) }
        switch debt {
        case .content: refusal = Refusal(.requestTimeout)
        case .response: refusal = Refusal(.responseNotTaken)
        }
    }

    override func tunnelExpired(_ limit: TunnelLimit) {
        switch limit {
        case .idle: noteTunnelEnd(.idle)
        case .life: noteTunnelEnd(.life)
        case .certificate:
            refusal = Refusal(.certificateExpired)
            noteTunnelEnd(.denied)
        }
    }

    // MARK: - The request

    func forward() {
        guard let route else { return }
        isUpstreamAsked = true
        if !isRetried { phaseBegan = .now }
        let upstream = gateway.upstreams[gateway.routes.routes[route].upstream]
        do throws(UpstreamFailure) {
            let connection =
                try isRetried ? upstream.startAgain(call) : upstream.start(call, for: balanceKey)
            call.exchange = self
            if let connection { send(on: connection) } else { stage = .queued }
        } catch {
            deny(refusal(for: error))
        }
    }

    /// Whose request it is, for upstreams that keep to one server: of the device, or where none is known of its certificate.
    private var balanceKey: UInt64 { device?.hardwareKey.prefix ?? connection.identity?.keyID?.prefix ?? 0 }

    /// Whether it may be sent twice. A proof is for one sending, whatever the method.
    private var isRepeatable: Bool {
        proof == nil && !head.framing.hasContent && head.routedMethod?.isIdempotent == true
    }

    private func send(on connection: UpstreamConnection) {
        guard let method = head.routedMethod, let route else { return }
        let upstream = gateway.routes.routes[route].upstream
        decision = content?.isVerified == false ? .partial : .forwarded
        stage = .forwarding
        let framing = content?.framing(replacing: head.framing) ?? head.framing
        let fields: DeviceFields?
        do throws(CryptographyError) { fields = try deviceFields(for: upstream) } catch {
            return deny(.storeUnavailable, error.description)
        }
        let outcome = gateway.upstreamRequest.write(
            method, head, headBytes.readable, framing: framing, forwarded: forwarded, trace: trace, device: fields,
            upgrade: tunnelling.key, to: &connection.output)
        switch outcome {
        case .written: break
        case .tooLarge: return deny(Refusal(.headTooLarge))
        }
        if isContentVerified {
            release(to: connection)
        } else if !head.framing.hasContent {
            connection.send(isComplete: true)
        } else if head.expectsContinue {
            sendContinue()
        }
    }

    /// The wait for a connection is over.
    fileprivate func began(on connection: UpstreamConnection) {
        phaseBegan = .now
        send(on: connection)
        // The rest of the request has waited for this.
        if isRequestComplete { contentComplete() } else { contentWanted() }
    }

    /// Whether all content is here, and is what the proof says. Never without a proof.
    private var isContentVerified: Bool { content?.isVerified == true }

    /// Who sends the request, where the route demands to know.
    private func deviceFields(for upstream: Int) throws(CryptographyError) -> DeviceFields? {
        guard let device, let enforcement = gateway.enforcement else { return nil }
        let known: Digest256
        if let pseudonym, pseudonym.device == device.id, pseudonym.upstream == upstream {
            known = pseudonym.digest
        } else {
            known = try enforcement.pseudonym(of: device, for: upstream)
            pseudonym = (device.id, upstream, known)
        }
        return DeviceFields(
            pseudonym: known, app: enforcement.apps[app].id, platform: device.platform, counter: proof?.counter)
    }

    /// Sends what was kept back until it was verified, as far as there is room.
    private func release(to upstream: UpstreamConnection) {
        let isComplete = content?.release(into: &upstream.output) == true
        upstream.send(isComplete: isComplete)
    }

    /// Content that goes on as it comes. - Returns: how much was taken.
    func pass(_ content: Span<UInt8>) -> Int {
        guard let upstream = call.connection else { return content.count }
        guard isWithinLimit(content.count) else {
            deny(Refusal(.contentTooLarge))
            return content.count
        }
        let taken: Int
        do throws(CryptographyError) {
            taken = try append(content, to: &upstream.output)
        } catch {
            deny(.storeUnavailable, error.description)
            return content.count
        }
        // What fits is collected and leaves in one write: a client that sends many small chunks must not cost one each.
        if taken < content.count { upstream.send(isComplete: false) }
        return taken
    }

    private func append(_ content: Span<UInt8>, to output: inout ByteBuffer) throws(CryptographyError) -> Int {
        if let taken = try self.content?.pass(content, into: &output) { return taken }
        return head.framing == .chunked ? output.appendChunk(prefixOf: content) : output.appendPrefix(of: content)
    }

    override func contentPaused() {
        guard stage == .forwarding, head.framing.hasContent, let upstream = call.connection, !upstream.output.isEmpty
        else { return }
        upstream.send(isComplete: false)
    }

    /// All content was passed on, but for what is kept back of it.
    func finishRequest() {
        // An upstream that has answered already gets no more; its request was never complete.
        guard !isContentVerified, head.framing.hasContent, let upstream = call.connection else { return }
        guard proof == nil else {
            guard isContentProven() else { return }
            decision = .forwarded
            return release(to: upstream)
        }
        isRequestEndDue = head.framing == .chunked && !upstream.output.appendLastChunk()
        upstream.send(isComplete: !isRequestEndDue)
    }

    fileprivate func requestSpaceAvailable() {
        if isContentVerified, let upstream = call.connection {
            release(to: upstream)
        } else if isRequestEndDue {
            finishRequest()
        } else {
            contentWanted()
        }
    }

    // MARK: - The response

    fileprivate func answer(_ response: ResponseHead, _ bytes: Span<UInt8>) {
        guard !isAnswered else { return }
        timings.upstream = connection.loop.now - phaseBegan
        gateway.upstreamAnswered(route)
        // A service that has not switched protocols has answered a request; what the client has sent behind it is none.
        let isSent = sendHead(
            response.status, content: response.framing, statedLength: statedLength(response),
            isLast: isUpgradeAsked
        ) { output in
            appendFields(of: response, bytes, to: &output)
        }
        if !isSent { deny(Refusal(.upstreamUnavailable, "the response head is too large")) }
    }

    /// The fields of a response that go on, and a new challenge where one is due.
    func appendFields(of response: ResponseHead, _ bytes: Span<UInt8>, to output: inout ByteBuffer) {
        for index in response.fields.indices {
            let field = response.fields[index]
            // Accept-Signature is the gateway's to say.
            guard !field.name.isHopByHop, field.name != .contentLength, field.name != .acceptSignature,
                // It answers the key that the gateway has made.
                field.name != .secWebSocketAccept || version != .http2,
                !response.connection.drops(field, of: bytes)
            else { continue }
            output.appendField(field.nameRange.of(bytes), field.valueRange.of(bytes))
        }
        appendDueChallenge(to: &output)
    }

    /// A new challenge, in time before the one that the client has expires.
    func appendDueChallenge(to output: inout ByteBuffer) {
        guard let proof, proof.isChallengeAging else { return }
        gateway.enforcement?.appendAcceptSignature(to: &output, for: head, route: route)
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

    fileprivate func upstreamFailed(_ failure: UpstreamFailure, isUnanswered: Bool) {
        guard stage != .tunnel else {
            noteTunnelEnd(.serviceLost)
            return abort()
        }
        guard !isAnswered else {
            // Cut off, so that the client cannot take half a response for a whole one.
            refusal = refusal(for: failure)
            return abort()
        }
        if isUnanswered, !isRetried, isRepeatable {
            isRetried = true
            gateway.upstreamRetried(route)
            return forward()
        }
        if stage == .forwarding { timings.upstream = connection.loop.now - phaseBegan }
        deny(refusal(for: failure))
    }

    private func refusal(for failure: UpstreamFailure) -> Refusal {
        gateway.upstreamFailed(route, failure)
        return Refusal(Denial(failure), failure.text)
    }

    // MARK: - Ending

    override func abandoned() {
        if stage == .tunnel {
            tunnelAbandoned()
        } else {
            isAborted = true
            call.cancel()
        }
    }

    override func ended() {
        leaveTunnel()
        // An upstream that still wants the rest of a request it has answered already.
        call.cancel()
        call.exchange = nil
        stopWaiting()
        timings.total = .now - began
        if !connection.isHandshakeTold {
            connection.isHandshakeTold = true
            timings.handshake = connection.handshakeDuration
        }
        // How long a tunnel lasts says nothing of how long requests take.
        var counted = timings
        if stage == .tunnel { counted.total = nil }
        gateway.requestEnded(route, version, decision, refusal, counted)
        if let log = gateway.log { record(in: log) }
        stage = .deciding
        route = nil
        trace = .none
        refusal = nil
        decision = nil
        timings = RequestTimings()
        isDeviceKnown = false
        isRequestComplete = false
        device = nil
        proof = nil
        content = nil
        tunnelling = Tunnelling()
        isAborted = false
        isUpstreamAsked = false
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

    override var method: Method? { exchange?.head.routedMethod }

    override func began(on connection: UpstreamConnection) { exchange?.began(on: connection) }
    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) { exchange?.answer(head, bytes) }
    override func switched(_ head: ResponseHead, _ bytes: Span<UInt8>) -> UpstreamFailure? {
        exchange?.switched(head, bytes) ?? (exchange == nil ? .unexpectedUpgrade : nil)
    }
    override func tunnelEnded() { exchange?.serviceEndedTunnel() }
    override func responseContent(_ content: Span<UInt8>) -> Int { exchange?.passBack(content) ?? content.count }
    override func responseEnded() { exchange?.responseEnded() }
    override func requestSpaceAvailable() { exchange?.requestSpaceAvailable() }
    override func failed(_ failure: UpstreamFailure, isUnanswered: Bool) {
        exchange?.upstreamFailed(failure, isUnanswered: isUnanswered)
    }
    override func settle() { exchange?.settle() }
}
