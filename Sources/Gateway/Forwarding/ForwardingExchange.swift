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
/// Deciding is in `ForwardingExchange+Admission`, refusing in `ForwardingExchange+Denial`, the way to the service in
/// `ForwardingExchange+Request`, the way back in `ForwardingExchange+Response`, tunnels in `ForwardingExchange+Tunnel`, what is
/// logged of it in `ForwardingExchange+Log`.
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
    /// Nil unless it is refused, which is looked at first: to look at this one costs what copying it would.
    var refusal: Refusal? {
        get { isRefused ? refusedBy : nil }
        set {
            isRefused = newValue != nil
            refusedBy = newValue
        }
    }
    private(set) var isRefused = false
    private var refusedBy: Refusal?
    /// The token of a wait for the registry, or for the turn of its proof.
    var waiting: UInt64?
    var isRequestComplete = false
    var device: DeviceSnapshot?
    /// The device that vouches for a self-signed certificate.
    var introduced: DeviceSnapshot?
    /// The place of the device's app in the configuration.
    var app = 0
    var proof: VerifiedProof?
    /// From then on the proof, or the certificate that came with it, is no longer good.
    var proofEnd = Instant(nanoseconds: .max)
    /// Of a request whose proof is good: without `proof` there is none. That is asked first on the way of all requests, for each look
    /// at this one is checked at run time.
    var content: ProvenContent?
    /// What became of the request; nil while that is open, or if the client left before.
    var decision: Decision?
    var timings = RequestTimings()
    /// When the phase began that the request is in: the commit, or the upstream's.
    var phaseBegan = Instant(nanoseconds: 0)
    var phases = PhaseStarts()
    /// Whether the registry knows that device for this request.
    var isDeviceKnown = false
    /// What the log says of a head that has been given back.
    var disclosed: Disclosure?
    /// Of a request that asks for a WebSocket.
    var tunnelling = Tunnelling()
    var isAborted = false
    /// It was to be forwarded, whatever came of that.
    var isUpstreamAsked = false
    /// The request was sent again, after a connection had ended before the first byte of an answer.
    var isRetried = false
    /// The end of the request, or of the response, waits for room.
    var isRequestEndDue = false
    var isResponseEndDue = false
    let client: ClientMemory
    /// Its part of what the client may have of the upstream.
    var share: ClientShares.Share?

    init(connection: ServerConnection, gateway: GatewayApplication) {
        self.gateway = gateway
        client = ClientMemory.of(connection, gateway)
        super.init(connection: connection)
    }

    // MARK: - What comes from the client

    override func headReceived() {
        // One copy for all that is decided by it.
        let head = head
        // A look at the bytes is checked at run time.
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

    /// A tunnel's client is judged again and again, which nobody waits for.
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
        // An upstream that still wants the rest of a request it has answered already.
        call.cancel()
        call.exchange = nil
        stopWaiting()
        timings.total = .now - began
        if !connection.wasHandshakeReported {
            connection.wasHandshakeReported = true
            timings.handshake = connection.handshakeDuration
        }
        // How long a tunnel lasts says nothing of how long requests take.
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
        // Of all others nothing is noted there.
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
