internal import Bytes
internal import EventLoop
internal import HTTP
internal import Vocabulary

/// One worker's access log: a line for each request, handed to the writer with others, after a moment at the latest.
///
/// It says which route, not which path or query: patients' ids live there. Addresses are cut to their network. What says
/// more is written only where the operator asked for it.
package final class AccessLog {
    package struct Settings: Sendable {
        var isJSON = true
        var disclosed = DisclosedFields()
        /// Of the requests that were neither refused nor aborted, one in so many is written.
        var sample: UInt64 = 1
        /// Lines about the others in each second at most.
        var refusalsPerSecond = 1_000
        /// Requests have lines, not only what befalls connections and servers.
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

    /// One request, or one connection refused before any.
    struct Entry {
        var event: StaticString = "request"
        var trace = TraceContext.none
        /// As `client(_:)` writes it.
        var client = ConnectionPiece()
        /// What the handshake asked for, where that matters to a refusal.
        var serverName: [UInt8]?
        /// Index into the listeners.
        var listener: Int?
        /// The virtual host that served the request; nil for the listener's own.
        var host: [UInt8]?
        /// Index into the routes.
        var route: Int?
        var method: Method?
        /// The method is CONNECT, for a WebSocket.
        var isConnect = false
        /// Of requests.
        var version: HTTPVersion?
        var decision: Decision?
        var status: UInt16 = 0
        var denial: Denial?
        var detail: String?
        /// The device that the client's certificate is bound to.
        var device: DeviceLabel?
        /// Index into the upstreams.
        var upstream: Int?
        /// Index into its servers: the one that was asked last.
        var server: Int?
        var requestBytes: UInt64 = 0
        var responseBytes: UInt64 = 0
        var timings = RequestTimings()
        /// Of a tunnel that has ended.
        var tunnelEnd: TunnelEnd?
        /// The client went away before the response was complete.
        var isAborted = false
        var disclosed = Disclosure()
    }

    let settings: Settings
    private let writer: LogWriter
    private var lines: LogLines
    private var refusals: RefusalBudget
    private var timer: LoopTimer?
    private var isTimerRunning = false

    /// - Parameters:
    ///   - routes: their names in the order of the table. Of letters, digits and hyphens (configuration), so there is
    ///     nothing to escape.
    ///   - upstreams: the same, each with its servers: hosts and ports.
    ///   - listeners: their addresses.
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

    /// The client's network, for the entries of a connection.
    func client(_ address: SocketAddress) -> ConnectionPiece { lines.client(address) }

    func record(_ entry: Entry) {
        let isOrdinary = entry.denial == nil && !entry.isAborted
        // Ids of our own: no client chooses whether it is seen.
        if isOrdinary, entry.trace.request % settings.sample != 0 { return }
        let now = WallClock.microseconds
        reportSuppressed(now)
        if isOrdinary || refusals.admits(at: now / 1_000_000) { lines.append(entry, at: now) }
        startTimer()
    }

    /// Hands over the lines of the last moment. For a writer that is behind, this would only add one more waiting
    /// block, so the current block is filled further.
    func handOverInTime() {
        if !writer.isBehind { lines.handOver() }
    }

    /// Hands over everything for the last time, with a count of the suppressed lines.
    func finish() {
        reportSuppressed(.max)
        lines.handOver()
    }

    private func startTimer() {
        guard !isTimerRunning else { return }
        isTimerRunning = true
        timer?.start()
    }

    /// - Parameter now: in microseconds since 1970; after all times if the log ends.
    private func reportSuppressed(_ now: Int64) {
        guard refusals.owesCount, let count = refusals.takeSuppressed(at: now / 1_000_000) else { return }
        lines.note("suppressed", .lines, count)
    }
}
