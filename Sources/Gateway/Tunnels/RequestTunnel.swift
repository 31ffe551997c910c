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

    /// Reads the handshake, where the route permits WebSockets.
    ///
    /// - Returns: False if the request is denied.
    func readHandshake() -> Bool {
        let handshake = WebSocketHandshake(head, headBytes.readable)
        guard handshake != .none else { return true }
        tunnelling.isAsked = true
        switch handshake {
        case .none: return true
        case .malformed(let fault): deny(.requestMalformed, String(describing: fault.reason))
        case .versionUnsupported: deny(.webSocketVersion)
        case .valid(let key):
            tunnelling.key = .sent(key)
            return true
        case .validByConnect:
            tunnelling.key = .made(WebSocketKey.random())
            return true
        }
        return false
    }

    /// Whether what the client has sent after the request must not be read as another one. On a stream it cannot be.
    var isUpgradeAsked: Bool { tunnelling.isAsked && version != .http2 }

    /// Takes a place for the WebSocket.
    ///
    /// - Returns: False if there is none, and the request is denied.
    func takeTunnelPlace() -> Bool {
        guard let route else { return true }
        let place = TunnelPlace(
            holder: tunnelling.device.map { .device($0) } ?? .certificate(connection.identity?.keyID),
            upstream: gateway.routes.routes[route].upstream)
        if let refusal = gateway.take(place) {
            deny(refusal)
            return false
        }
        tunnelling.place = place
        return true
    }

    /// Opens the tunnel after the service has switched protocols.
    ///
    /// - Returns: The failure; nil if the request is a tunnel now.
    func switched(_ response: ResponseHead, _ bytes: Span<UInt8>) -> UpstreamFailure? {
        guard let key = tunnelling.key, !isAnswered else { return .unexpectedUpgrade }
        let accept: [UInt8]
        do throws(CryptographyError) {
            accept = try gateway.webSocketAccept(for: key, in: headBytes.readable)
        } catch {
            return .upgradeInvalid(.acceptWrong)
        }
        if let fault = WebSocketAnswerFault(response, bytes, accept: accept.span) { return .upgradeInvalid(fault) }
        timings.upstream = connection.loop.now - phaseBegan
        phases.upstream = phaseBegan
        // An open tunnel releases its head.
        noteDisclosed()
        let isOpen = openTunnel { output in
            if version != .http2 {
                output.appendField("Upgrade", "websocket")
                output.appendField("Connection", "Upgrade")
            }
            appendFields(of: response, bytes, to: &output)
        }
        guard isOpen else { return .malformed(.headTooLarge) }
        stage = .tunnel
        // It was sent completely: room from now on is for the tunnel.
        content = nil
        gateway.upstreamAnswered(route)
        gateway.tunnelOpened()
        gateway.enforcement?.tunnels.enter(self)
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
        if stage == .tunnel { gateway.tunnelMoved(taken, toService: false) }
        return taken
    }

    // MARK: - Ending

    /// Records the cause of the end; only the first counts.
    func noteTunnelEnd(_ end: TunnelEnd) {
        if tunnelling.end == nil { tunnelling.end = end }
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
        guard stage == .tunnel, waiting == nil, let enforcement = gateway.enforcement else { return }
        let lookup = lookUp(in: enforcement)
        if case .pending = lookup { return }
        judgeTunnel(by: lookup)
    }

    /// Judges the tunnel like a request of its route.
    func judgeTunnel(by lookup: DeviceLookup) {
        guard let enforcement = gateway.enforcement, let route else { return }
        let judged = gateway.routes.routes[route]
        let standing = enforcement.standing(
            of: lookup, isSelfSigned: isSelfSigned, on: judged.requirement, admitting: judged.apps)
        if case .refused(let refusal) = standing { denyTunnel(refusal) }
    }

    func denyTunnel(_ refusal: Refusal) {
        self.refusal = refusal
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
        isAborted = tunnelling.end == .clientLost
    }

    /// Ends a tunnel, or a request for one. Called once.
    func leaveTunnel() {
        if stage == .tunnel {
            // If the client closed in order, or was made to, the service receives an orderly end. If the client was
            // lost, the connection to the service is cut.
            if tunnelling.end != .clientLost { call.carrier?.finishSending() }
            gateway.enforcement?.tunnels.leave(self)
            gateway.tunnelEnded(tunnelling.end ?? .client)
        }
        if let place = tunnelling.place { gateway.give(place) }
    }
}

/// The tunnels of one generation whose clients the registry is asked about: a tunnel has no next request that would
/// be judged by later revocations.
final class OpenTunnels {
    private var tunnels: [ObjectIdentifier: ForwardingExchange] = [:]

    func enter(_ tunnel: ForwardingExchange) { tunnels[ObjectIdentifier(tunnel)] = tunnel }

    func leave(_ tunnel: ForwardingExchange) { tunnels[ObjectIdentifier(tunnel)] = nil }

    /// Checks all tunnels. Called once a second: a lookup in memory costs less than a microsecond.
    func confirm() {
        // A copy, because a tunnel that ends leaves.
        for tunnel in Array(tunnels.values) { tunnel.confirmStanding() }
    }

    /// Checks the tunnels of these mTLS keys.
    func confirm(_ keys: [KeyID]) {
        guard !tunnels.isEmpty else { return }
        let meant = Set(keys)
        for tunnel in Array(tunnels.values) where tunnel.connection.identity?.keyID.map(meant.contains) == true {
            tunnel.confirmStanding()
        }
    }
}
