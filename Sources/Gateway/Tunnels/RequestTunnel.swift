internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import Server
internal import Upstream
internal import Vocabulary

/// A request that asks for a WebSocket, and its tunnel.
///
/// It is decided as any other request. The tunnel opens when the service has answered with a valid 101: what the
/// client sends before waits unread, and is never taken for a request.
extension ForwardingExchange {
    // MARK: - Opening

    /// Whether what the client has sent after the request must not be read as another one. On a stream it cannot be.
    var isUpgradeAsked: Bool { request.decision.asksForWebSocket && version != .http2 }

    /// Takes a place for the WebSocket.
    ///
    /// - Returns: The refusal if there is none.
    func takeTunnelPlace(_ upstream: Int) -> Refusal? {
        let place = TunnelPlace(
            holder: request.decision.deviceOfCertificate.map { .device($0.id) }
                ?? .client(client.key),
            upstream: upstream)
        if let refusal = gateway.take(place) { return refusal }
        request.tunnelPlace = place
        return nil
    }

    /// Opens the tunnel after the service has switched protocols.
    ///
    /// - Returns: The failure; nil if the request is a tunnel now.
    func switched(_ response: ResponseHead, _ bytes: Span<UInt8>) -> UpstreamFailure? {
        guard let key = request.decision.webSocketKey, !isAnswered else { return .unexpectedUpgrade }
        let accept: [UInt8]
        do throws(CryptographyError) {
            accept = try gateway.webSocketAccept(for: key, in: headBytes.readable)
        } catch {
            return .upgradeInvalid(.acceptWrong)
        }
        if let fault = WebSocketAnswerFault(response, bytes, accept: accept.span) { return .upgradeInvalid(fault) }
        noteUpstream()
        // An open tunnel releases its head.
        noteDisclosed()
        let isOpen = openTunnel(of: client.identity) { output in
            if version != .http2 {
                output.appendField("Upgrade", "websocket")
                output.appendField("Connection", "Upgrade")
            }
            appendFields(of: response, bytes, to: &output)
        }
        guard isOpen else { return .malformed(.headTooLarge) }
        request.stage = .tunnel(waiting: nil)
        // It was sent completely: room from now on is for the tunnel.
        provenContent = nil
        gateway.upstreamAnswered(request.decision.route)
        gateway.tunnelOpened()
        gateway.tunnels.enter(self)
        if let log = gateway.log { recordOpening(in: log) }
        return nil
    }

    // MARK: - Bytes

    /// Forwards bytes of the client.
    ///
    /// - Returns: How many were taken.
    func passOn(_ bytes: Span<UInt8>) -> Int {
        guard let carrier = call.carrier else { return bytes.count }
        let taken = carrier.write(prefixOf: bytes)
        gateway.tunnelMoved(taken, toService: true)
        carrier.send(isComplete: false)
        return taken
    }

    /// Forwards bytes of the service.
    ///
    /// - Returns: How many were taken.
    func passBack(_ bytes: Span<UInt8>) -> Int {
        let taken = sendContent(bytes)
        if request.isTunnel { gateway.tunnelMoved(taken, toService: false) }
        return taken
    }

    // MARK: - Ending

    /// Records the cause of the end; only the first counts.
    func noteTunnelEnd(_ end: TunnelEnd) {
        if request.tunnelEnd == nil { request.tunnelEnd = end }
    }

    func clientEndedTunnel() {
        noteTunnelEnd(.client)
        call.carrier?.finishSending()
    }

    func serviceEndedTunnel() {
        noteTunnelEnd(.service)
        _ = sendEnd()
    }

    /// Asks the registry whether the client may continue.
    func confirmStanding() {
        guard case .tunnel(waiting: nil) = request.stage, let enforcement = gateway.enforcement else { return }
        let lookup = lookUp(in: enforcement)
        if case .pending = lookup { return }
        judgeTunnel(by: lookup)
    }

    /// Judges the tunnel like a request of its route.
    func judgeTunnel(by lookup: DeviceLookup) {
        guard let enforcement = gateway.enforcement, let route = request.decision.route else { return }
        let judged = gateway.routes.routes[route]
        let standing = enforcement.standing(
            of: lookup, isSelfSigned: isSelfSigned, on: judged.requirement, admitting: judged.apps)
        guard case .refused(let refusal) = standing else { return }
        // It was opened although such a denial was against it.
        if request.decision.observed != nil, refusal.denial.isObservable(isSelfSigned: isSelfSigned) { return }
        denyTunnel(refusal)
    }

    /// Ends the tunnel of a client that a proxy has stated and that a later configuration does not admit. Other clients lose
    /// their connections.
    func endUnlessAdmitted() {
        guard let identity = client.identity, let objection = clients?.objection(to: identity) else { return }
        denyTunnel(Refusal(Denial(objection.kind), objection.reason))
    }

    func denyTunnel(_ refusal: Refusal) {
        request.refusal = refusal
        noteTunnelEnd(.denied)
        endTunnel()
    }

    /// Called when the connection to the client has gone.
    func tunnelAbandoned() {
        if connection.isBarred {
            noteTunnelEnd(.denied)
        } else {
            noteTunnelEnd(connection.isEnding ? .shutdown : .clientLost)
        }
        request.isAborted = request.tunnelEnd == .clientLost
    }

    /// Ends a tunnel, or a request for one. Called once.
    func leaveTunnel() {
        if request.isTunnel {
            // If the client closed in order, or was made to, the service receives an orderly end. If the client was
            // lost, the connection to the service is cut.
            if request.tunnelEnd != .clientLost { call.carrier?.finishSending() }
            gateway.tunnels.leave(self)
            gateway.tunnelEnded(request.tunnelEnd ?? .client)
        }
        if let place = request.tunnelPlace { gateway.give(place) }
    }
}

/// The tunnels of one generation: a tunnel has no next request that would be judged by later revocations.
final class OpenTunnels {
    private var tunnels: [ObjectIdentifier: ForwardingExchange] = [:]

    func enter(_ tunnel: ForwardingExchange) { tunnels[ObjectIdentifier(tunnel)] = tunnel }

    func leave(_ tunnel: ForwardingExchange) { tunnels[ObjectIdentifier(tunnel)] = nil }

    /// Checks all tunnels. Called once a second: a lookup in memory costs less than a microsecond.
    func confirm() {
        // A copy, because a tunnel that ends leaves.
        for tunnel in Array(tunnels.values) { tunnel.confirmStanding() }
    }

    /// Ends the tunnels whose clients a later configuration does not admit.
    func endUnadmitted() {
        for tunnel in Array(tunnels.values) { tunnel.endUnlessAdmitted() }
    }

    /// Checks the tunnels of these mTLS keys.
    func confirm(_ keys: [KeyID]) {
        guard !tunnels.isEmpty else { return }
        let meant = Set(keys)
        for tunnel in Array(tunnels.values) where tunnel.client.keyID.map(meant.contains) == true {
            tunnel.confirmStanding()
        }
    }
}
