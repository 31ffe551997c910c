internal import Bytes
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import TLS
internal import Vocabulary

/// The decision about one request: its life from the head until it may be forwarded. A value without I/O: each step
/// takes values and returns what to do next, and the exchange runs the steps and waits between them.
///
///     head ─> source ─> route ─> device ─> proof ─> place ─> policy ─> content ─> counter ─> upstream
///                         │         └─ no more required ──┴──────┴───────────────────────────┘
///                         └─ endpoints: device for challenges, then the gateway's own answer
///
/// | step     | waits for                 | denials, in the order of the checks                                    |
/// | -------- | ------------------------- | ---------------------------------------------------------------------- |
/// | source   |                           | rate_limited                                                           |
/// | route    |                           | device_unknown (a stranger), misdirected, header_refused,              |
/// |          |                           | route_unknown, method_refused, header_refused, request_malformed,      |
/// |          |                           | certificate_required, content_too_large, request_malformed,            |
/// |          |                           | websocket_version                                                      |
/// | device   | the registry, at most 5 s | store_unavailable, device_unknown, device_revoked, device_mismatch,    |
/// |          |                           | device_risky, os_outdated, app_refused, rate_limited, policy_denied,   |
/// |          |                           | device_token_required, device_token_invalid,                           |
/// |          |                           | invalid_client_attestation, use_attestation_challenge,                 |
/// |          |                           | use_fresh_attestation, overloaded                                      |
/// | proof    | its turn, at most 5 s     | overloaded, proof_required, proof_malformed, device_mismatch,          |
/// |          |                           | challenge_required, proof_stale, proof_incomplete, proof_invalid,      |
/// |          |                           | app_refused, policy_denied                                             |
/// | place    |                           | head_too_large, upstream_busy, tunnel_limit, device_tunnel_limit,      |
/// |          |                           | device_request_limit, rate_limited                                     |
/// | policy   | its decision point        | policy_denied, policy_unavailable                                      |
/// | content  | the client                | content_too_large, overloaded, proof_stale, body_digest_mismatch       |
/// | counter  | the store, at most 5 s    | counter_replayed, counter_late, challenge_required, store_unavailable, |
/// |          |                           | device_revoked, device_mismatch, app_refused                           |
/// | upstream | a connection, the service | upstream_unavailable, upstream_timeout, upstream_busy                  |
///
/// Cheap checks come first, and any denial ends the request. Nothing has reached the upstream before `counter` has
/// ended: **when the upstream sees the first byte of a request with a proof, its counter is durable**
/// (`counter(_:)` returns `forward` for a committed value only). With `body: stream`, content follows the counter, and
/// its last byte waits for the digest.
///
/// A route that observes lets a request pass which only an observable denial is against (`observe`): from then on it is
/// one of its certificate alone.
///
/// Not copyable, because it is large: a question about it would otherwise copy all of it.
struct RequestDecision: ~Copyable {
    /// What to do next.
    enum Step {
        case refuse(Refusal)
        /// Ask the registry for the device of the certificate's key; `found` follows.
        case lookUp
        /// Answer at `endpoint`.
        case answer
        /// Check the device token, or the client attestation; `checked` follows.
        case checkToken
        /// Wait for the turn to verify the proof; `prove` follows.
        case awaitTurn
        /// Take a place; `admit` follows.
        case takePlace
        /// Ask the decision point of the route's policy; `answered` follows.
        case ask
        /// Collect the content; `content` follows. If an answer is due, ask the decision point meanwhile.
        case collect
        /// All content has arrived; `answered` follows.
        case awaitAnswer
        /// Spend the counter, as for `spend`; the content follows it to the upstream as it arrives.
        case stream
        /// Spend the counter; `counter` follows.
        case spend
        case forward
    }

    /// What is known of the sender.
    enum Sender {
        /// The registry was not asked.
        case unknown
        /// A device vouches for a self-signed certificate; the route is not known yet.
        case introduced(DeviceSnapshot)
        /// The certificate suffices, or none is required. With its device, if the registry knows one.
        case certificate(DeviceSnapshot?)
        case device(DeviceSnapshot, app: Int)
        /// Its proof is valid. It has no place yet.
        case verified(DeviceSnapshot, app: Int, VerifiedProof)
        /// The device has proven the request. The proof, its challenge or the certificate expires at a time.
        case proven(DeviceSnapshot, app: Int, VerifiedProof, end: Instant)
    }

    private(set) var sender = Sender.unknown
    /// Whether the registry's answer has been applied.
    private(set) var isJudged = false
    /// Index into the gateway's routes; nil for an endpoint, and until it is known.
    private(set) var route: Int?
    /// The gateway's own endpoint, if the request is for one.
    private(set) var endpoint: GatewayEndpoint?
    /// The requirement of the route; that of an endpoint, and of a request that passes although a denial is
    /// against it, is a certificate. Asked before `sender`, which is large.
    private(set) var requirement = Requirement.certificate
    /// The first denial against a request that passes all the same.
    private(set) var observed: Refusal?
    private(set) var policies = PolicyTracks()
    /// Whether all content has arrived, and matches its proof.
    private var isContentProven = false
    /// The WebSocket that the request asks for, on a route that permits it.
    private(set) var webSocket = WebSocketRequest.none

    enum WebSocketRequest {
        case none
        /// Asked for, but not well-formed.
        case malformed
        case valid(WebSocketKey)
    }

    // MARK: - Source and route

    /// Decides by the rate of the source.
    ///
    /// - Parameter owner: Nil if the client's address is not known.
    static func source(_ owner: Int?, _ gateway: GatewayApplication, now: Instant) -> Refusal? {
        guard let limiter = gateway.limiter, limiter.limitsSources, let owner else { return nil }
        return limiter.excess(ofSource: owner, now: now).map { Refusal($0) }
    }

    /// Decides by the head.
    ///
    /// - Parameters:
    ///   - bytes: The bytes of `head`.
    ///   - isServed: Whether the connection may serve the request's host.
    ///   - listener: The listener of the connection.
    ///   - certificate: The kind of the client's certificate. Nil if it has none, and the listener demands none.
    mutating func begin(
        _ head: RequestHead, _ bytes: Span<UInt8>, isServed: Bool, listener: Int, certificate: ClientIdentity.Kind?,
        _ gateway: GatewayApplication
    ) -> Step {
        let isSelfSigned = certificate == .selfSigned
        // A stranger must not learn which hosts, routes and methods exist.
        if isSelfSigned, case .unknown = sender {
            return gateway.enforcement == nil ? .refuse(Refusal(.deviceUnknown)) : .lookUp
        }
        // First: certificate and client were judged by the rules of the host in the handshake.
        guard isServed else { return .refuse(Refusal(.misdirected, "Host is not the name of the handshake")) }
        if let port = head.port, !gateway.admits(port: port, at: listener) {
            return .refuse(Refusal(.misdirected, "Host has a port that is not the listener's"))
        }
        endpoint = GatewayEndpoint.meant(
            by: head, bytes, hasDevices: gateway.enforcement != nil, gateway.clientAttestations)
        if let endpoint {
            guard endpoint == .challenge else { return .answer }
            guard certificate != nil else { return .refuse(Refusal(.certificateAbsent)) }
            return identify(isSelfSigned: isSelfSigned, gateway)
        }
        // Before any work for the request, and before a counter is spent.
        guard !gateway.upstreamRequest.refuses(head, bytes) else {
            return .refuse(Refusal(.headerRefused, "a field that overrides method or target"))
        }
        switch gateway.routes.match(host: head.host.of(bytes), path: head.path.of(bytes), method: head.routedMethod) {
        // The detail contains nothing of the request: a path may identify a patient.
        case .hostUnknown: return .refuse(Refusal(.routeUnknown, "no route has this host"))
        case .pathUnknown: return .refuse(Refusal(.routeUnknown, "no route of this host matches the path"))
        case .methodRefused(let index):
            route = index
            return .refuse(Refusal(.methodRefused))
        case .route(let index):
            guard gateway.routes.admitsNames(of: head, bytes, at: index) else {
                return .refuse(Refusal(MessageFault.fieldNameUnusual))
            }
            route = index
            if let fault = gateway.routes.targetFault(of: head, bytes, at: index) {
                return .refuse(Refusal(fault.kind, fault))
            }
            requirement = gateway.routes.routes[index].requirement
            guard certificate != nil || !requirement.includesCertificate else {
                return .refuse(Refusal(.certificateAbsent))
            }
            if let refusal = follow(index, of: gateway.routes, head, bytes) { return .refuse(refusal) }
            return identify(isSelfSigned: isSelfSigned, gateway)
        }
    }

    private mutating func follow(
        _ route: Int, of table: RouteTable, _ head: RequestHead, _ bytes: Span<UInt8>
    ) -> Refusal? {
        if case .length(let length) = head.framing, length > table.routes[route].contentLimit {
            return Refusal(.contentTooLarge)
        }
        // CONNECT asks for nothing else; an ignored Upgrade leaves a request.
        guard table.routes[route].webSocket else { return head.opensWebSocket ? Refusal(.methodRefused) : nil }
        let handshake = WebSocketHandshake(head, bytes)
        guard handshake != .none else { return nil }
        webSocket = .malformed
        switch handshake {
        case .none: return nil
        case .malformed(let fault): return Refusal(.requestMalformed, String(describing: fault.reason))
        case .versionUnsupported: return Refusal(.webSocketVersion)
        case .valid(let key): webSocket = .valid(.sent(key))
        case .validByConnect: webSocket = .valid(.made(WebSocketKey.random()))
        }
        return nil
    }

    // MARK: - Device

    private mutating func identify(isSelfSigned: Bool, _ gateway: GatewayApplication) -> Step {
        // Without a registry no route requires a device. A configuration that admits self-signed certificates has a
        // registry.
        guard gateway.enforcement != nil else {
            precondition(!requirement.includesDevice, "a route requires devices, but there is no registry")
            sender = .certificate(nil)
            return isSelfSigned ? .refuse(Refusal(.deviceUnknown)) : accepted(nil, gateway)
        }
        guard case .introduced(let device) = sender else { return .lookUp }
        return judge(.found(device), isSelfSigned: isSelfSigned, gateway, now: .now)
    }

    /// Whether a device must still vouch for the self-signed certificate before the head is looked at.
    func awaitsIntroduction(isSelfSigned: Bool) -> Bool {
        if case .unknown = sender, isSelfSigned { true } else { false }
    }

    /// Decides by the registry's answer.
    ///
    /// - Parameter lookup: Never `pending`.
    /// - Returns: Nil if the device vouches for a stranger, whose head is now to be looked at: `begin` follows.
    mutating func found(
        _ lookup: DeviceLookup, isSelfSigned: Bool, _ gateway: GatewayApplication, now: Instant
    ) -> Step? {
        if awaitsIntroduction(isSelfSigned: isSelfSigned), case .found(let device) = lookup, device.standing == .active
        {
            sender = .introduced(device)
            return nil
        }
        // All other strangers are denied in the same way.
        return judge(lookup, isSelfSigned: isSelfSigned, gateway, now: now)
    }

    private mutating func judge(
        _ lookup: DeviceLookup, isSelfSigned: Bool, _ gateway: GatewayApplication, now: Instant
    ) -> Step {
        guard let enforcement = gateway.enforcement else { return .refuse(Refusal(.deviceUnknown)) }
        isJudged = true
        let apps = requirement.includesDevice ? route.map { gateway.routes.routes[$0].apps } ?? .none : .none
        let access = enforcement.standing(of: lookup, isSelfSigned: isSelfSigned, on: requirement, admitting: apps)
        if case .refused(let refusal) = access {
            if case .found(let device) = lookup { sender = .certificate(device) }
            return .refuse(refusal)
        }
        guard case .found(let device) = lookup else {
            sender = .certificate(nil)
            return accepted(nil, gateway)
        }
        // By the certificate, which TLS has verified, on all routes: never by what a proof claims.
        if let excess = gateway.limiter?.excess(of: device.id, now: now) { return .refuse(Refusal(excess)) }
        guard case .device(let app) = access else {
            sender = .certificate(device)
            return accepted(nil, gateway)
        }
        sender = .device(device, app: app)
        return accepted(device, gateway)
    }

    /// Decides about an accepted certificate or device.
    ///
    /// - Parameter device: Nil if the route requires none.
    private mutating func accepted(_ device: DeviceSnapshot?, _ gateway: GatewayApplication) -> Step {
        guard let route else { return .answer }
        if let refusal = judgePolicy(device, gateway) { return .refuse(refusal) }
        let needsToken = gateway.routes.routes[route].deviceToken != .none || requirement == .clientAttestation
        return needsToken ? .checkToken : verified
    }

    /// Decides by the device token, or the client attestation.
    ///
    /// - Parameter refusal: Nil if it is valid.
    func checked(_ refusal: Refusal?) -> Step { refusal.map { .refuse($0) } ?? verified }

    /// What follows when all but the proof is verified.
    private var verified: Step { requirement == .requestProof ? .awaitTurn : .takePlace }

    /// Judges what is known of the device by the route's policy.
    ///
    /// - Parameter device: Nil if the route requires none.
    private mutating func judgePolicy(_ device: DeviceSnapshot?, _ gateway: GatewayApplication) -> Refusal? {
        guard let judge = gateway.judge, let route, let policy = gateway.routes.routes[route].policy else { return nil }
        policies.begin(policy, judge.outlines[policy])
        return policies.judge(device, awaitsProof: requirement == .requestProof, judge, gateway)
    }

    // MARK: - Proof and place

    /// Verifies the proof. Its counter is not spent yet: the same proof may be sent again while it is fresh.
    ///
    /// - Parameter bytes: The bytes of `head`.
    mutating func prove(_ head: RequestHead, _ bytes: Span<UInt8>, _ gateway: GatewayApplication) -> Step {
        guard let route, case .device(let device, let app) = sender, let enforcement = gateway.enforcement else {
            return .refuse(Refusal(.internalError, "a proof before its device"))
        }
        switch enforcement.verify(head, bytes, by: device, app: app, route: route) {
        case .refused(let refusal): return .refuse(refusal)
        case .verified(let proof):
            var device = device
            device.postureGeneration = enforcement.noteShown(by: proof, device)
            sender = .verified(device, app: app, proof)
            if let judge = gateway.judge, policies.isOpen,
                let refusal = policies.judge(device, awaitsProof: false, judge, gateway)
            {
                return .refuse(refusal)
            }
            return .takePlace
        }
    }

    /// Decides by what the request shares with others: its place, then the route's rate, the last check that costs no
    /// counter.
    ///
    /// - Parameters:
    ///   - shortage: The refusal if there is no place for it at the upstream; nil if it has taken one.
    ///   - certificateEnd: The end of the client's certificate, in seconds since 1970.
    mutating func admit(
        _ shortage: Refusal?, hasContent: Bool, certificateEnd: @autoclosure () -> Int64,
        _ gateway: GatewayApplication, now: Instant
    ) -> Step {
        if let shortage { return .refuse(shortage) }
        if let route, let excess = gateway.limiter?.excess(ofRoute: route, now: now) { return .refuse(Refusal(excess)) }
        guard requirement == .requestProof, case .verified(let device, let app, let proof) = sender else {
            return policies.isAnswerDue ? .ask : .forward
        }
        // The counter is spent after the content has arrived, which may take time: the proof must still be valid then.
        let left = max(0, min(proof.end, certificateEnd()) - WallClock.seconds)
        sender = .proven(device, app: app, proof, end: now + .seconds(left))
        // No byte is forwarded before the counter is durable.
        guard isStreamed(hasContent: hasContent, gateway) else { return .collect }
        return policies.isAnswerDue ? .ask : .stream
    }

    private func isStreamed(hasContent: Bool, _ gateway: GatewayApplication) -> Bool {
        hasContent && route.map { gateway.routes.routes[$0].body == .streamed } ?? false
    }

    // MARK: - Policy

    /// Decides by the answer of the policy's decision point.
    ///
    /// - Parameter refusal: Nil if it allows the request.
    /// - Returns: Nil if the content is still being collected.
    mutating func answered(
        _ refusal: Refusal?, hasContent: Bool, _ gateway: GatewayApplication
    ) -> Step? {
        policies.answered()
        if let refusal { return .refuse(refusal) }
        guard requirement == .requestProof else { return .forward }
        if isStreamed(hasContent: hasContent, gateway) { return .stream }
        return isContentProven ? .spend : nil
    }

    /// Takes the simulated policies whose decision points are to be asked.
    mutating func takeSimulated() -> [PolicyTrack] { policies.takeSimulated() }

    // MARK: - Content and counter

    /// Returns whether the content is more than the route permits.
    ///
    /// - Parameter count: All bytes so far.
    func isTooMuch(_ count: UInt64, _ gateway: GatewayApplication) -> Bool {
        route.map { count > gateway.routes.routes[$0].contentLimit } ?? true
    }

    /// Decides when all content has arrived.
    ///
    /// - Parameter isMatch: Whether it matches the digest in the proof.
    mutating func content(isMatch: Bool, now: Instant) -> Step {
        guard requirement == .requestProof else { return .forward }
        guard isMatch else { return .refuse(Refusal(.bodyDigestMismatch)) }
        if let refusal = staleness(now) { return .refuse(refusal) }
        isContentProven = true
        return policies.isAnswerDue ? .awaitAnswer : .spend
    }

    /// Returns the refusal if the proof has expired while the content arrived.
    func staleness(_ now: Instant) -> Refusal? {
        guard requirement == .requestProof, case .proven(_, _, _, let end) = sender, now >= end else { return nil }
        return Refusal(
            .proofStale, "the proof, its challenge or the certificate expired while the content arrived")
    }

    /// Decides by the outcome of the commit. From here on it is durable that the device has spent this counter, and which
    /// app extensions its key has shown; nothing else of a request is stored.
    func counter(_ outcome: CounterOutcome) -> Step {
        Refusal(outcome, of: proof?.counter ?? 0).map { .refuse($0) } ?? .forward
    }

    /// Returns the refusal of a request whose answer is overdue. A spent counter stays spent, and the request is not
    /// forwarded if the registry answers later.
    ///
    /// - Parameter isDeciding: Whether neither a counter nor an open tunnel waits.
    func overdue(isDeciding: Bool) -> Refusal {
        if isDeciding, case .device = sender {
            return Refusal(.overloaded, "the queue of proofs to verify is full")
        }
        return Refusal(.storeUnavailable, "the registry did not answer in time")
    }

    // MARK: - Observation

    /// Lets a request pass that is about to be refused, if its route only observes the sender. It becomes one of its
    /// certificate alone: without identity, and its counter stays unspent if it is not spent yet.
    ///
    /// - Parameters:
    ///   - key: The certificate's key, or the certificate's id if that is not on P-256.
    ///   - isSelfSigned: Whether only the registry can vouch for the certificate.
    /// - Returns: What to do next. Nil if the request is refused.
    mutating func observe(
        _ refusal: Refusal, _ key: KeyID?, isSelfSigned: Bool, _ gateway: GatewayApplication, now: Instant
    ) -> Step? {
        guard refusal.denial.isObservable(isSelfSigned: isSelfSigned), requirement.includesDevice, let route,
            let enforcement = gateway.enforcement, enforcement.isObserved(route),
            !enforcement.isEnforced(route, on: deviceOfCertificate, key)
        else { return nil }
        let device = deviceOfCertificate
        switch sender {
        case .proven:
            pass(refusal, device)
            return .forward
        case .certificate:
            // The refusal came before the device's rate was counted.
            if let device, let excess = gateway.limiter?.excess(of: device.id, now: now) {
                return .refuse(Refusal(excess))
            }
            pass(refusal, device)
            return .takePlace
        case .unknown, .introduced, .device, .verified:
            pass(refusal, device)
            return .takePlace
        }
    }

    private mutating func pass(_ refusal: Refusal, _ device: DeviceSnapshot?) {
        observed = refusal
        requirement = .certificate
        sender = .certificate(device)
        policies.settle()
    }

    // MARK: - What others need of it

    /// Whether the route requires a device. Ask this first: it is cheap, and most requests may need none.
    var requiresDevice: Bool { requirement.includesDevice }
    /// Whether the route requires a proof. A request that takes a place, or is forwarded, then has one.
    var requiresProof: Bool { requirement == .requestProof }

    /// The device for which the request is forwarded.
    var device: DeviceSnapshot? {
        guard requiresDevice else { return nil }
        return switch sender {
        case .device(let device, _), .verified(let device, _, _), .proven(let device, _, _, _): device
        case .unknown, .introduced, .certificate: nil
        }
    }

    /// The device of the certificate, whatever the route requires.
    var deviceOfCertificate: DeviceSnapshot? {
        switch sender {
        case .device(let device, _), .verified(let device, _, _), .proven(let device, _, _, _),
            .introduced(let device):
            device
        case .certificate(let device): device
        case .unknown: nil
        }
    }

    /// The index of the device's app in the configuration.
    var app: Int {
        switch sender {
        case .device(_, let app), .verified(_, let app, _), .proven(_, let app, _, _): app
        case .unknown, .introduced, .certificate: 0
        }
    }

    var proof: VerifiedProof? {
        if requiresProof, case .proven(_, _, let proof, _) = sender { proof } else { nil }
    }

    /// The device that vouches for a self-signed certificate, while the route is not known.
    var introduced: DeviceSnapshot? { if case .introduced(let device) = sender { device } else { nil } }
    var isProven: Bool { if requiresProof, case .proven = sender { true } else { false } }

    var webSocketKey: WebSocketKey? { if case .valid(let key) = webSocket { key } else { nil } }
    var asksForWebSocket: Bool { if case .none = webSocket { false } else { true } }
}
