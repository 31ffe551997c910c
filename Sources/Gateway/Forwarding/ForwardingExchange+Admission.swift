internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import Server
internal import Vocabulary

/// Deciding: the life of a request up to the moment when it may be forwarded.
///
/// head, route, size -> device -> proof, in its turn -> content and its digest -> counter, in memory and durable -> forward. Whatever
/// fails ends it with a denial, and nothing has reached the upstream. Content that is streamed comes behind the counter, while
/// it is forwarded; what is wrong with it ends the request before its last byte.
extension ForwardingExchange {
    // MARK: - Head and route

    /// What its head makes of a request.
    private enum HeadVerdict {
        case misdirected
        case portRefused
        case forChallenge
        case headerRefused
        case nameRefused
        case matched(RouteTable.Match)
    }

    /// Looks at head and bytes once for all that they decide: each access to them is checked at run time.
    private func judge(_ head: RequestHead, _ bytes: Span<UInt8>) -> HeadVerdict {
        // First of all: certificate and client were judged for another host than the one that the request is for.
        let host = head.host.of(bytes)
        guard connection.serves(host: host) else { return .misdirected }
        if let port = head.port(bytes), !gateway.admits(port: port, at: connection.listener) { return .portRefused }
        if gateway.enforcement != nil, ChallengeEndpoint.isMeant(by: head, bytes) { return .forChallenge }
        // Before any work is done for it, and before a counter is spent.
        guard !gateway.upstreamRequest.refuses(head, bytes) else { return .headerRefused }
        let match = gateway.routes.match(host: host, path: head.path.of(bytes), method: head.routedMethod)
        if case .route(let index) = match, !gateway.routes.routes[index].admitsNames(of: head, bytes) {
            return .nameRefused
        }
        return .matched(match)
    }

    func decide(by head: RequestHead) {
        // Nobody vouches for a stranger: which hosts, routes and methods there are, is not for it to learn.
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
        // Which of the two, and nothing of what was asked for: a path may say who a patient is.
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
                // CONNECT asks for nothing else, where an Upgrade that is left out leaves a request.
                if opensWebSocket { return deny(.methodRefused) }
                return identify(for: gateway.routes.routes[index].requirement)
            }
            guard readHandshake() else { return }
            identify(for: gateway.routes.routes[index].requirement)
        }
    }

    // MARK: - The device

    /// Whether only the registry can say whose the client's certificate is.
    var isSelfSigned: Bool { client.isSelfSigned }

    /// Whether nobody vouches for the client: the registry was not asked yet, or knows no device of its certificate.
    var isStranger: Bool { isSelfSigned && introduced == nil }

    /// Asks the registry about a stranger, before anything of its request is looked at.
    private func introduce() {
        guard let enforcement = gateway.enforcement else { return deny(.deviceUnknown) }
        let lookup = lookUp(in: enforcement)
        if case .pending = lookup { return }
        judgeStranger(by: lookup)
    }

    /// Decides about a stranger's request, or denies it as any other of that stranger.
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
            // A configuration that admits these has a registry; without one nobody vouches for them.
            guard !isSelfSigned else { return deny(.deviceUnknown) }
            // Without a registry there are only routes for certificates, and TLS let nobody in without one.
            precondition(requirement == .certificate, "a route requires devices, but there is no registry")
            return forwardWithinRate()
        }
        let lookup = introduced.map { .found($0) } ?? lookUp(in: enforcement)
        if case .pending = lookup { return }
        identified(lookup, requirement)
    }

    /// The device that the client's certificate is bound to. If the answer is `pending`, the exchange waits for the registry.
    func lookUp(in enforcement: Enforcement) -> DeviceLookup {
        // Not `waiting` itself: if it were handed over, each look at it would be checked at run time.
        var token: UInt64?
        let lookup = enforcement.lookUp(client.keyID, for: self, waiting: &token)
        if let token { waiting = token }
        return lookup
    }

    /// The lookup that was pending has its answer.
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

    /// The rest of the request has waited for the registry, or for its turn.
    private func resumeRequest() {
        if isRequestComplete {
            contentComplete()
        } else {
            contentWanted()
            // If none has come yet, the head need not wait for it.
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
        // By the certificate, which TLS has verified, on routes too that ask for no more: never by what a proof claims.
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

    // MARK: - What others need too

    /// Takes what there is only so much of: when the request is admitted, so that nobody else can take any, and before anything of it
    /// is spent. - Returns: false if there is none, and the request is denied.
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

    /// Nil if the request is within the route's rate: it is counted then.
    private var excessOfRoute: RateExcess? {
        guard let limiter = gateway.limiter, let route else { return nil }
        return limiter.excess(ofRoute: route, now: connection.loop.now)
    }

    // MARK: - The proof

    /// What takes less goes first; now it is this request's turn.
    func verificationDue() {
        waiting = nil
        prove()
        resumeRequest()
        advance()
    }

    private func prove() {
        guard let route, let device, let enforcement = gateway.enforcement else { return }
        // The loop's clock stands still within an event, and this is the most of it.
        let began = Instant.now
        let verdict = enforcement.verify(head, headBytes.readable, by: device, app: app, route: route)
        timings.verification = .now - began
        phases.verification = began
        switch verdict {
        case .refused(let refusal): deny(refusal)
        case .verified(let proof):
            // The counter is not spent yet: the same proof may come again, while it is fresh.
            if let shortage = gateway.upstreams[gateway.routes.routes[route].upstream].shortage {
                isUpstreamAsked = true
                return deny(refusal(for: shortage))
            }
            guard takePlace() else { return }
            if let excess = excessOfRoute { return deny(excess) }
            self.proof = proof
            // Content may take its time to come, and the counter is spent after it: the proof must still be good then.
            let end = min(proof.end, connection.identity?.notAfter ?? 0)
            proofEnd = connection.loop.now + .seconds(max(0, end - WallClock.seconds))
            let isStreamed = gateway.routes.routes[route].body == .streamed && head.framing.hasContent
            do throws(CryptographyError) {
                content = try enforcement.content(
                    of: proof, from: device, streaming: isStreamed ? head.framing : nil)
            } catch {
                return deny(.internalError, error.description)
            }
            // Not one byte is forwarded before the counter is durable.
            guard !isStreamed else { return spend() }
            stage = .collecting
            // Only now: before, nobody knew who sends.
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

    /// All content has come: denies the request if it is not what the proof says.
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

    /// Denies the request if the proof has aged while the content came.
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

    /// The counter's fate is known.
    func counterDecided(_ outcome: CounterOutcome) {
        waiting = nil
        timings.commit = .now - phaseBegan
        if let refusal = Refusal(outcome, of: proof?.counter ?? 0) { deny(refusal) } else { forward() }
        resumeRequest()
        advance()
    }

    // MARK: - Waiting

    /// The registry has not answered for too long, or the turn of its proof has not come. What was spent stays so, and is not
    /// forwarded when the registry answers after all.
    func waitOverdue() {
        // A proof is verified once the device is known, and the counter is spent in another stage.
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

    // MARK: - What the gateway answers itself

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
