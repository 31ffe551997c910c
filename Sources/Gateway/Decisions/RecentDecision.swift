internal import EventLoop
internal import HTTP
package import Vocabulary

/// What became of one request, or of a connection that was refused before any: what the administration's page shows of it.
///
/// It tells what the access log tells unasked, and no more: the route and never the path, the client's network, the device by a
/// keyed id; and the device's number in the registry, which leads to nobody who has not the registry.
package struct RecentDecision: Sendable {
    /// In microseconds since 1970.
    package let time: Int64
    /// `request`, or `connection_refused`.
    package let event: StaticString
    private let trace: TraceID
    private let peer: SocketAddress
    /// The route's name; nil if none fits.
    package let route: String?
    private let method: Method?
    private let isConnect: Bool
    private let version: HTTPVersion?
    private let decision: Decision?
    /// 0 if nothing was answered.
    package let status: UInt16
    package let denial: Denial?
    /// For people; may hold what a client chose.
    package let detail: String?
    private let label: DeviceLabel?
    /// In the registry.
    package let deviceNumber: Int64?
    package let upstream: String?
    package let server: String?
    private let total: TimeSpan?
    /// The client went away before the response was complete.
    package let isAborted: Bool

    /// - Parameters:
    ///   - entry: what the access log would say.
    ///   - peer: where it came from.
    ///   - route, upstream, server: the names behind the entry's indices.
    init(
        _ entry: AccessLog.Entry, at time: Int64, from peer: SocketAddress, route: String? = nil,
        deviceNumber: Int64? = nil, upstream: String? = nil, server: String? = nil
    ) {
        self.time = time
        event = entry.event
        trace = entry.trace.id
        self.peer = peer
        self.route = route
        method = entry.method
        isConnect = entry.isConnect
        version = entry.version
        decision = entry.decision
        status = entry.status
        denial = entry.denial
        detail = entry.detail
        label = entry.device
        self.deviceNumber = deviceNumber
        self.upstream = upstream
        self.server = server
        total = entry.timings.total
        isAborted = entry.isAborted
    }
}

/// As text, which is made where it is shown: not on the worker's thread.
extension RecentDecision {
    /// The client's network, /24 or /48.
    package var client: String { String(decoding: ClientNetwork.text(of: peer), as: UTF8.self) }
    package var methodName: String? { isConnect ? "CONNECT" : method.map { String(describing: $0.name) } }
    package var protocolName: String? { version.map { String(describing: $0.name) } }
    package var decisionName: String? { decision.map { String(describing: $0.name) } }
    /// 32 hexadecimal digits; nil if there was no request.
    package var traceID: String? {
        trace == .none ? nil : Hexadecimal.encode(trace.high) + Hexadecimal.encode(trace.low)
    }
    /// 16 hexadecimal digits, as in the access log.
    package var device: String? { label.map { Hexadecimal.encode($0.id) } }
    package var app: String? { label?.app.map { String(decoding: $0, as: UTF8.self) } }
    package var durationMicroseconds: Int64? { total.map { max(0, $0.nanoseconds / 1_000) } }
}

extension Hexadecimal {
    /// 16 digits.
    fileprivate static func encode(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
