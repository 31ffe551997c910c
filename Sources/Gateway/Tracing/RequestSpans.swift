internal import Bytes
internal import EventLoop
internal import HTTP
internal import Telemetry
package import TelemetryExport
internal import Vocabulary

/// The spans of one worker's requests: a server span for each recorded request, and one for each of its phases.
///
/// They have the default contents of the access log, with the names of OpenTelemetry's semantic conventions where
/// these exist: never a path or query, which `url.path` would be, or a client's address. `http.route` is the route's
/// name.
final class RequestSpans {
    private let queue: SpanQueue
    private let routes: LogPieces
    private let upstreams: LogPieces
    /// Hosts and ports of servers, in the order of the upstreams.
    private let servers: LogPieces
    private let firstServers: [Int]
    private let ports: [UInt64]
    private let listeners: LogPieces

    init(
        _ queue: SpanQueue, routes: [String], upstreams: [(name: String, servers: [String])], listeners: [String]
    ) {
        self.queue = queue
        self.routes = Self.pieces(routes)
        self.upstreams = Self.pieces(upstreams.map(\.name))
        self.listeners = Self.pieces(listeners)
        var first: [Int] = []
        var next = 0
        for upstream in upstreams {
            first.append(next)
            next += upstream.servers.count
        }
        firstServers = first
        let all = upstreams.flatMap(\.servers)
        // A server is a host and a port; the brackets of IPv6 belong to URLs.
        servers = Self.pieces(
            all.map { $0[..<($0.lastIndex(of: ":") ?? $0.endIndex)].filter { $0 != "[" && $0 != "]" } })
        ports = all.map { UInt64($0[($0.lastIndex(of: ":") ?? $0.startIndex)...].dropFirst()) ?? 0 }
    }

    private static func pieces(_ names: [String]) -> LogPieces {
        var pieces = LogPieces()
        for name in names { pieces.add(name) }
        return pieces
    }

    func record(_ request: RecordedRequest) {
        queue.record(at: request.now / 1_000_000) { text in
            serverSpan(request, &text)
            let timings = request.timings
            phase(
                request, "verify proof", request.verification, request.phases.verification, timings.verification, &text)
            phase(request, "commit counter", request.commit, request.phases.commit, timings.commit, &text)
            upstreamSpan(request, &text)
        }
    }

    /// Hands over the remaining spans.
    func finish() { queue.handOver() }

    // MARK: - The request

    private func serverSpan(_ request: RecordedRequest, _ text: inout SpanText) {
        let identity = request.identity(
            request.server, parent: request.trace.parent, isParentRemote: true, .server, from: request.began,
            for: request.timings.total)
        // By the conventions, an error of the client is not an error of the server.
        text.span(identity, name: { name(request, &$0) }, isFailed: request.status >= 500) { text in
            text.attribute("http.request.method", request.methodName ?? "_OTHER")
            if request.status != 0 { text.attribute("http.response.status_code", number: UInt64(request.status)) }
            if let route = request.route { text.attribute("http.route") { routes.append(route, to: &$0) } }
            text.attribute("url.scheme", "https")
            text.attribute("network.protocol.name", "http")
            text.attribute("network.protocol.version", request.version.number)
            text.attribute("http.request.body.size", number: request.requestBytes)
            text.attribute("http.response.body.size", number: request.responseBytes)
            if let host = request.host { text.attribute("server.address", text: host) }
            if let denial = request.denial {
                text.attribute("error.type", denial.row.code)
                text.attribute("attestgate.denial", denial.row.code)
                text.attribute("attestgate.fault", text: Array(denial.row.fault.rawValue.utf8))
            } else if request.isAborted {
                text.attribute("error.type", "aborted")
            } else if request.status >= 500 {
                text.attribute("error.type") { $0.append(decimal: UInt64(request.status)) }
            }
            if let decision = request.decision { text.attribute("attestgate.decision", decision.name) }
            text.attribute("attestgate.request_id") { $0.append(hex: request.trace.request, digits: 16) }
            text.attribute("attestgate.listener") { listeners.append(request.listener, to: &$0) }
            if let device = request.device {
                text.attribute("attestgate.device") { $0.append(hex: device.id, digits: 16) }
                if let app = device.app { text.attribute("attestgate.app", text: app) }
            }
            if let upstream = request.upstream {
                text.attribute("attestgate.upstream") { upstreams.append(upstream, to: &$0) }
            }
        }
    }

    /// Appends "{method} {http.route}", or the method alone. An unknown method has the name of the conventions.
    private func name(_ request: RecordedRequest, _ output: inout ByteBuffer) {
        output.append(request.methodName ?? "HTTP")
        guard let route = request.route else { return }
        output.append(" ")
        routes.append(route, to: &output)
    }

    // MARK: - Phases

    private func phase(
        _ request: RecordedRequest, _ name: StaticString, _ id: UInt64, _ began: Instant, _ time: TimeSpan?,
        _ text: inout SpanText
    ) {
        guard let time else { return }
        let identity = request.identity(
            id, parent: request.server, isParentRemote: false, .internal, from: began, for: time)
        text.span(identity, name: { $0.append(name) }) { _ in }
    }

    /// Writes the upstream's span, whose id the service gets as its parent.
    private func upstreamSpan(_ request: RecordedRequest, _ text: inout SpanText) {
        guard let time = request.timings.upstream, let upstream = request.upstream else { return }
        let identity = request.identity(
            request.trace.request, parent: request.server, isParentRemote: false, .client,
            from: request.phases.upstream,
            for: time)
        text.span(identity, name: { name(request, &$0) }, isFailed: request.upstreamFailed) { text in
            text.attribute("http.request.method", request.methodName ?? "_OTHER")
            text.attribute("attestgate.upstream") { upstreams.append(upstream, to: &$0) }
            if let server = request.upstreamServer {
                let place = firstServers[upstream] + server
                text.attribute("server.address") { servers.append(place, to: &$0) }
                text.attribute("server.port", number: ports[place])
            }
            if request.upstreamFailed {
                if let denial = request.denial { text.attribute("error.type", denial.row.code) }
            } else if request.status != 0 {
                text.attribute("http.response.status_code", number: UInt64(request.status))
                if request.status >= 400 {
                    text.attribute("error.type") { $0.append(decimal: UInt64(request.status)) }
                }
            }
            if request.isRetried { text.attribute("http.request.resend_count", number: 1) }
        }
    }
}

/// A completed request with what its spans need.
struct RecordedRequest {
    let trace: TraceContext
    /// Ids of its spans, except the upstream's, which is the request's own.
    let server: UInt64
    let verification: UInt64
    let commit: UInt64
    /// Microseconds since 1970, and the same time on the clock of the phases.
    let now: Int64
    let instant: Instant
    let began: Instant
    let phases: PhaseStarts
    let timings: RequestTimings
    let route: Int?
    let method: Method?
    /// Whether the method is CONNECT, for a WebSocket.
    let isConnect: Bool
    let version: HTTPVersion
    let status: UInt16
    let requestBytes: UInt64
    let responseBytes: UInt64
    let decision: Decision?
    let denial: Denial?
    let listener: Int
    /// The virtual host that served it.
    let host: [UInt8]?
    let device: DeviceLabel?
    let upstream: Int?
    let upstreamServer: Int?
    let isRetried: Bool
    let isAborted: Bool

    /// Nil if no route could admit the method.
    var methodName: StaticString? { isConnect ? "CONNECT" : method?.name }

    /// Whether the upstream did not answer: the gateway has written the response.
    var upstreamFailed: Bool { denial != nil }

    func identity(
        _ id: UInt64, parent: UInt64, isParentRemote: Bool, _ kind: SpanText.Kind, from began: Instant,
        for time: TimeSpan?
    ) -> SpanText.Identity {
        let start = now * 1_000 - (instant - began).nanoseconds
        let end = start + max(0, time?.nanoseconds ?? 0)
        return SpanText.Identity(
            trace: (trace.id.high, trace.id.low), id: id, parent: parent, isParentRemote: isParentRemote && parent != 0,
            flags: trace.flags, kind: kind, start: UInt64(max(0, start)), end: UInt64(max(0, end)))
    }
}

extension HTTPVersion {
    /// The version by the conventions.
    fileprivate var number: StaticString {
        switch self {
        case .http10: "1.0"
        case .http11: "1.1"
        case .http2: "2"
        }
    }
}

/// Which requests have spans, and how many spans a worker holds.
package struct TracingSettings: Equatable, Sendable {
    /// One in so many of the traces that begin here.
    let sample: UInt64
    let limits: SpanQueue.Limits

    package init(sample: UInt64, limits: SpanQueue.Limits) {
        self.sample = sample
        self.limits = limits
    }
}
