internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import Server
internal import Upstream
internal import Vocabulary

/// The response on its way back, or what there is instead of one.
extension ForwardingExchange {
    func answer(_ response: ResponseHead, _ bytes: Span<UInt8>) {
        guard !isAnswered else { return }
        timings.upstream = connection.loop.now - phaseBegan
        phases.upstream = phaseBegan
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
            guard goesOn(field), !response.connection.drops(field, of: bytes) else { continue }
            output.appendField(field, of: bytes)
        }
        appendDueChallenge(to: &output)
    }

    /// Whether a field of a response is forwarded, in its head or in its trailers.
    private func goesOn(_ field: HeaderField) -> Bool {
        // Accept-Signature is the gateway's to say, and what it refuses.
        !field.name.isHopByHop && field.name != .contentLength && field.name != .acceptSignature
            && field.name != .attestDenial
            // It answers the key that the gateway has made.
            && (field.name != .secWebSocketAccept || version != .http2)
    }

    /// Trailers go on to who can be sent any.
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

    /// A new challenge, in time before the one that the client has expires.
    func appendDueChallenge(to output: inout ByteBuffer) {
        guard let proof, proof.isChallengeAging else { return }
        gateway.enforcement?.appendAcceptSignature(to: &output, for: head, route: route)
    }

    /// Content-Length tells of content even where none follows: with HEAD and 304 (RFC 9110 section 8.6).
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
            // Cut off, so that the client cannot take half a response for a whole one.
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
