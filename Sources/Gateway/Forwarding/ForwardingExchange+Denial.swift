internal import Bytes
internal import HTTP
internal import Server
internal import Vocabulary

/// Refusing.
extension ForwardingExchange {
    func deny(_ denial: Denial, _ detail: String? = nil) { deny(Refusal(denial, detail)) }

    func deny(_ excess: RateExcess) { deny(Refusal(excess)) }

    func deny(_ refusal: Refusal) {
        noteBegunConnection()
        call.cancel()
        stopWaiting()
        // The log keeps the denial that the client received; the reason why an upstream's response was cut off goes to
        // the log alone.
        if !isAnswered || !isRefused { self.refusal = refusal }
        stage = .answered
        if decision == nil { decision = .denied }
        content = nil
        let denial = refusal.denial
        guard !isAnswered, let status = denial.status else { return abort() }
        // A client that takes no answers makes a denial wait: it waits without the head.
        defer { letGoOfHead() }
        // Anybody can make a key and connect with it. Each that nobody knows shall at least cost a handshake.
        // What a client has sent behind a request for another protocol is never read as another request.
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

    /// Over HTTP/1.1 there is no gRPC, whatever the media type says.
    private var isGRPC: Bool { version == .http2 && GRPCCall.isMeant(by: head, headBytes.readable) }

    /// gRPC's Trailers-Only: a head that ends the stream has all there is to say, for the libraries show nothing of content. What they make
    /// of an answer is what `grpc-status` says where they find one, so the HTTP status can stay what it is for everybody on the way.
    private func denyCall(_ status: UInt16, _ refusal: Refusal, isLast: Bool) {
        let isSent = sendHead(status, content: .none, isLast: isLast) { output in
            output.appendField("Content-Type", "application/grpc")
            gateway.denials.appendFields(of: refusal, trace.id, to: &output)
            // gRFC A6: no retry, no hedging. The library would send the same proof again, whose counter may be spent.
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
        // RFC 9110 section 10.2.3. Nobody knows how long connections are busy or the registry fails.
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
            // RFC 9110 section 15.5.2: a 401 names a scheme; what to sign, Accept-Signature says.
            output.appendField("WWW-Authenticate", "Signature realm=\"attestgate\"")
            // Nothing to sign is of use to a stranger, and what it says depends on the request.
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
