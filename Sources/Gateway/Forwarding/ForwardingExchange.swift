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

/// A request on its way through the gateway, and its response on the way back: runs the steps of `RequestDecision`,
/// waits between them, and forwards.
///
/// Denials are in `RequestAdmission`, tunnels in `RequestTunnel`, log and traces in `RequestRecords`.
final class ForwardingExchange: Exchange {
    /// The stage of the request.
    enum Stage {
        /// Its device is looked up and its proof verified. Content waits at the client.
        ///
        /// - waiting: The token of a wait for the registry or for its turn.
        case deciding(waiting: UInt64?)
        /// Its proof is verified; content that is not streamed is collected and hashed.
        case collecting
        /// Its counter is being made durable.
        case committing(waiting: UInt64)
        /// It waits for a connection to the upstream. Content waits at the client.
        case queued
        /// It is sent to the upstream, as it arrives or as it was collected.
        ///
        /// - isEndDue: Whether the end of the request waits for room.
        case forwarding(isEndDue: Bool)
        /// The service has switched protocols: raw bytes in both directions.
        ///
        /// - waiting: The token of a look-up of its device.
        case tunnel(waiting: UInt64?)
        /// The gateway has answered it. Further content is discarded.
        case answered
    }

    /// The state of one request. It is replaced at the end of the request.
    struct RequestState: ~Copyable {
        var stage = Stage.deciding(waiting: nil)
        var decision = RequestDecision()
        var trace = TraceContext.none
        /// Nil unless it is refused.
        var refusal: Refusal?
        /// Whether the client has sent all of it.
        var isComplete = false
        /// Whether the end of the response waits for room.
        var isResponseEndDue = false
        /// The outcome; nil while it is open, or if the client left before.
        var outcome: Decision?
        var timings = RequestTimings()
        /// The start of the present phase: the commit, or the upstream's.
        var phaseBegan = Instant(nanoseconds: 0)
        var phases = PhaseStarts()
        /// Whether the registry has found the device for this request.
        var isDeviceKnown = false
        /// The client on a route that requires client attestations.
        var attested: AttestedClient?
        /// The device token, once it is verified.
        var deviceToken: DeviceTokens.Verified?
        /// The question to the decision point, until it has answered.
        var inquiry: Inquiry?
        /// What the log needs of a head that was released.
        var disclosed: Disclosure?
        /// Its place among the limited number of tunnels.
        var tunnelPlace: TunnelPlace?
        var tunnelEnd: TunnelEnd?
        /// Its share of what the client may use of the upstream.
        var share: ClientShares.Share?
        var isAborted = false
        /// Whether it was to be forwarded, with any outcome.
        var isUpstreamAsked = false
        /// Whether it was sent again, after a connection ended before the first byte of a response.
        var isRetried = false

        var isTunnel: Bool { if case .tunnel = stage { true } else { false } }
        var isRefused: Bool { refusal != nil }
    }

    let gateway: GatewayApplication
    let own: ConnectionClient
    /// The clients that the connection's peer states; nil if the peer is the client.
    let clients: ForwardedClients?
    /// The client of the request, and where it comes from.
    private(set) var client: ClientMemory
    private(set) var origin: ClientOrigin
    let call = ForwardingCall()
    var request = RequestState()
    /// The content of a request with a verified proof.
    var provenContent: ProvenContent?

    init(connection: ServerConnection, gateway: GatewayApplication) {
        self.gateway = gateway
        own = ConnectionClient.of(connection, gateway)
        clients = gateway.clients(at: connection.listener)
        client = own.client
        origin = own.origin
        super.init(connection: connection)
    }

    // MARK: - Input from the client

    override func headReceived() {
        // One copy for all decisions.
        let head = head
        request.trace =
            gateway.mayContinueTrace(of: head) ? gateway.trace(of: head, headBytes.readable) : gateway.beginTrace()
        if let clients {
            origin = clients.origin(of: head, headBytes.readable, at: own.origin, gateway)
        }
        if let refusal = RequestDecision.source(origin.source, gateway, now: connection.loop.now) {
            return deny(refusal)
        }
        if let clients {
            do throws(Refusal) { client = try clients.client(of: head, headBytes.readable, at: origin) } catch {
                return deny(error)
            }
        }
        begin(head)
    }

    override func receive(content: Span<UInt8>) -> Int {
        switch request.stage {
        case .deciding, .committing, .queued: 0
        case .collecting: collect(content)
        case .forwarding: pass(content)
        case .tunnel: passOn(content)
        case .answered: content.count
        }
    }

    override func contentPaused() {
        guard case .forwarding = request.stage, framing.hasContent else { return }
        call.carrier?.flush()
    }

    override func contentEnded() {
        request.isComplete = true
        contentComplete()
    }

    override func requestFaulted(_ fault: MessageFault) {
        if request.trace == .none { request.trace = gateway.beginTrace() }
        deny(Refusal(fault, head.targetFault))
    }

    override func requestTimedOut() {
        if request.trace == .none { request.trace = gateway.beginTrace() }
        deny(.requestTimeout)
    }

    override func cutOff(_ debt: ClientDebt) {
        // The log keeps the denial that the client received.
        guard !request.isRefused else { return }
        if request.isTunnel { noteTunnelEnd(.denied) }
        switch debt {
        case .content: request.refusal = Refusal(.requestTimeout)
        case .response: request.refusal = Refusal(.responseNotTaken)
        }
    }

    override func outputDrained() {
        if request.isResponseEndDue {
            responseEnded()
        } else {
            call.carrier?.resumeResponse()
        }
    }

    override var heldBytes: Int {
        call.footprint + (provenContent?.footprint ?? 0)
    }

    /// A tunnel's client is checked repeatedly, but nothing waits for that.
    override var isDecided: Bool {
        switch request.stage {
        case .deciding, .collecting, .committing: false
        case .queued, .forwarding, .tunnel, .answered: true
        }
    }

    override func tunnelExpired(_ limit: TunnelLimit) {
        switch limit {
        case .idle: noteTunnelEnd(.idle)
        case .life: noteTunnelEnd(.life)
        case .certificate:
            request.refusal = Refusal(.certificateExpired)
            noteTunnelEnd(.denied)
        }
    }

    // MARK: - Ending

    override func abandoned() {
        if request.isTunnel {
            tunnelAbandoned()
        } else {
            request.isAborted = true
            noteBegunConnection()
            call.cancel()
        }
    }

    override func ended() {
        leaveTunnel()
        if let share = request.share { gateway.give(share) }
        // The upstream may still wait for the rest of a request that it has answered.
        call.cancel()
        call.exchange = nil
        stopWaiting()
        request.timings.total = .now - began
        request.timings.handshake = connection.takeHandshakeDuration()
        // The life of a tunnel is not the duration of a request.
        var counted = request.timings
        if request.isTunnel { counted.total = nil }
        if request.isRefused, let scope = request.refusal?.excess?.scope { gateway.rateExceeded(scope) }
        gateway.requestEnded(request.decision.route, version, request.outcome, status, counted)
        if request.isRefused, let denial = request.refusal?.denial {
            gateway.requestDenied(denial, request.decision.route, request.decision.deviceOfCertificate)
        }
        if let route = request.decision.route, gateway.routes.routes[route].isObserved {
            gateway.observedRequestEnded(
                route, request.decision.deviceOfCertificate, client.version ?? "",
                observed: request.decision.observed?.denial, request.refusal?.denial)
        }
        if let log = gateway.log { record(in: log) }
        if request.trace.isRecorded, let spans = gateway.spans { record(in: spans) }
        noteDecision(in: gateway.recent)
        request = RequestState()
        provenContent = nil
        // The next request may have another client.
        if clients != nil { (client, origin) = (own.client, own.origin) }
    }
}

/// The request on its way to the upstream.
extension ForwardingExchange {
    func forward() {
        guard let route = request.decision.route else { return }
        request.isUpstreamAsked = true
        if !request.isRetried { request.phaseBegan = .now }
        let upstream = gateway.upstreams[gateway.routes.routes[route].upstream]
        do throws(UpstreamFailure) {
            let carrier =
                try request.isRetried ? upstream.startAgain(call) : upstream.start(call, for: balanceKey)
            call.exchange = self
            guard let carrier else { return request.stage = .queued }
            send(on: carrier)
            if request.isRetried { resumeContent() }
        } catch {
            deny(refusal(for: error))
        }
    }

    /// The key for balancing by device: the device, or without one the client.
    private var balanceKey: UInt64 {
        let device = request.decision.requiresDevice ? request.decision.device : nil
        return device?.hardwareKey.prefix ?? client.balanceKey
    }

    /// Returns whether the request may be sent again. A proof is valid for one sending, whatever the method, unless
    /// the server certainly did not process it.
    private func isRepeatable(_ again: Repetition) -> Bool {
        switch again {
        case .never: false
        case .ifIdempotent:
            !request.decision.isProven && !head.framing.hasContent && head.routedMethod?.isIdempotent == true
        case .always: call.isContentKept
        }
    }

    private func send(on carrier: UpstreamCarrier) {
        guard let method = routedMethod, let route = request.decision.route else { return }
        let head = head
        let upstream = gateway.routes.routes[route].upstream
        noteForwarding()
        request.stage = .forwarding(isEndDue: false)
        let framing = provenContent?.framing(replacing: head.framing) ?? head.framing
        let hasOnlyProof = request.decision.requiresProof && request.decision.proof?.hasCompany == false
        let key = request.decision.webSocketKey
        let fields: DeviceFields?
        do throws(Refusal) { fields = try deviceFields(of: route, for: upstream) } catch { return deny(error) }
        let isWritten = gateway.upstreamRequest.write(
            OutgoingRequest(method, framing: framing, isUpgrade: key != nil), head, headBytes.readable,
            client: clientFields(for: upstream), trace: request.trace, device: fields, verdict: verdict(route),
            hasOnlyProof: hasOnlyProof,
            forwardsDeviceToken: request.deviceToken != nil && request.decision.observed == nil
                && gateway.forwardsDeviceTokens, attested: request.attested, key: key, to: carrier)
        guard isWritten else { return deny(Refusal(.headTooLarge)) }
        if isContentReleased {
            release(to: carrier)
        } else if !head.framing.hasContent {
            carrier.send(isComplete: true)
        } else if head.expectsContinue, !request.isRetried {
            sendContinue()
        }
    }

    /// What the service learns of the decision, on a route that observes some devices.
    private func verdict(_ route: Int) -> RouteVerdict? {
        guard gateway.routes.routes[route].isObserved else { return nil }
        return request.decision.observed.map { .wouldDeny($0.denial) } ?? .pass
    }

    private func noteForwarding() { request.outcome = provenContent?.isReleased == false ? .partial : .forwarded }

    /// Records a request that ends while it waits for a connection that was begun for it. With HTTP/1.1 the request
    /// is written meanwhile, with HTTP/2 it waits for the server's SETTINGS; the log makes no difference.
    func noteBegunConnection() {
        if case .queued = request.stage, request.outcome == nil, call.isPlaced { noteForwarding() }
    }

    /// Called when the wait for a connection is over.
    func began(on carrier: UpstreamCarrier) {
        request.phaseBegan = .now
        send(on: carrier)
        resumeContent()
    }

    /// Continues with the rest of the request, which waited for a carrier.
    private func resumeContent() {
        if request.isComplete { contentComplete() } else { contentWanted() }
    }

    /// Whether content that was held back may be forwarded to its end. Never without a proof.
    private var isContentReleased: Bool { provenContent?.isReleased == true }

    /// Returns the fields about the client that the upstream receives.
    private func clientFields(for upstream: Int) -> ClientFields {
        let settings = gateway.upstreams[upstream].settings.clientFields
        var fields = ClientFields(forwarded: settings.names.contains(.forwarded) ? origin.forwarded : nil)
        guard !settings.isForwardedAlone else { return fields }
        var others = ClientFields.Others(settings.names, address: origin.address)
        // A client without a certificate has no such field. One whose certificate does not fit was refused. A copied
        // key must not pass for its phone, so a request with a denial against it has none.
        if settings.certificate != .off, request.decision.observed == nil, let certificate = client.identity?.fields {
            others.certificate = certificate.leaf
            if settings.certificate == .leafAndChain { others.chain = certificate.chain }
        }
        fields.others = others
        return fields
    }

    /// Returns the fields about the device, where the route requires one.
    private func deviceFields(of route: Int, for upstream: Int) throws(Refusal) -> DeviceFields? {
        guard request.decision.requiresDevice, let device = request.decision.device,
            let enforcement = gateway.enforcement
        else { return nil }
        let known: Digest256
        if let pseudonym = client.pseudonym, pseudonym.device == device.id, pseudonym.upstream == upstream {
            known = pseudonym.digest
        } else {
            do throws(CryptographyError) { known = try enforcement.pseudonym(of: device, for: upstream) } catch {
                throw Refusal(.internalError, error.description)
            }
            client.pseudonym = (device.id, upstream, known)
        }
        let identity = gateway.routes.routes[route].identity
        let lines = identity.isEmpty ? [] : try statement(identity, route, for: upstream, device, enforcement)
        return DeviceFields(
            pseudonym: known, app: enforcement.apps[request.decision.app].id, platform: device.platform,
            counter: request.decision.proof?.counter, statement: lines)
    }

    /// Returns what the route states of the device, by its present posture.
    private func statement(
        _ fields: IdentityFields, _ route: Int, for upstream: Int, _ device: DeviceSnapshot, _ enforcement: Enforcement
    ) throws(Refusal) -> [UInt8] {
        guard let (posture, generation) = enforcement.posture(of: device) else {
            throw Refusal(.storeUnavailable, "the device's record has left the memory")
        }
        let key = DeviceStatement.Key(device: device.id, generation: generation, route: route)
        if let kept = client.statement, kept.key == key { return kept.lines }
        var person: String?
        if fields.contains(.subject), let subject = posture.subject {
            person = enforcement.pseudonym(ofPerson: subject, for: upstream)
            guard person != nil else { throw Refusal(.internalError, "the person's pseudonym cannot be computed") }
        }
        let statement = DeviceStatement(key, fields, person: person, posture)
        client.statement = statement
        return statement.lines
    }

    /// Sends what was held back until it was verified, as far as there is room.
    private func release(to carrier: UpstreamCarrier) {
        let isComplete = provenContent?.release(into: carrier) == true
        carrier.send(isComplete: isComplete)
    }

    /// Forwards content as it arrives.
    ///
    /// - Returns: How many bytes were taken.
    func pass(_ content: Span<UInt8>) -> Int {
        guard let carrier = call.carrier else { return content.count }
        guard !request.decision.isTooMuch(requestBytes + UInt64(content.count), gateway) else {
            deny(Refusal(.contentTooLarge))
            return content.count
        }
        let taken: Int
        do throws(CryptographyError) {
            taken = try provenContent?.pass(content, into: carrier) ?? carrier.write(prefixOf: content)
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
        guard !isContentReleased, framing.hasContent, let carrier = call.carrier else { return }
        if let provenContent {
            guard let isMatch = matchContent() else { return }
            if !isMatch {
                // If the service has an identity, only content that the device has proven may follow.
                guard request.decision.observed != nil else { return deny(.bodyDigestMismatch) }
                provenContent.pass()
            }
            request.outcome = .forwarded
            return release(to: carrier)
        }
        let isWritten = carrier.writeEnd()
        request.stage = .forwarding(isEndDue: !isWritten)
        carrier.send(isComplete: isWritten)
    }

    func requestSpaceAvailable() {
        if isContentReleased, let carrier = call.carrier {
            release(to: carrier)
        } else if case .forwarding(isEndDue: true) = request.stage {
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
        noteUpstream()
        gateway.upstreamAnswered(request.decision.route)
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

    func noteUpstream() {
        request.timings.upstream = connection.loop.now - request.phaseBegan
        request.phases.upstream = request.phaseBegan
    }

    /// Appends the fields of a response that are forwarded, and a new challenge if one is due.
    func appendFields(of response: ResponseHead, _ bytes: Span<UInt8>, to output: inout ByteBuffer) {
        for index in response.fields.indices {
            let field = response.fields[index]
            guard goesOn(field), !response.connection.drops(field, of: bytes) else { continue }
            // Only the gateway's challenges serve here.
            if request.attested != nil, ClientAttestations.isChallenge(field, bytes) { continue }
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
        request.refusal = Refusal(.upstreamUnavailable, "the response's trailers are too large")
        call.cancel()
        abort()
    }

    /// Appends a new challenge before the client's one expires.
    func appendDueChallenge(to output: inout ByteBuffer) {
        if request.attested?.isChallengeAging == true {
            gateway.clientAttestations?.appendChallenge(now: WallClock.seconds, to: &output)
        }
        // A request that passes without a proof gets what its denial would have had.
        guard
            request.decision.requiresProof
                ? request.decision.proof?.isChallengeAging == true
                : request.decision.observed?.denial.asksForProof == true
        else { return }
        gateway.enforcement?.appendAcceptSignature(
            to: &output, for: head, route: request.decision.route, device: request.decision.deviceOfCertificate)
    }

    /// Returns the Content-Length of a response without content: with HEAD and 304 (RFC 9110 section 8.6).
    private func statedLength(_ response: ResponseHead) -> UInt64? {
        response.framing == .none && (method == .head || response.status == 304) ? response.statedLength : nil
    }

    func responseEnded() {
        request.timings.upstreamEnd = connection.loop.now - request.phases.upstream
        request.isResponseEndDue = !sendEnd()
    }

    func upstreamFailed(_ failure: UpstreamFailure, again: Repetition) {
        guard !request.isTunnel else {
            noteTunnelEnd(.serviceLost)
            return abort()
        }
        guard !isAnswered else {
            // Cut off, so that the client cannot take a part of the response for all of it.
            request.refusal = refusal(for: failure)
            return abort()
        }
        if !request.isRetried, isRepeatable(again) {
            request.isRetried = true
            gateway.upstreamRetried(request.decision.route)
            return forward()
        }
        if case .forwarding = request.stage { noteUpstream() }
        deny(refusal(for: failure))
    }

    func refusal(for failure: UpstreamFailure) -> Refusal {
        gateway.upstreamFailed(request.decision.route, failure)
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
