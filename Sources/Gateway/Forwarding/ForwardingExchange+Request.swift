internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import Server
internal import Upstream
internal import Vocabulary

/// The request on its way to the service.
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

    /// Whose request it is, for upstreams that keep to one server: of the device, or where none is known of its certificate.
    private var balanceKey: UInt64 { device?.hardwareKey.prefix ?? client.keyID?.prefix ?? 0 }

    /// Whether it may be sent once more. A proof is for one sending, whatever the method, unless nobody has looked at what was sent.
    func isRepeatable(_ again: Repetition) -> Bool {
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

    /// What ends here may have waited for a connection that was begun for it. Over HTTP/1.1 the request is written meanwhile, over
    /// HTTP/2 it waits for the server's SETTINGS; that is no difference to who reads the log.
    func noteBegunConnection() {
        if stage == .queued, decision == nil, call.isPlaced { noteForwarding() }
    }

    /// The wait for a connection is over.
    func began(on carrier: UpstreamCarrier) {
        phaseBegan = .now
        send(on: carrier)
        resumeContent()
    }

    /// The rest of the request has waited for a carrier.
    private func resumeContent() {
        if isRequestComplete { contentComplete() } else { contentWanted() }
    }

    /// Whether all content is here, and is what the proof says. Never without a proof.
    private var isContentVerified: Bool { proof != nil && content?.isVerified == true }

    /// Who sends the request, where the route demands to know.
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

    /// Sends what was kept back until it was verified, as far as there is room.
    private func release(to carrier: UpstreamCarrier) {
        let isComplete = content?.release(into: carrier) == true
        carrier.send(isComplete: isComplete)
    }

    /// Forwards content as it arrives.
    ///
    /// - Returns: how much was taken.
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
        // What fits is collected and leaves in one write: a client that sends many small chunks must not cost one each.
        if taken < content.count { carrier.send(isComplete: false) }
        return taken
    }

    /// All content was passed on, but for what is kept back of it.
    func finishRequest() {
        // An upstream that has answered already gets no more; its request was never complete.
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
