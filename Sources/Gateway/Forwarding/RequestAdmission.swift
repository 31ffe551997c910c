internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import Server
internal import Vocabulary

/// The decision: the life of a request until it may be forwarded.
///
/// head, route, size -> device -> proof, in turn -> content and its digest -> counter, in memory and durable ->
/// forward. Any failure ends it with a denial, and nothing has reached the upstream. Streamed content follows the
/// counter, while it is forwarded; an error in it ends the request before its last byte.
extension ForwardingExchange {
    // MARK: - Head and route

    /// The outcome of the checks of a head.
    private enum HeadVerdict {
        case misdirected
        case portRefused
        case forChallenge
        case headerRefused
        case nameRefused
        case matched(RouteTable.Match)
    }

    /// Reads head and bytes once for all checks, because each access needs an exclusivity check.
    private func judge(_ head: RequestHead, _ bytes: Span<UInt8>) -> HeadVerdict {
        // First: certificate and client were judged by the rules of the host in the handshake.
        let host = head.host.of(bytes)
        guard connection.serves(host: host) else { return .misdirected }
        if let port = head.port(bytes), !gateway.admits(port: port, at: connection.listener) { return .portRefused }
        if gateway.enforcement != nil, ChallengeEndpoint.isMeant(by: head, bytes) { return .forChallenge }
        // Before any work for the request, and before a counter is spent.
        guard !gateway.upstreamRequest.refuses(head, bytes) else { return .headerRefused }
        let match = gateway.routes.match(host: host, path: head.path.of(bytes), method: head.routedMethod)
        if case .route(let index) = match, !gateway.routes.routes[index].admitsNames(of: head, bytes) {
            return .nameRefused
        }
        return .matched(match)
    }

    func decide(by head: RequestHead) {
        // A stranger must not learn which hosts, routes and methods exist.
        guard !isStranger else { return introduce() }
        switch judge(head, headBytes.readable) {
        case .misdirected: deny(.misdirected, "Host is not the name of the handshake")
        case .portRefused: deny(.misdirected, "Host has a port that is not the listener's")
        case .forChallenge: identify(for: .certificate)
        case .headerRefused: deny(.headerRefused, "a field that overrides method or target")
        case .nameRefused: deny(Denial(.fieldNameUnusual), String(describing: MessageFault.fieldNameUnusual.reason))
        case .matched(let match): follow(match, opensWebSocket: head.opensWebSocket)
        }
    }

    private func follow(_ match: RouteTable.Match, opensWebSocket: Bool) {
        switch match {
        // The detail contains nothing of the request: a path may identify a patient.
        case .hostUnknown: deny(.routeUnknown, "no route has this host")
        case .pathUnknown: deny(.routeUnknown, "no route of this host matches the path")
        case .methodRefused(let index):
            route = index
            deny(.methodRefused)
        case .route(let index):
            route = index
            if case .length(let length) = framing, length > gateway.routes.routes[index].contentLimit {
                return deny(.contentTooLarge)
            }
            if let idle = gateway.routes.routes[index].contentIdle, framing.hasContent {
                allowContentPauses(of: .milliseconds(idle))
            }
            guard gateway.routes.routes[index].webSocket else {
                // CONNECT asks for nothing else; an ignored Upgrade leaves a request.
                if opensWebSocket { return deny(.methodRefused) }
                return identify(for: gateway.routes.routes[index].requirement)
            }
            guard readHandshake() else { return }
            identify(for: gateway.routes.routes[index].requirement)
        }
    }

    // MARK: - The device

    /// Whether only the registry can vouch for the client's certificate.
    var isSelfSigned: Bool { client.isSelfSigned }

    /// Whether the client is unknown: the registry was not asked yet, or has no device for the self-signed
    /// certificate.
    private var isStranger: Bool { isSelfSigned && introduced == nil }

    /// Asks the registry about a stranger, before its request is evaluated.
    private func introduce() {
        guard let enforcement = gateway.enforcement else { return deny(.deviceUnknown) }
        let lookup = lookUp(in: enforcement)
        if case .pending = lookup { return }
        judgeStranger(by: lookup)
    }

    /// Decides the request of a stranger that the registry knows; denies all others in the same way.
    private func judgeStranger(by lookup: DeviceLookup) {
        guard case .found(let device) = lookup, device.standing == .active else {
            return identified(lookup, .certificate)
        }
        introduced = device
        connection.recognize()
        decide(by: head)
    }

    private func identify(for requirement: Requirement) {
        guard let enforcement = gateway.enforcement else {
            // A configuration that admits self-signed certificates has a registry.
            guard !isSelfSigned else { return deny(.deviceUnknown) }
            // Without a registry there are only routes for certificates, and TLS admits no client without one.
            precondition(requirement == .certificate, "a route requires devices, but there is no registry")
            return forwardWithinRate()
        }
        let lookup = introduced.map { .found($0) } ?? lookUp(in: enforcement)
        if case .pending = lookup { return }
        identified(lookup, requirement)
    }

    /// Returns the device to which the client's certificate is bound. If the answer is `pending`, the exchange waits
    /// for the registry.
    func lookUp(in enforcement: Enforcement) -> DeviceLookup {
        // Not `waiting` itself: as an inout argument, each access to it would need an exclusivity check.
        var token: UInt64?
        let lookup = enforcement.lookUp(client.keyID, for: self, waiting: &token)
        if let token { waiting = token }
        return lookup
    }

    /// Called with the answer of a pending lookup.
    func registryAnswered(_ lookup: DeviceLookup) {
        waiting = nil
        guard stage != .tunnel else { return judgeTunnel(by: lookup) }
        if isStranger {
            judgeStranger(by: lookup)
        } else {
            identified(lookup, route.map { gateway.routes.routes[$0].requirement } ?? .certificate)
        }
        resumeRequest()
        advance()
    }

    /// Continues with the rest of the request, which waited for the registry or its turn.
    private func resumeRequest() {
        if isRequestComplete {
            contentComplete()
        } else {
            contentWanted()
            // If none has arrived yet, the head need not wait for it.
            contentPaused()
        }
    }

    private func identified(_ lookup: DeviceLookup, _ requirement: Requirement) {
        guard let enforcement = gateway.enforcement else { return }
        noteDevice(of: lookup, enforcement)
        let apps = route.map { gateway.routes.routes[$0].apps } ?? .none
        let standing = enforcement.standing(
            of: lookup, isSelfSigned: isSelfSigned, on: requirement, admitting: apps)
        if case .refused(let refusal) = standing { return deny(refusal) }
        if tunnelling.isAsked, case .found(let device) = lookup { tunnelling.device = device.id }
        // By the certificate, which TLS has verified, on all routes: never by what a proof claims.
        if let limiter = gateway.limiter, case .found(let device) = lookup,
            let excess = limiter.excess(of: device.id, now: connection.loop.now)
        {
            return deny(excess)
        }
        switch standing {
        case .refused(let refusal): deny(refusal)
        case .certificate: if route == nil { answerChallenge() } else { forwardWithinRate() }
        case .device(let device, let app):
            self.device = device
            self.app = app
            guard requirement == .requestProof else { return forwardWithinRate() }
            waiting = enforcement.awaitVerification(of: self)
        }
    }

    // MARK: - Shared places

    /// Takes a place at the upstream or for a tunnel, when the request is admitted and before its counter is spent.
    ///
    /// - Returns: False if there is none, and the request is denied.
    private func takePlace() -> Bool {
        guard tunnelling.key == nil else { return takeTunnelPlace() }
        guard let route else { return true }
        share = gateway.takeShare(of: gateway.routes.routes[route].upstream, for: client)
        if share == nil { deny(.deviceRequestLimit) }
        return share != nil
    }

    // MARK: - The route's rate

    private func forwardWithinRate() {
        guard takePlace() else { return }
        if let excess = excessOfRoute { deny(excess) } else { forward() }
    }

    /// Counts the request for the route's rate; nil if it is within the rate.
    private var excessOfRoute: RateExcess? {
        guard let limiter = gateway.limiter, let route else { return nil }
        return limiter.excess(ofRoute: route, now: connection.loop.now)
    }

    // MARK: - The proof

    /// Called when it is the request's turn to be verified.
    func verificationDue() {
        waiting = nil
        prove()
        resumeRequest()
        advance()
    }

    private func prove() {
        guard let route, let device, let enforcement = gateway.enforcement else { return }
        // The loop's clock does not advance within an event, and verification takes most of this one.
        let began = Instant.now
        let verdict = enforcement.verify(head, headBytes.readable, by: device, app: app, route: route)
        timings.verification = .now - began
        phases.verification = began
        switch verdict {
        case .refused(let refusal): deny(refusal)
        case .verified(let proof):
            // The counter is not spent yet: the same proof may be sent again while it is fresh.
            if let shortage = gateway.upstreams[gateway.routes.routes[route].upstream].shortage {
                isUpstreamAsked = true
                return deny(refusal(for: shortage))
            }
            guard takePlace() else { return }
            if let excess = excessOfRoute { return deny(excess) }
            self.proof = proof
            // The counter is spent after the content has arrived, which may take time: the proof must still be valid
            // then.
            let end = min(proof.end, connection.identity?.notAfter ?? 0)
            proofEnd = connection.loop.now + .seconds(max(0, end - WallClock.seconds))
            let isStreamed = gateway.routes.routes[route].body == .streamed && head.framing.hasContent
            do throws(CryptographyError) {
                content = try enforcement.content(
                    of: proof, from: device, streaming: isStreamed ? head.framing : nil)
            } catch {
                return deny(.internalError, error.description)
            }
            // No byte is forwarded before the counter is durable.
            guard !isStreamed else { return spend() }
            stage = .collecting
            // Only now is the sender known.
            if head.expectsContinue, head.framing.hasContent { sendContinue() }
        }
    }

    // MARK: - The content

    func isWithinLimit(_ count: Int) -> Bool {
        guard let route else { return false }
        return requestBytes + UInt64(count) <= gateway.routes.routes[route].contentLimit
    }

    func collect(_ bytes: Span<UInt8>) -> Int {
        guard isProofGood() else { return bytes.count }
        guard isWithinLimit(bytes.count) else {
            deny(.contentTooLarge)
            return bytes.count
        }
        do throws(CryptographyError) {
            if try content?.collect(bytes) != true { deny(.overloaded) }
        } catch {
            deny(.internalError, error.description)
        }
        return bytes.count
    }

    func contentComplete() {
        switch stage {
        case .collecting: if isContentProven() { spend() }
        case .forwarding: finishRequest()
        case .tunnel: clientEndedTunnel()
        case .deciding, .committing, .queued, .answered: break
        }
    }

    /// Compares the digest when all content has arrived, and denies the request if it does not match.
    func isContentProven() -> Bool {
        do throws(CryptographyError) {
            if try content?.verify() == true { return true }
            deny(.bodyDigestMismatch)
        } catch {
            deny(.internalError, error.description)
        }
        return false
    }

    // MARK: - The counter

    /// Denies the request if the proof expired while the content arrived.
    private func isProofGood() -> Bool {
        guard connection.loop.now >= proofEnd else { return true }
        deny(.proofStale, "the proof, its challenge or the certificate expired while the content arrived")
        return false
    }

    private func spend() {
        guard isProofGood() else { return }
        guard let enforcement = gateway.enforcement, let proof, let device else { return }
        switch enforcement.spend(proof, of: device, app: app, for: self) {
        case .failure(let refusal): deny(refusal)
        case .success(let token):
            stage = .committing
            phaseBegan = .now
            phases.commit = phaseBegan
            waiting = token
        }
    }

    /// Called with the outcome of the commit.
    func counterDecided(_ outcome: CounterOutcome) {
        waiting = nil
        timings.commit = .now - phaseBegan
        if let refusal = Refusal(outcome, of: proof?.counter ?? 0) { deny(refusal) } else { forward() }
        resumeRequest()
        advance()
    }

    // MARK: - Waiting

    /// Called when the registry has not answered in time, or the verification was not reached. A spent counter stays
    /// spent, and the request is not forwarded if the registry answers later.
    func waitOverdue() {
        // The proof is verified after the device is known, and the counter is spent in a later stage.
        let refusal =
            stage == .deciding && device != nil
            ? Refusal(.overloaded, "the queue of proofs to verify is full")
            : Refusal(.storeUnavailable, "the registry did not answer in time")
        if stage == .committing { timings.commit = .now - phaseBegan }
        guard stage != .tunnel else { return denyTunnel(refusal) }
        deny(refusal)
        contentWanted()
        advance()
    }

    func stopWaiting() {
        guard let token = waiting else { return }
        waiting = nil
        gateway.enforcement?.stopWaiting(token)
    }

    // MARK: - Responses of the gateway itself

    /// Answers a client that has a certificate with a new challenge.
    private func answerChallenge() {
        guard head.method == .get || head.method == .head else { return deny(.methodRefused) }
        stage = .answered
        decision = .answered
        let isSent = sendHead(204, content: .none) { output in
            output.appendField("Cache-Control", "no-store")
            gateway.appendDate(to: &output)
            gateway.enforcement?.appendAcceptSignature(to: &output, for: head, route: nil)
        }
        guard isSent else { return abort() }
        _ = sendEnd()
    }
}

/// Denials.
extension ForwardingExchange {
    func deny(_ denial: Denial, _ detail: String? = nil) { deny(Refusal(denial, detail)) }

    func deny(_ excess: RateExcess) { deny(Refusal(excess)) }

    func deny(_ refusal: Refusal) {
        noteBegunConnection()
        call.cancel()
        stopWaiting()
        // The log keeps the denial that the client received. The reason why an upstream's response was cut off goes
        // to the log only.
        if !isAnswered || !isRefused { self.refusal = refusal }
        stage = .answered
        if decision == nil { decision = .denied }
        content = nil
        let denial = refusal.denial
        guard !isAnswered, let status = denial.status else { return abort() }
        // A client that does not read makes the denial wait: it waits without the head.
        defer { letGoOfHead() }
        // Everybody can make a key and connect with it. Each unknown key must cost at least a handshake. What a client
        // has sent after a request for another protocol must never be read as another request.
        let isLast = denial == .deviceUnknown && isSelfSigned || isUpgradeAsked
        guard !isGRPC else { return denyCall(status, refusal, isLast: isLast) }
        let length = gateway.denials.contentLength(of: refusal)
        let isHead = head.method == .head
        let isSent = sendHead(
            status, content: isHead ? .none : .length(length), statedLength: length, isLast: isLast
        ) { output in
            output.appendField("Content-Type", "application/json")
            appendFields(of: refusal, to: &output)
        }
        guard isSent else { return abort() }
        if !isHead {
            var body = ByteBuffer(pool: gateway.pool)
            gateway.denials.append(refusal, trace.id, to: &body)
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
            gateway.denials.appendFields(of: refusal, trace.id, to: &output)
            // gRFC A6: no retry, no hedging. A library would send the same proof again, whose counter may be spent.
            if proof != nil { output.appendField("grpc-retry-pushback-ms", "-1") }
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
        case .overloaded, .upstreamBusy, .tunnelLimit, .deviceTunnelLimit, .deviceRequestLimit, .storeUnavailable:
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
        if denial.asksForProof {
            // RFC 9110 section 15.5.2: a 401 names a scheme; Accept-Signature states what to sign.
            output.appendField("WWW-Authenticate", "Signature realm=\"attestgate\"")
            // A stranger cannot use it, and its contents depend on the request.
            if !isStranger { gateway.enforcement?.appendAcceptSignature(to: &output, for: head, route: route) }
        } else {
            appendDueChallenge(to: &output)
        }
    }

    private var allowedMethods: [UInt8] {
        // Only the gateway's own endpoint has no route.
        route.map { gateway.routes.allow(at: $0) } ?? ChallengeEndpoint.methods
    }
}
