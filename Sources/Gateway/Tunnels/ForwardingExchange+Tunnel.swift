internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Policy
internal import Registry
internal import Server
internal import Upstream
internal import Vocabulary

/// A request that asks for a WebSocket, and the tunnel that it becomes.
///
/// It is decided as any other request. The tunnel opens when the service has answered with a valid 101, never on the client's
/// word: what the client sends before waits unread, and is never taken for a request.
extension ForwardingExchange {
    // MARK: - Opening

    /// Reads the handshake, where the route lets WebSockets through. - Returns: false if the request is denied.
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

    /// Nothing that the client has sent behind the request may be taken for another one. On a stream nothing could be.
    var isUpgradeAsked: Bool { tunnelling.isAsked && version != .http2 }

    /// Takes a place for the WebSocket that the request asks for. - Returns: false if there is none, and the request is denied.
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

    /// The service has switched protocols. - Returns: nil if the request is a tunnel now; what is wrong otherwise.
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
        // An open tunnel does not keep its head.
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
        // All of it has been sent: what makes room from now on makes it for the tunnel.
        content = nil
        gateway.upstreamAnswered(route)
        gateway.tunnelOpened()
        gateway.enforcement?.tunnels.enter(self)
        if let log = gateway.log { recordOpening(in: log) }
        return nil
    }

    // MARK: - Bytes

    /// - Returns: how much of what the client has sent was taken.
    func passOn(_ bytes: Span<UInt8>) -> Int {
        guard let carrier = call.carrier else { return bytes.count }
        let taken = carrier.write(prefixOf: bytes)
        gateway.tunnelMoved(taken, toService: true)
        carrier.send(isComplete: false)
        return taken
    }

    /// - Returns: how much of what the service has sent was taken.
    func passBack(_ bytes: Span<UInt8>) -> Int {
        let taken = sendContent(bytes)
        if stage == .tunnel { gateway.tunnelMoved(taken, toService: false) }
        return taken
    }

    // MARK: - Ending

    /// The first cause counts: what follows from it says no more.
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

    /// Asks the registry whether the client may go on.
    func confirmStanding() {
        guard stage == .tunnel, waiting == nil, let enforcement = gateway.enforcement else { return }
        let lookup = lookUp(in: enforcement)
        if case .pending = lookup { return }
        judgeTunnel(by: lookup)
    }

    /// As every request of the route would be judged.
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

    /// The connection to the client is gone.
    func tunnelAbandoned() {
        if connection.isBarred {
            noteTunnelEnd(.denied)
        } else {
            noteTunnelEnd(connection.isEnding ? .shutdown : .clientLost)
        }
        isAborted = tunnelling.end == .clientLost
    }

    /// To be said once, when a tunnel, or a request for one, has ended.
    func leaveTunnel() {
        if stage == .tunnel {
            // A service whose client closed in order, or was made to, receives an orderly end; if the client is lost,
            // the service sees the connection break.
            if tunnelling.end != .clientLost { call.carrier?.finishSending() }
            gateway.enforcement?.tunnels.leave(self)
            gateway.tunnelEnded(tunnelling.end ?? .client)
        }
        if let place = tunnelling.place { gateway.give(place) }
    }
}

/// What an exchange knows of a WebSocket that its request asks for.
struct Tunnelling {
    /// The request asks for one, well-formed or not, on a route where it may.
    var isAsked = false
    /// Of a well-formed handshake.
    var key: WebSocketKey?
    /// That the certificate is bound to, whatever the route demands.
    var device: DeviceID?
    /// Its place among the limited number of tunnels.
    var place: TunnelPlace?
    var end: TunnelEnd?
}
