internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import Server
internal import Telemetry
internal import Upstream
internal import Vocabulary

/// A request on its way through the gateway: routed, decided, forwarded; and its response on the way back.
///
/// Deciding and refusing are in `RequestAdmission`, tunnels in `RequestTunnel`, log and traces in `RequestRecords`.
final class ForwardingExchange: Exchange {
    /// The stage of the request.
    enum Stage {
        /// Its device is looked up and its proof verified. Content waits at the client.
        case deciding
        /// Its proof is verified; content that is not streamed is collected and hashed.
        case collecting
        /// Its counter is being made durable.
        case committing
        /// It waits for a connection to the upstream. Content waits at the client.
        case queued
        /// It is sent to the upstream, as it arrives or as it was collected.
        case forwarding
        /// The service has switched protocols: raw bytes in both directions.
        case tunnel
        /// The gateway has answered it. Further content is discarded.
        case answered
    }

    let gateway: GatewayApplication
    let call = ForwardingCall()
    var stage = Stage.deciding
    /// Index into the gateway's routes.
    var route: Int?
    var trace = TraceContext.none
    /// Nil unless it is refused. `isRefused` is read first, because reading this property costs as much as copying
    /// it.
    var refusal: Refusal? {
        get { isRefused ? refusedBy : nil }
        set {
            isRefused = newValue != nil
            refusedBy = newValue
        }
    }
    private(set) var isRefused = false
    private var refusedBy: Refusal?
    /// The token of a wait for the registry or for the verification.
    var waiting: UInt64?
    var isRequestComplete = false
    var device: DeviceSnapshot?
    /// The device that vouches for a self-signed certificate.
    var introduced: DeviceSnapshot?
    /// The index of the device's app in the configuration.
    var app = 0
    var proof: VerifiedProof?
    /// The time at which the proof, or the certificate, expires.
    var proofEnd = Instant(nanoseconds: .max)
    /// The content of a request with a verified proof: nil without `proof`. `proof` is read first for all requests,
    /// because reading this property needs an exclusivity check.
    var content: ProvenContent?
    /// The decision; nil while it is open, or if the client left before.
    var decision: Decision?
    var timings = RequestTimings()
    /// The start of the present phase: the commit, or the upstream's.
    var phaseBegan = Instant(nanoseconds: 0)
    var phases = PhaseStarts()
    /// Whether the registry has found the device for this request.
    var isDeviceKnown = false
    /// What the log needs of a head that was released.
    var disclosed: Disclosure?
    /// The state of a request that asks for a WebSocket.
    var tunnelling = Tunnelling()
    var isAborted = false
    /// Whether it was to be forwarded, with any outcome.
    var isUpstreamAsked = false
    /// Whether the request was sent again, after a connection ended before the first byte of a response.
    var isRetried = false
    /// Whether the end of the request or of the response waits for room.
    private var isRequestEndDue = false
    private var isResponseEndDue = false
    let client: ClientMemory
    /// Its share of what the client may use of the upstream.
    var share: ClientShares.Share?

    init(connection: ServerConnection, gateway: GatewayApplication) {
        self.gateway = gateway
        client = ClientMemory.of(connection, gateway)
        super.init(connection: connection)
    }

    // MARK: - Input from the client

    override func headReceived() {
        // One copy for all decisions.
        let head = head
        // Reading the bytes needs an exclusivity check.
        trace = gateway.mayContinueTrace(of: head) ? gateway.trace(of: head, headBytes.readable) : gateway.beginTrace()
        if let limiter = gateway.limiter, limiter.limitsSources,
            let excess = limiter.excess(ofSource: client.source, now: connection.loop.now)
        {
            return deny(excess)
        }
        decide(by: head)
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

    override func contentPaused() {
        guard stage == .forwarding, framing.hasContent else { return }
        call.carrier?.flush()
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
        // The log keeps the denial that the client received.
        guard !isRefused else { return }
        if stage == .tunnel { noteTunnelEnd(.denied) }
        switch debt {
        case .content: refusal = Refusal(.requestTimeout)
        case .response: refusal = Refusal(.responseNotTaken)
        }
    }

    override func outputDrained() {
        if isResponseEndDue {
            responseEnded()
        } else {
            call.carrier?.resumeResponse()
        }
    }

    override var heldBytes: Int {
        let held = call.footprint
        guard proof != nil else { return held }
        switch content {
        case .none: return held
        case .some(let content): return held + content.footprint
        }
    }

    /// A tunnel's client is checked repeatedly, but nothing waits for that.
    override var isDecided: Bool {
        switch stage {
        case .deciding, .collecting, .committing: false
        case .queued, .forwarding, .tunnel, .answered: true
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

    // MARK: - Ending

    override func abandoned() {
        if stage == .tunnel {
            tunnelAbandoned()
        } else {
            isAborted = true
            noteBegunConnection()
            call.cancel()
        }
    }

    override func ended() {
        leaveTunnel()
        if let share { gateway.give(share) }
        share = nil
        // The upstream may still wait for the rest of a request that it has answered.
        call.cancel()
        call.exchange = nil
        stopWaiting()
        timings.total = .now - began
        if !connection.wasHandshakeReported {
            connection.wasHandshakeReported = true
            timings.handshake = connection.handshakeDuration
        }
        // The life of a tunnel is not the duration of a request.
        var counted = timings
        if stage == .tunnel { counted.total = nil }
        var denial: Denial?
        if isRefused {
            denial = refusal?.denial
            if let scope = refusal?.excess?.scope { gateway.rateExceeded(scope) }
        }
        gateway.requestEnded(route, version, decision, denial, counted)
        if let log = gateway.log { record(in: log) }
        if trace.isRecorded, let spans = gateway.spans { record(in: spans) }
        noteDecision(in: gateway.recent)
        stage = .deciding
        route = nil
        trace = .none
        if isRefused {
            refusal = nil
            disclosed = nil
        }
        if isSelfSigned { introduced = nil }
        decision = nil
        timings = RequestTimings()
        isDeviceKnown = false
        isRequestComplete = false
        device = nil
        if proof != nil { content = nil }
        proof = nil
        // For other requests it is unused.
        if tunnelling.isAsked {
            tunnelling = Tunnelling()
            disclosed = nil
        }
        isAborted = false
        isUpstreamAsked = false
        isRetried = false
        isRequestEndDue = false
        isResponseEndDue = false
    }
}

/// The request on its way to the upstream.
extension ForwardingExchange {
    func forward() {
        guard let route else { return }
        isUpstreamAsked = true
        if !isRetried { phaseBegan = .now }
        let upstream = gateway.upstreams[gateway.routes.routes[route].upstream]
        do throws(UpstreamFailure) {
            let carrier =
                try isRetried ? upstream.startAgain(call) : upstream.start(call, for: balanceKey)
            call.exchange = self
            guard let carrier else { return stage = .queued }
            send(on: carrier)
            if isRetried { resumeContent() }
        } catch {
            deny(refusal(for: error))
        }
    }

    /// The key for balancing by device: the device, or without one its certificate.
    private var balanceKey: UInt64 { device?.hardwareKey.prefix ?? client.keyID?.prefix ?? 0 }

    /// Returns whether the request may be sent again. A proof is valid for one sending, whatever the method, unless
    /// the server certainly did not process it.
    private func isRepeatable(_ again: Repetition) -> Bool {
        switch again {
        case .never: false
        case .ifIdempotent: proof == nil && !head.framing.hasContent && head.routedMethod?.isIdempotent == true
        case .always: call.isContentKept
        }
    }

    private func send(on carrier: UpstreamCarrier) {
        guard let method = routedMethod, let route else { return }
        let head = head
        let upstream = gateway.routes.routes[route].upstream
        noteForwarding()
        stage = .forwarding
        let framing = proof == nil ? head.framing : content?.framing(replacing: head.framing) ?? head.framing
        let hasOnlyProof = proof.map { !$0.hasCompany } ?? false
        let fields: DeviceFields?
        do throws(CryptographyError) { fields = try deviceFields(for: upstream) } catch {
            return deny(.internalError, error.description)
        }
        let isWritten = gateway.upstreamRequest.write(
            OutgoingRequest(method, framing: framing, isUpgrade: tunnelling.key != nil), head, headBytes.readable,
            forwarded: client.forwarded, trace: trace, device: fields, hasOnlyProof: hasOnlyProof, key: tunnelling.key,
            to: carrier)
        guard isWritten else { return deny(Refusal(.headTooLarge)) }
        if isContentVerified {
            release(to: carrier)
        } else if !head.framing.hasContent {
            carrier.send(isComplete: true)
        } else if head.expectsContinue, !isRetried {
            sendContinue()
        }
    }

    private func noteForwarding() { decision = proof != nil && content?.isVerified == false ? .partial : .forwarded }

    /// Records a request that ends while it waits for a connection that was begun for it. With HTTP/1.1 the request
    /// is written meanwhile, with HTTP/2 it waits for the server's SETTINGS; the log makes no difference.
    func noteBegunConnection() {
        if stage == .queued, decision == nil, call.isPlaced { noteForwarding() }
    }

    /// Called when the wait for a connection is over.
    func began(on carrier: UpstreamCarrier) {
        phaseBegan = .now
        send(on: carrier)
        resumeContent()
    }

    /// Continues with the rest of the request, which waited for a carrier.
    private func resumeContent() {
        if isRequestComplete { contentComplete() } else { contentWanted() }
    }

    /// Whether all content has arrived and its digest matches. Never without a proof.
    private var isContentVerified: Bool { proof != nil && content?.isVerified == true }

    /// Returns the fields about the device, where the route requires one.
    private func deviceFields(for upstream: Int) throws(CryptographyError) -> DeviceFields? {
        guard let device, let enforcement = gateway.enforcement else { return nil }
        let known: Digest256
        if let pseudonym = client.pseudonym, pseudonym.device == device.id, pseudonym.upstream == upstream {
            known = pseudonym.digest
        } else {
            known = try enforcement.pseudonym(of: device, for: upstream)
            client.pseudonym = (device.id, upstream, known)
        }
        return DeviceFields(
            pseudonym: known, app: enforcement.apps[app].id, platform: device.platform, counter: proof?.counter)
    }

    /// Sends what was held back until it was verified, as far as there is room.
    private func release(to carrier: UpstreamCarrier) {
        let isComplete = content?.release(into: carrier) == true
        carrier.send(isComplete: isComplete)
    }

    /// Forwards content as it arrives.
    ///
    /// - Returns: How many bytes were taken.
    func pass(_ content: Span<UInt8>) -> Int {
        guard let carrier = call.carrier else { return content.count }
        guard isWithinLimit(content.count) else {
            deny(Refusal(.contentTooLarge))
            return content.count
        }
        let taken: Int
        do throws(CryptographyError) {
            taken = try self.content?.pass(content, into: carrier) ?? carrier.write(prefixOf: content)
        } catch {
            deny(.internalError, error.description)
            return content.count
        }
        // What fits is sent in one write, so that many small chunks do not cost one each.
        if taken < content.count { carrier.send(isComplete: false) }
        return taken
    }

    /// Ends the request after all content was forwarded, except what was held back.
    func finishRequest() {
        // An upstream that has answered already gets no more; its request stays incomplete.
        guard !isContentVerified, framing.hasContent, let carrier = call.carrier else { return }
        guard proof == nil else {
            guard isContentProven() else { return }
            decision = .forwarded
            return release(to: carrier)
        }
        isRequestEndDue = !carrier.writeEnd()
        carrier.send(isComplete: !isRequestEndDue)
    }

    func requestSpaceAvailable() {
        if isContentVerified, let carrier = call.carrier {
            release(to: carrier)
        } else if isRequestEndDue {
            finishRequest()
        } else {
            contentWanted()
        }
    }
}

/// The response on its way back, or the failure of the upstream.
extension ForwardingExchange {
    func answer(_ response: ResponseHead, _ bytes: Span<UInt8>) {
        guard !isAnswered else { return }
        timings.upstream = connection.loop.now - phaseBegan
        phases.upstream = phaseBegan
        gateway.upstreamAnswered(route)
        // A service that did not switch protocols has answered a request; what the client has sent after it is not
        // another request.
        let isSent = sendHead(
            response.status, content: response.framing, statedLength: statedLength(response),
            isLast: isUpgradeAsked
        ) { output in
            appendFields(of: response, bytes, to: &output)
        }
        if !isSent { deny(Refusal(.upstreamUnavailable, "the response head is too large")) }
    }

    /// Appends the fields of a response that are forwarded, and a new challenge if one is due.
    func appendFields(of response: ResponseHead, _ bytes: Span<UInt8>, to output: inout ByteBuffer) {
        for index in response.fields.indices {
            let field = response.fields[index]
            guard goesOn(field), !response.connection.drops(field, of: bytes) else { continue }
            output.appendField(field, of: bytes)
        }
        appendDueChallenge(to: &output)
    }

    /// Returns whether a field of a response is forwarded, in its head or in its trailers.
    private func goesOn(_ field: HeaderField) -> Bool {
        // Only the gateway sends Accept-Signature and Attest-Denial.
        !field.name.isHopByHop && field.name != .contentLength && field.name != .acceptSignature
            && field.name != .attestDenial
            // It belongs to the key that the gateway made.
            && (field.name != .secWebSocketAccept || version != .http2)
    }

    /// Forwards trailers if the client can receive them.
    func passBack(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {
        guard takesTrailers else { return }
        let isTaken = sendTrailers { output in
            for index in trailers.fields.indices {
                let field = trailers.fields[index]
                if goesOn(field) { output.appendField(field, of: bytes) }
            }
        }
        guard !isTaken else { return }
        refusal = Refusal(.upstreamUnavailable, "the response's trailers are too large")
        call.cancel()
        abort()
    }

    /// Appends a new challenge before the client's one expires.
    func appendDueChallenge(to output: inout ByteBuffer) {
        guard let proof, proof.isChallengeAging else { return }
        gateway.enforcement?.appendAcceptSignature(to: &output, for: head, route: route)
    }

    /// Returns the Content-Length of a response without content: with HEAD and 304 (RFC 9110 section 8.6).
    private func statedLength(_ response: ResponseHead) -> UInt64? {
        response.framing == .none && (method == .head || response.status == 304) ? response.statedLength : nil
    }

    func responseEnded() {
        isResponseEndDue = !sendEnd()
    }

    func upstreamFailed(_ failure: UpstreamFailure, again: Repetition) {
        guard stage != .tunnel else {
            noteTunnelEnd(.serviceLost)
            return abort()
        }
        guard !isAnswered else {
            // Cut off, so that the client cannot take a part of the response for all of it.
            refusal = refusal(for: failure)
            return abort()
        }
        if !isRetried, isRepeatable(again) {
            isRetried = true
            gateway.upstreamRetried(route)
            return forward()
        }
        if stage == .forwarding {
            timings.upstream = connection.loop.now - phaseBegan
            phases.upstream = phaseBegan
        }
        deny(refusal(for: failure))
    }

    func refusal(for failure: UpstreamFailure) -> Refusal {
        gateway.upstreamFailed(route, failure)
        return Refusal(Denial(failure), failure.text)
    }
}

/// The upstream's side of an exchange.
///
/// It refers to its exchange only while a request is in flight: an upstream may still be handling an event of a call
/// whose client has gone.
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
