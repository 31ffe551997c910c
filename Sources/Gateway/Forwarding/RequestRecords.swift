internal import Bytes
internal import EventLoop
internal import HTTP
internal import Registry
internal import Server

/// The log entry of a request.
extension ForwardingExchange {
    /// Records the device of the client's certificate, also if the route requires none, or it is refused.
    func noteDevice(_ device: DeviceSnapshot) {
        guard let enforcement = gateway.enforcement,
            gateway.log != nil || request.trace.isRecorded || gateway.recent.wasAsked
        else { return }
        request.isDeviceKnown = true
        if client.label?.device != device.id { client.label = (device.id, enforcement.label(of: device)) }
    }

    /// Records the decision for operators who watch the gateway.
    func noteDecision(in recent: RecentDecisions) {
        guard recent.wants(isOrdinary: !request.isRefused && !request.isAborted) else { return }
        let target = request.decision.route.map { gateway.routes.routes[$0] }
        let upstream = request.isUpstreamAsked ? target.map { gateway.upstreams[$0.upstream].settings } : nil
        recent.add(
            RecentDecision(
                entry, at: WallClock.microseconds, from: origin.peer, route: target?.name,
                deviceNumber: request.isDeviceKnown ? client.label?.device.number : nil, upstream: upstream?.name,
                server: upstream.flatMap { upstream in call.lastServer.map { upstream.servers[$0].name } }))
    }

    func record(in log: AccessLog) {
        var entry = entry(in: log)
        entry.tunnelEnd = request.isTunnel ? request.tunnelEnd : nil
        log.record(entry)
    }

    /// Logs the opening of a tunnel, whose request is logged when it ends.
    func recordOpening(in log: AccessLog) {
        var entry = entry(in: log)
        entry.event = "tunnel_opened"
        log.record(entry)
    }

    /// The contents of all records.
    private var entry: AccessLog.Entry {
        var entry = AccessLog.Entry(
            trace: request.trace, route: request.decision.route, method: head.method,
            decision: request.outcome, status: status, denial: request.refusal?.denial, detail: request.refusal?.detail,
            device: request.isDeviceKnown ? client.label?.label : nil, requestBytes: requestBytes,
            responseBytes: responseBytes, timings: request.timings, isAborted: request.isAborted)
        if entry.timings.handshake != nil { entry.keyExchange = connection.keyExchange }
        if let observed = request.decision.observed {
            entry.wouldDeny = observed.denial
            if entry.detail == nil { entry.detail = observed.detail }
        }
        if let difference = request.decision.policies.difference, let judge = gateway.judge {
            let verdict = difference.violations.isEmpty ? "allow" : "deny"
            let codes = difference.violations.list.map { " \($0.row.code)" }.joined()
            entry.simulated = "\(judge.policies[difference.policy].name): \(verdict)\(codes)"
        }
        if request.refusal == nil, entry.detail == nil, let field = clients?.address, origin === own.origin {
            entry.detail = "the proxy states no client's address that can be read in \(field.label)"
        }
        entry.isConnect = head.opensWebSocket
        entry.listener = connection.listener
        entry.host = own.host
        entry.version = version
        return entry
    }

    private func entry(in log: AccessLog) -> AccessLog.Entry {
        var entry = entry
        entry.client = origin.piece
        if request.refusal?.denial == .misdirected { entry.serverName = connection.serverName?.bytes }
        if request.isUpstreamAsked, let route = request.decision.route {
            entry.upstream = gateway.routes.routes[route].upstream
            entry.server = call.lastServer
        }
        if !log.settings.disclosed.isEmpty { entry.disclosed = request.disclosed ?? disclosure(log.settings.disclosed) }
        return entry
    }

    /// Keeps what the log needs of the head, before the head is released.
    func noteDisclosed() {
        guard request.disclosed == nil, let wanted = gateway.log?.settings.disclosed, !wanted.isEmpty else { return }
        request.disclosed = disclosure(wanted)
    }

    private func disclosure(_ wanted: DisclosedFields) -> Disclosure {
        var disclosure = Disclosure(wanted, of: origin.peer)
        disclosure.add(wanted, of: head, headBytes.readable)
        return disclosure
    }
}

/// The spans of a request.
extension ForwardingExchange {
    func record(in spans: RequestSpans) {
        spans.record(
            RecordedRequest(
                trace: request.trace, server: gateway.nextSpanID(), verification: gateway.nextSpanID(),
                commit: gateway.nextSpanID(), now: WallClock.microseconds, instant: .now, began: began,
                phases: request.phases,
                timings: request.timings, route: request.decision.route, method: head.method,
                isConnect: head.opensWebSocket, version: version,
                status: status,
                requestBytes: requestBytes, responseBytes: responseBytes, decision: request.outcome,
                denial: request.refusal?.denial, listener: connection.listener, host: own.host,
                device: request.isDeviceKnown ? client.label?.label : nil,
                upstream: request.isUpstreamAsked
                    ? request.decision.route.map { gateway.routes.routes[$0].upstream } : nil,
                upstreamServer: request.isUpstreamAsked ? call.lastServer : nil, isRetried: request.isRetried,
                isAborted: request.isAborted))
    }
}
