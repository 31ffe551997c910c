internal import Bytes
internal import EventLoop
internal import HTTP
internal import Registry
internal import Server

/// What is logged of a request.
extension ForwardingExchange {
    /// Which device the client's certificate is bound to, also where the route asks for none, and where it is refused.
    func noteDevice(of lookup: DeviceLookup, _ enforcement: Enforcement) {
        guard gateway.log != nil || trace.isRecorded || gateway.recent.wasAsked, case .found(let device) = lookup else {
            return
        }
        isDeviceKnown = true
        if client.label?.device != device.id { client.label = (device.id, enforcement.label(of: device)) }
    }

    /// Records the decision for operators who watch the gateway now.
    func noteDecision(in recent: RecentDecisions) {
        guard recent.wants(isOrdinary: !isRefused && !isAborted) else { return }
        let target = route.map { gateway.routes.routes[$0] }
        let upstream = isUpstreamAsked ? target.map { gateway.upstreams[$0.upstream].settings } : nil
        recent.add(
            RecentDecision(
                entry, at: WallClock.microseconds, from: connection.peer, route: target?.name,
                deviceNumber: isDeviceKnown ? client.label?.device.number : nil, upstream: upstream?.name,
                server: upstream.flatMap { upstream in call.lastServer.map { upstream.servers[$0].name } }))
    }

    func record(in log: AccessLog) {
        var entry = entry(in: log)
        entry.tunnelEnd = stage == .tunnel ? tunnelling.end : nil
        log.record(entry)
    }

    /// At once, for its request is logged when it has ended.
    func recordOpening(in log: AccessLog) {
        var entry = entry(in: log)
        entry.event = "tunnel_opened"
        log.record(entry)
    }

    /// What there is to say wherever it is said.
    private var entry: AccessLog.Entry {
        var entry = AccessLog.Entry(
            trace: trace, route: route, method: head.method,
            decision: decision, status: status, denial: refusal?.denial, detail: refusal?.detail,
            device: isDeviceKnown ? client.label?.label : nil, requestBytes: requestBytes, responseBytes: responseBytes,
            timings: timings, isAborted: isAborted)
        entry.isConnect = head.opensWebSocket
        entry.listener = connection.listener
        entry.host = client.host
        entry.version = version
        return entry
    }

    private func entry(in log: AccessLog) -> AccessLog.Entry {
        var entry = entry
        entry.client = client.piece
        if refusal?.denial == .misdirected { entry.serverName = connection.serverName?.bytes }
        if isUpstreamAsked, let route {
            entry.upstream = gateway.routes.routes[route].upstream
            entry.server = call.lastServer
        }
        if !log.settings.disclosed.isEmpty { entry.disclosed = disclosed ?? disclosure(log.settings.disclosed) }
        return entry
    }

    /// Keeps what the log says of the head, before the head is given back.
    func noteDisclosed() {
        guard disclosed == nil, let wanted = gateway.log?.settings.disclosed, !wanted.isEmpty else { return }
        disclosed = disclosure(wanted)
    }

    private func disclosure(_ wanted: DisclosedFields) -> Disclosure {
        var disclosure = Disclosure(wanted, of: connection.peer)
        disclosure.add(wanted, of: head, headBytes.readable)
        return disclosure
    }
}
