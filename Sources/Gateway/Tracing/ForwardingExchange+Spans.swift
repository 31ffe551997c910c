internal import EventLoop
internal import HTTP
internal import Server

/// Spans of a request.
extension ForwardingExchange {
    func record(in spans: RequestSpans) {
        spans.record(
            RecordedRequest(
                trace: trace, server: gateway.nextSpanID(), verification: gateway.nextSpanID(),
                commit: gateway.nextSpanID(), now: WallClock.microseconds, instant: .now, began: began, phases: phases,
                timings: timings, route: route, method: head.method, isConnect: head.opensWebSocket, version: version,
                status: status,
                requestBytes: requestBytes, responseBytes: responseBytes, decision: decision,
                denial: refusal?.denial, listener: connection.listener, host: client.host,
                device: isDeviceKnown ? client.label?.label : nil,
                upstream: isUpstreamAsked ? route.map { gateway.routes.routes[$0].upstream } : nil,
                upstreamServer: isUpstreamAsked ? call.lastServer : nil, isRetried: isRetried, isAborted: isAborted))
    }
}
