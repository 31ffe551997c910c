internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS
internal import Telemetry
internal import Vocabulary

/// The access log of one worker: a line for each request. Lines go to the writer in blocks, after 100 ms at the latest.
///
/// A line has the route, but neither path nor query, which may contain ids of patients. Addresses are cut to their
/// network. More is written only if the conf file asks for it.
package final class AccessLog {
    package struct Settings: Sendable {
        var isJSON = true
        var disclosed = DisclosedFields()
        /// One in this number of the requests that were neither refused nor aborted is written.
        var sample: UInt64 = 1
        /// Limit of lines about the others per second.
        var refusalsPerSecond = 1_000
        /// Whether requests have lines. If not, only events of connections and servers have.
        var hasRequests = true

        init() {}

        package init(
            isJSON: Bool, disclosed: DisclosedFields, sample: UInt64, refusalsPerSecond: Int, hasRequests: Bool
        ) {
            self.isJSON = isJSON
            self.disclosed = disclosed
            self.sample = sample
            self.refusalsPerSecond = refusalsPerSecond
            self.hasRequests = hasRequests
        }
    }

    /// A request, or an event of a connection or server.
    struct Entry {
        var event: StaticString = "request"
        var trace = TraceContext.none
        /// The result of `client(_:)`.
        var client = ConnectionPiece()
        /// The server name of the handshake, if it matters to a refusal.
        var serverName: [UInt8]?
        /// The index of the listener.
        var listener: Int?
        /// The virtual host that served the request. Nil for the listener's own.
        var host: [UInt8]?
        /// The index of the route.
        var route: Int?
        var method: Method?
        /// Whether the method is CONNECT, for a WebSocket.
        var isConnect = false
        /// Nil if there was no request.
        var version: HTTPVersion?
        var decision: Decision?
        var status: UInt16 = 0
        var denial: Denial?
        /// The denial against a request that its route only observed.
        var wouldDeny: Denial?
        /// A simulated policy, and what it would have decided otherwise.
        var simulated: String?
        var detail: String?
        /// The device to which the client's certificate is bound.
        var device: DeviceLabel?
        /// The index of the upstream.
        var upstream: Int?
        /// The index of its server that was asked last.
        var server: Int?
        var requestBytes: UInt64 = 0
        var responseBytes: UInt64 = 0
        var timings = RequestTimings()
        /// The group of the handshake's key exchange, with its duration.
        var keyExchange: KeyExchange?
        /// The reason for the end of a tunnel.
        var tunnelEnd: TunnelEnd?
        /// Whether the client disconnected before the response was complete.
        var isAborted = false
        var disclosed = Disclosure()
    }

    let settings: Settings
    private let writer: LogWriter
    private var lines: LogLines
    private var refusals: RefusalBudget
    private var timer: LoopTimer?
    private var isTimerRunning = false

    /// Creates a log.
    ///
    /// - Parameters:
    ///   - routes: The names of the routes in the order of the table. The configuration limits names to letters, digits
    ///     and hyphens, so nothing is escaped.
    ///   - upstreams: The names of the upstreams, each with hosts and ports of its servers.
    ///   - listeners: The addresses of the listeners.
    init(
        loop: Loop, writer: LogWriter, settings: Settings, routes: [String],
        upstreams: [(name: String, servers: [String])], listeners: [String]
    ) {
        self.writer = writer
        self.settings = settings
        lines = LogLines(
            writer: writer, isJSON: settings.isJSON, routes: routes, upstreams: upstreams, listeners: listeners)
        refusals = RefusalBudget(limit: settings.refusalsPerSecond)
        timer = LoopTimer(loop: loop, interval: .milliseconds(100)) { [unowned self] in
            isTimerRunning = false
            reportSuppressed(WallClock.microseconds)
            handOverInTime()
            if refusals.owesCount || !lines.isEmpty { startTimer() }
        }
    }

    /// Returns the client's network for the entries of a connection.
    func client(_ address: SocketAddress) -> ConnectionPiece { lines.client(address) }

    func record(_ entry: Entry) {
        let isOrdinary = entry.denial == nil && !entry.isAborted
        // The gateway's own ids decide, so no client can.
        if isOrdinary, entry.trace.request % settings.sample != 0 { return }
        let now = WallClock.microseconds
        reportSuppressed(now)
        if isOrdinary || refusals.admits(at: now / 1_000_000) { lines.append(entry, at: now) }
        startTimer()
    }

    /// Hands over the lines collected so far. If the writer is behind, the present block is filled further instead.
    func handOverInTime() {
        if !writer.isBehind { lines.handOver() }
    }

    /// Hands over all lines at the end, with the count of suppressed lines.
    func finish() {
        reportSuppressed(.max)
        lines.handOver()
    }

    private func startTimer() {
        guard !isTimerRunning else { return }
        isTimerRunning = true
        timer?.start()
    }

    /// Writes the count of suppressed lines when their second is over.
    ///
    /// - Parameter now: Microseconds since 1970. The greatest value if the log ends.
    private func reportSuppressed(_ now: Int64) {
        guard refusals.owesCount, let count = refusals.takeSuppressed(at: now / 1_000_000) else { return }
        lines.note("suppressed", .lines, count)
    }
}

/// The members of a line that may identify a patient. They are logged only if the conf file lists them in `log.fields`.
package struct DisclosedFields: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    package static let path = DisclosedFields(rawValue: 1)
    package static let query = DisclosedFields(rawValue: 2)
    package static let clientAddress = DisclosedFields(rawValue: 4)
    package static let userAgent = DisclosedFields(rawValue: 8)
    package static let requestedHost = DisclosedFields(rawValue: 16)
}

/// The values of these members of one request. They are copies, because they are rarely enabled.
struct Disclosure {
    var path: [UInt8]?
    var query: [UInt8]?
    var clientAddress: [UInt8]?
    var userAgent: [UInt8]?
    var requestedHost: [UInt8]?

    init() {}

    init(_ fields: DisclosedFields, of peer: SocketAddress) {
        if fields.contains(.clientAddress) { clientAddress = Array(peer.host.utf8) }
    }

    /// Adds values of a head.
    ///
    /// - Parameter bytes: The bytes of the head. If they are empty, no head was complete, and nothing is added.
    mutating func add(_ fields: DisclosedFields, of head: RequestHead, _ bytes: Span<UInt8>) {
        guard !bytes.isEmpty else { return }
        if fields.contains(.requestedHost) { requestedHost = Self.copy(head.host.of(bytes)) }
        if fields.contains(.path) { path = Self.copy(head.path.of(bytes)) }
        if fields.contains(.query), let range = head.query { query = Self.copy(range.of(bytes)) }
        if fields.contains(.userAgent), let field = head.fields.first(where: { $0.name == .userAgent }) {
            userAgent = Self.copy(field.valueRange.of(bytes))
        }
    }

    private static func copy(_ bytes: Span<UInt8>) -> [UInt8] {
        bytes.indices.map { bytes[$0] }
    }
}

/// The name of a device in logs.
struct DeviceLabel: Equatable {
    /// The first eight bytes of an HMAC of its key id, under a key for logs alone.
    let id: UInt64
    /// The id of its app. Nil if the app is no longer configured.
    let app: [UInt8]?
}

/// The limit of lines about refusals in one second, so that a flood does not fill the disk. The others are counted.
package struct RefusalBudget {
    private let limit: Int
    private var second: Int64 = 0
    private var used = 0
    private var suppressed: UInt64 = 0

    /// - Parameter limit: Lines per second.
    package init(limit: Int) {
        self.limit = limit
    }

    /// Returns whether one more line may be written.
    ///
    /// - Parameter now: Seconds of any clock.
    package mutating func admits(at now: Int64) -> Bool {
        if now != second {
            second = now
            used = 0
        }
        guard used < limit else {
            suppressed += 1
            return false
        }
        used += 1
        return true
    }

    /// Whether lines were suppressed and not yet reported.
    var owesCount: Bool { suppressed > 0 }

    /// Returns the number of lines suppressed since the last call. Nil if there are none or their second is not over.
    package mutating func takeSuppressed(at now: Int64) -> UInt64? {
        guard suppressed > 0, now != second else { return nil }
        defer { suppressed = 0 }
        return suppressed
    }
}
