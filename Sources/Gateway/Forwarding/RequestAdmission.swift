internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Registry
internal import Server
internal import Vocabulary

/// Runs the steps of a request's decision, and waits between them.
extension ForwardingExchange {
    private typealias Step = RequestDecision.Step

    /// Whether only the registry can vouch for the client's certificate.
    var isSelfSigned: Bool { client.certificate == .selfSigned }

    func begin(_ head: RequestHead) {
        // A proxy names itself in the handshake.
        let isServed = clients != nil || connection.serves(host: head.host.of(headBytes.readable))
        let introduced = isSelfSigned ? request.decision.introduced : nil
        let step = request.decision.begin(
            head, headBytes.readable, isServed: isServed, listener: connection.listener,
            certificate: client.certificate, gateway)
        if let introduced, request.decision.isJudged { noteDevice(introduced) }
        if let route = request.decision.route, let idle = gateway.routes.routes[route].contentIdle, framing.hasContent {
            allowContentPauses(of: .milliseconds(idle))
        }
        noteVersion(head)
        perform(step)
    }

    /// Notes what the client calls itself, if the route observes some devices.
    private func noteVersion(_ head: RequestHead) {
        guard let route = request.decision.route, gateway.routes.routes[route].isObserved,
            client.version == nil || clients != nil
        else { return }
        let field = head.fields.first { $0.name == .userAgent }
        client.version = field.map { ClientVersion.text(of: $0.valueRange.of(headBytes.readable)) } ?? ""
    }

    private func perform(_ step: Step) {
        switch step {
        case .refuse(let refusal): if let step = observe(refusal) { perform(step) } else { deny(refusal) }
        case .answer: answerEndpoint()
        case .lookUp:
            guard let enforcement = gateway.enforcement else { return deny(.internalError) }
            let lookup = lookUp(in: enforcement)
            if case .pending = lookup { return }
            found(lookup)
        case .checkToken: perform(request.decision.checked(checkToken()))
        case .awaitTurn:
            request.stage = .deciding(waiting: gateway.enforcement?.awaitVerification(of: self))
        case .takePlace:
            let shortage = takePlace()
            perform(
                request.decision.admit(
                    shortage, hasContent: framing.hasContent, certificateEnd: client.identity?.notAfter ?? 0,
                    gateway, now: connection.loop.now))
        case .ask: ask()
        case .collect:
            holdContent(isStreamed: false)
            if request.decision.policies.isAnswerDue, case .collecting = request.stage { ask() }
        case .awaitAnswer: request.stage = .deciding(waiting: nil)
        case .stream:
            askSimulated()
            holdContent(isStreamed: true)
        case .spend:
            askSimulated()
            spend()
        case .forward:
            askSimulated()
            if request.decision.observed != nil { provenContent?.passCollected() }
            forward()
        }
    }

    /// Checks the client attestation, or the device token.
    ///
    /// - Returns: The refusal if it is not valid.
    private func checkToken() -> Refusal? {
        guard request.decision.requirement == .clientAttestation else {
            switch gateway.deviceToken(of: head, headBytes.readable, client) {
            case .verified(let token):
                request.deviceToken = token
                return nil
            case .refused(let refusal): return refusal
            case .absent:
                let demand = request.decision.route.map { gateway.routes.routes[$0].deviceToken }
                return demand == .optional ? nil : Refusal(.deviceTokenRequired)
            }
        }
        do throws(Refusal) {
            guard let attestations = gateway.clientAttestations else {
                throw Refusal(.internalError, "a client attestation without its attester")
            }
            request.attested = try attestations.admit(head, headBytes.readable, client, now: WallClock.seconds)
            return nil
        } catch {
            return error
        }
    }

    /// Lets a request pass that is about to be refused, if its route only observes it.
    ///
    /// - Returns: What to do next. Nil if it is refused.
    func observe(_ refusal: Refusal) -> RequestDecision.Step? {
        let step = request.decision.observe(
            refusal, client.shareKey, isSelfSigned: isSelfSigned, gateway, now: connection.loop.now)
        // It passes whatever the decision point answers: an answer must not forward it again.
        if step != nil { endInquiry() }
        return step
    }

    private func endInquiry() {
        request.inquiry?.stop()
        request.inquiry = nil
    }

    // MARK: - The registry

    /// Returns the device to which the client's certificate is bound. If the answer is `pending`, the exchange waits
    /// for the registry.
    func lookUp(in enforcement: Enforcement) -> DeviceLookup {
        var token: UInt64?
        let lookup = enforcement.lookUp(client.keyID, for: self, waiting: &token)
        guard let token else { return lookup }
        switch request.stage {
        case .tunnel: request.stage = .tunnel(waiting: token)
        default: request.stage = .deciding(waiting: token)
        }
        return lookup
    }

    /// Called with the answer of a pending lookup.
    func registryAnswered(_ lookup: DeviceLookup) {
        if case .tunnel = request.stage {
            request.stage = .tunnel(waiting: nil)
            return judgeTunnel(by: lookup)
        }
        request.stage = .deciding(waiting: nil)
        found(lookup)
        resumeRequest()
        advance()
    }

    private func found(_ lookup: DeviceLookup) {
        let step = request.decision.found(
            lookup, isSelfSigned: isSelfSigned, gateway, now: connection.loop.now)
        guard let step else {
            connection.recognize()
            return begin(head)
        }
        if case .found(let device) = lookup { noteDevice(device) }
        perform(step)
    }

    /// Continues with the rest of the request, which waited for the registry or its turn.
    private func resumeRequest() {
        if request.isComplete {
            contentComplete()
        } else {
            contentWanted()
            // If none has arrived yet, the head need not wait for it.
            contentPaused()
        }
    }

    // MARK: - The proof

    /// Called when it is the request's turn to be verified.
    func verificationDue() {
        request.stage = .deciding(waiting: nil)
        // The loop's clock does not advance within an event, and verification takes most of this one.
        let began = Instant.now
        request.phases.verification = began
        let step = request.decision.prove(head, headBytes.readable, gateway)
        request.timings.verification = .now - began
        perform(step)
        resumeRequest()
        advance()
    }

    /// Takes a place at the upstream, or for a tunnel.
    ///
    /// - Returns: The refusal if there is none.
    private func takePlace() -> Refusal? {
        guard let route = request.decision.route else { return nil }
        let upstream = gateway.routes.routes[route].upstream
        if gateway.upstreams[upstream].settings.clientFields.certificate != .off, let identity = client.identity,
            identity.fields == nil
        {
            return Refusal(.headTooLarge, "the client's certificate does not fit into Client-Cert")
        }
        if request.decision.requiresProof, let shortage = gateway.upstreams[upstream].shortage {
            request.isUpstreamAsked = true
            return refusal(for: shortage)
        }
        guard request.decision.webSocketKey == nil else { return takeTunnelPlace(upstream) }
        request.share = gateway.takeShare(of: upstream, for: client)
        return request.share == nil ? Refusal(.deviceRequestLimit) : nil
    }

    // MARK: - The decision point

    /// Asks the decision point of the route's policy. Content is collected meanwhile.
    private func ask() {
        guard let track = request.decision.policies.own, let points = gateway.decisionPoints else {
            return deny(.internalError, "a policy without its decision point")
        }
        switch points.ask(for: self, by: track) {
        case .known(let refusal): answered(refusal)
        case .asked(let inquiry):
            request.inquiry = inquiry
            if case .collecting = request.stage { return }
            request.stage = .deciding(waiting: nil)
        }
    }

    /// Asks the decision points of simulated policies. Nothing waits for them.
    private func askSimulated() {
        guard request.decision.policies.mayHaveSimulated, request.decision.observed == nil else { return }
        for track in request.decision.takeSimulated() { gateway.decisionPoints?.simulate(self, by: track) }
    }

    /// Called with the decision point's answer. Nil if it allows the request.
    func inquiryEnded(_ refusal: Refusal?) {
        request.inquiry = nil
        answered(refusal)
        resumeRequest()
        advance()
    }

    private func answered(_ refusal: Refusal?) {
        let isCollecting = if case .collecting = request.stage { true } else { false }
        let step = request.decision.answered(refusal, hasContent: framing.hasContent, gateway)
        switch step {
        case .refuse(let refusal):
            guard let step = observe(refusal) else { return deny(refusal) }
            // What is still being collected follows without a proof.
            if !isCollecting { perform(step) }
        case .some(let step): perform(step)
        case nil: break
        }
    }

    // MARK: - Content

    /// Prepares for the content of a request whose proof is verified.
    private func holdContent(isStreamed: Bool) {
        guard let enforcement = gateway.enforcement, let proof = request.decision.proof,
            let device = request.decision.device
        else { return }
        do throws(CryptographyError) {
            provenContent = try enforcement.content(
                of: proof, from: device, streaming: isStreamed ? framing : nil)
        } catch {
            return deny(.internalError, error.description)
        }
        guard !isStreamed else { return spend() }
        request.stage = .collecting
        // Only now is the sender known.
        if head.expectsContinue, framing.hasContent { sendContinue() }
    }

    func collect(_ bytes: Span<UInt8>) -> Int {
        if let refusal = request.decision.staleness(connection.loop.now), observe(refusal) == nil {
            deny(refusal)
        } else if request.decision.isTooMuch(requestBytes + UInt64(bytes.count), gateway) {
            deny(.contentTooLarge)
        } else {
            do throws(CryptographyError) {
                if try provenContent?.collect(bytes) != true { deny(.overloaded) }
            } catch {
                deny(.internalError, error.description)
            }
        }
        return bytes.count
    }

    func contentComplete() {
        switch request.stage {
        case .collecting:
            guard let isMatch = matchContent() else { return }
            perform(request.decision.content(isMatch: isMatch, now: connection.loop.now))
        case .forwarding: finishRequest()
        case .tunnel: clientEndedTunnel()
        case .deciding, .committing, .queued, .answered: break
        }
    }

    /// Compares the digest when all content has arrived.
    ///
    /// - Returns: Nil if that failed, and the request is denied.
    func matchContent() -> Bool? {
        do throws(CryptographyError) { return try provenContent?.verify() == true } catch {
            deny(.internalError, error.description)
            return nil
        }
    }

    // MARK: - The counter

    private func spend() {
        if let refusal = request.decision.staleness(connection.loop.now) { return perform(.refuse(refusal)) }
        guard let enforcement = gateway.enforcement, let proof = request.decision.proof,
            let device = request.decision.device
        else { return }
        switch enforcement.spend(proof, of: device, app: request.decision.app, for: self) {
        case .failure(let refusal): perform(.refuse(refusal))
        case .success(let token):
            request.stage = .committing(waiting: token)
            request.phaseBegan = .now
            request.phases.commit = request.phaseBegan
        }
    }

    /// Called with the outcome of the commit.
    func counterDecided(_ outcome: CounterOutcome) {
        request.stage = .deciding(waiting: nil)
        request.timings.commit = .now - request.phaseBegan
        perform(request.decision.counter(outcome))
        resumeRequest()
        advance()
    }

    // MARK: - Waiting

    /// Called when the registry has not answered in time, or the verification was not reached.
    func waitOverdue() {
        switch request.stage {
        case .tunnel: return denyTunnel(request.decision.overdue(isDeciding: false))
        case .committing:
            request.timings.commit = .now - request.phaseBegan
            deny(request.decision.overdue(isDeciding: false))
        case .deciding, .collecting, .queued, .forwarding, .answered:
            deny(request.decision.overdue(isDeciding: true))
        }
        contentWanted()
        advance()
    }

    func stopWaiting() {
        switch request.stage {
        case .deciding(let token?), .tunnel(let token?), .committing(let token):
            gateway.enforcement?.stopWaiting(token)
        case .deciding, .tunnel, .collecting, .queued, .forwarding, .answered: break
        }
        endInquiry()
    }

    // MARK: - Responses of the gateway itself

    private func answerEndpoint() {
        guard let endpoint = request.decision.endpoint, endpoint.admits(method) else { return deny(.methodRefused) }
        switch endpoint {
        case .challenge:
            answer(204) { output in
                output.appendField("Cache-Control", "no-store")
                gateway.appendDate(to: &output)
                gateway.enforcement?.appendAcceptSignature(
                    to: &output, for: head, route: nil, device: request.decision.deviceOfCertificate)
            }
        case .attestationChallenge:
            guard let challenge = gateway.clientAttestations?.challenge(now: WallClock.seconds) else {
                return deny(.internalError)
            }
            let content = Array(#"{"attestation_challenge":""#.utf8) + challenge + Array(#""}"#.utf8)
            answer(200, content) { output in
                output.appendField("Content-Type", "application/json")
                output.appendField("Cache-Control", "no-store")
                gateway.appendDate(to: &output)
            }
        case .resourceMetadata:
            answer(200, gateway.clientAttestations?.metadata ?? []) { output in
                output.appendField("Content-Type", "application/json")
                gateway.appendDate(to: &output)
            }
        }
    }

    /// Answers a request for an endpoint.
    ///
    /// - Parameter content: Nil for a status without content.
    private func answer(_ status: UInt16, _ content: [UInt8]? = nil, _ fields: (inout ByteBuffer) -> Void) {
        request.stage = .answered
        request.outcome = .answered
        let length = content.map { UInt64($0.count) }
        let sent = method == .head ? nil : content
        let framing: ContentFraming = sent == nil ? .none : .length(length ?? 0)
        guard sendHead(status, content: framing, statedLength: length, fields: fields) else { return abort() }
        if let sent, sendContent(sent.span) != sent.count { return abort() }
        _ = sendEnd()
    }
}

/// Denials.
extension ForwardingExchange {
    func deny(_ denial: Denial, _ detail: String? = nil) { deny(Refusal(denial, detail)) }

    func deny(_ refusal: Refusal) {
        noteBegunConnection()
        call.cancel()
        stopWaiting()
        // The log keeps the denial that the client received. The reason why an upstream's response was cut off goes
        // to the log only.
        if !isAnswered || !request.isRefused { request.refusal = refusal }
        request.stage = .answered
        if request.outcome == nil { request.outcome = .denied }
        provenContent = nil
        let denial = refusal.denial
        guard !isAnswered, let status = denial.status else { return abort() }
        // A client that does not read makes the denial wait: it waits without the head.
        defer { letGoOfHead() }
        // Everybody can make a key and connect with it. Each unknown key must cost at least a handshake. What a client
        // has sent after a request for another protocol must never be read as another request.
        // The connection of a proxy is for other clients too.
        let isStranger = denial == .deviceUnknown && isSelfSigned || denial == .certificateAbsent
        let isLast = isStranger && clients == nil || isUpgradeAsked
        // There is no other way to present a certificate than a new connection with a full handshake.
        if denial == .certificateAbsent, clients == nil { connection.forgetSession() }
        guard !isGRPC else { return denyCall(status, refusal, isLast: isLast) }
        let reference = request.decision.route.flatMap {
            gateway.routes.routes[$0].answersAsReference ? ReferenceAnswer(refusal) : nil
        }
        let length = reference.map { UInt64($0.text.count) } ?? gateway.denials.contentLength(of: refusal)
        let isHead = head.method == .head
        let isSent = sendHead(
            reference?.status ?? status, content: isHead ? .none : .length(length), statedLength: length,
            isLast: isLast
        ) { output in
            output.appendField("Content-Type", "application/json")
            if let reference { output.appendField(ReferenceAnswer.field, reference.text.span) }
            appendFields(of: refusal, to: &output)
        }
        guard isSent else { return abort() }
        if !isHead {
            var body = ByteBuffer(pool: gateway.pool)
            if let reference {
                body.append(reference.text)
            } else {
                gateway.denials.append(refusal, request.trace.id, to: &body)
            }
            guard sendContent(body.readable) == body.count else { return abort() }
        }
        _ = sendEnd()
    }

    private func letGoOfHead() {
        noteDisclosed()
        dropHead()
    }

    /// gRPC does not exist over HTTP/1.1, whatever the media type.
    private var isGRPC: Bool { version == .http2 && GRPCCall.isMeant(by: head, headBytes.readable) }

    /// Sends gRPC's Trailers-Only response: a head that ends the stream, because libraries ignore content. They use
    /// `grpc-status` if there is one, so the HTTP status can stay the same for intermediaries.
    private func denyCall(_ status: UInt16, _ refusal: Refusal, isLast: Bool) {
        let isSent = sendHead(status, content: .none, isLast: isLast) { output in
            output.appendField("Content-Type", "application/grpc")
            gateway.denials.appendFields(of: refusal, request.trace.id, to: &output)
            // gRFC A6: no retry, no hedging. A library would send the same proof again, whose counter may be spent.
            if request.decision.isProven { output.appendField("grpc-retry-pushback-ms", "-1") }
            appendFields(of: refusal, to: &output)
        }
        guard isSent else { return abort() }
        _ = sendEnd()
    }

    private func appendFields(of refusal: Refusal, to output: inout ByteBuffer) {
        let denial = refusal.denial
        output.appendField("Cache-Control", "no-store")
        gateway.appendDate(to: &output)
        refusal.excess?.append(to: &output)
        // RFC 9110 section 10.2.3. The duration of a busy upstream or a failed registry is unknown.
        switch denial {
        case .overloaded, .upstreamBusy, .tunnelLimit, .deviceTunnelLimit, .deviceRequestLimit, .storeUnavailable,
            .policyUnavailable:
            output.appendField("Retry-After", decimal: 1)
        default: break
        }
        if denial == .webSocketVersion {
            // RFC 6455 section 4.4; RFC 9110 section 15.5.22.
            output.appendField("Sec-WebSocket-Version", "13")
            output.appendField("Upgrade", "websocket")
            output.appendField("Connection", "Upgrade")
        }
        if denial == .methodRefused { output.appendField("Allow", allowedMethods.span) }
        if denial.asksForAttestation {
            gateway.clientAttestations?.appendFields(of: denial, now: WallClock.seconds, to: &output)
        } else if denial.asksForProof {
            // RFC 9110 section 15.5.2: a 401 names a scheme; Accept-Signature states what to sign.
            output.appendField("WWW-Authenticate", "Signature realm=\"attestgate\"")
            // A stranger cannot use it, and its contents depend on the request.
            if !request.decision.awaitsIntroduction(isSelfSigned: isSelfSigned) {
                gateway.enforcement?.appendAcceptSignature(
                    to: &output, for: head, route: request.decision.route, device: request.decision.deviceOfCertificate)
            }
        } else {
            // A 401 for a certificate names a scheme, too; no other fits.
            if denial.status == 401 { output.appendField("WWW-Authenticate", "Signature realm=\"attestgate\"") }
            appendDueChallenge(to: &output)
        }
    }

    private var allowedMethods: [UInt8] {
        // Only the gateway's own endpoints have no route.
        request.decision.route.map { gateway.routes.allow(at: $0) } ?? request.decision.endpoint?.methods ?? []
    }
}
