internal import Encoding
internal import EventLoop
internal import HTTP
internal import Telemetry
package import Vocabulary

/// One worker's latest decisions, for operators who watch the gateway. They contain all refusals and aborted
/// requests, and a sample of the others, which is taken only while an operator asks. Used on the worker's thread
/// only.
///
/// The number is bounded: when the ring is full, new decisions replace the oldest, and the loss is counted. A
/// forwarded request costs one comparison.
package final class RecentDecisions {
    /// The decisions since the last question.
    package struct Batch: Sendable {
        package let decisions: [RecentDecision]
        /// Decisions that were replaced before they were fetched.
        package let leftOut: UInt64
    }

    private var ring: [RecentDecision] = []
    /// The index of the oldest, once the ring is full.
    private var oldest = 0
    private var leftOut: UInt64 = 0
    /// How many more ordinary decisions are kept until the next question: none before the first.
    private var ordinaryRoom = 0
    /// Whether an operator has asked. From then on devices have names, even if nothing logs them.
    package var wasAsked: Bool { isAsked }
    private var isAsked = false
    private let limit: Int

    /// Far more than a page shows in the half second between two questions.
    package static let limit = 256
    /// The maximum of ordinary decisions between two questions.
    static let sample = 24

    package init(limit: Int = RecentDecisions.limit) { self.limit = limit }

    /// Returns whether a decision is kept.
    ///
    /// - Parameter isOrdinary: Whether the request was neither refused nor aborted.
    func wants(isOrdinary: Bool) -> Bool { !isOrdinary || ordinaryRoom > 0 }

    func add(_ decision: RecentDecision) {
        if decision.denial == nil, !decision.isAborted { ordinaryRoom = max(0, ordinaryRoom - 1) }
        guard ring.count == limit else { return ring.append(decision) }
        ring[oldest] = decision
        oldest = (oldest + 1) % limit
        leftOut += 1
    }

    /// Returns the decisions since the last question, oldest first.
    package func take() -> Batch {
        isAsked = true
        ordinaryRoom = Self.sample
        defer {
            ring.removeAll(keepingCapacity: true)
            oldest = 0
            leftOut = 0
        }
        return Batch(decisions: Array(ring[oldest...] + ring[..<oldest]), leftOut: leftOut)
    }
}

/// The decision about one request, or about a connection that was refused before any, as the administration's page
/// shows it.
///
/// It has the default contents of the access log: the route and not the path, the client's network, the device by a
/// keyed id. It also has the device's number in the registry, which is meaningless without the registry.
package struct RecentDecision: Sendable {
    /// In microseconds since 1970.
    package let time: Int64
    /// `request` or `connection_refused`.
    package let event: StaticString
    private let trace: TraceID
    private let peer: SocketAddress
    /// The route's name; nil if none matches.
    package let route: String?
    private let method: Method?
    private let isConnect: Bool
    private let version: HTTPVersion?
    private let decision: Decision?
    /// 0 if nothing was answered.
    package let status: UInt16
    package let denial: Denial?
    /// The denial against a request that its route only observed.
    package let wouldDeny: Denial?
    /// Text for operators; it may contain what a client sent.
    package let detail: String?
    private let label: DeviceLabel?
    /// The device's number in the registry.
    package let deviceNumber: Int64?
    package let upstream: String?
    package let server: String?
    private let total: TimeSpan?
    /// Whether the client left before the response was complete.
    package let isAborted: Bool

    /// Makes a decision of a log entry.
    ///
    /// - Parameters:
    ///   - entry: The contents of the access log.
    ///   - peer: The client's address.
    ///   - route, upstream, server: The names for the entry's indices.
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
        wouldDeny = entry.wouldDeny
        detail = entry.detail
        label = entry.device
        self.deviceNumber = deviceNumber
        self.upstream = upstream
        self.server = server
        total = entry.timings.total
        isAborted = entry.isAborted
    }
}

/// The texts, which are made where they are shown and not on the worker's thread.
extension RecentDecision {
    /// The client's network, /24 or /48.
    package var client: String { String(decoding: ClientNetwork.text(of: peer), as: UTF8.self) }
    package var methodName: String? { isConnect ? "CONNECT" : method.map { String(describing: $0.name) } }
    package var protocolName: String? { version.map { String(describing: $0.name) } }
    package var decisionName: String? { decision.map { String(describing: $0.name) } }
    /// 32 hexadecimal digits; nil if there was no request.
    package var traceID: String? {
        trace == .none ? nil : Hexadecimal.encode(trace.high, digits: 16) + Hexadecimal.encode(trace.low, digits: 16)
    }
    /// 16 hexadecimal digits, as in the access log.
    package var device: String? { label.map { Hexadecimal.encode($0.id, digits: 16) } }
    package var app: String? { label?.app.map { String(decoding: $0, as: UTF8.self) } }
    package var durationMicroseconds: Int64? { total.map { max(0, $0.nanoseconds / 1_000) } }
}
