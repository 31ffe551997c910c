internal import Bytes
internal import EventLoop
internal import HTTP
internal import Vocabulary

/// One worker's access log: a line for each request, collected in a block and handed to the writer when the block is full
/// or after a moment.
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

        init() {}

        package init(isJSON: Bool, disclosed: DisclosedFields, sample: UInt64, refusalsPerSecond: Int) {
            self.isJSON = isJSON
            self.disclosed = disclosed
            self.sample = sample
            self.refusalsPerSecond = refusalsPerSecond
        }
    }

    /// One request, or one connection refused before any.
    struct Entry {
        var event: StaticString = "request"
        var trace = TraceContext.none
        /// As `client(_:)` writes it.
        var client: [UInt8] = []
        /// Index into the routes.
        var route: Int?
        var method: Method?
        var decision: Decision?
        var status: UInt16 = 0
        var denial: Denial?
        var detail: String?
        /// The device that the client's certificate is bound to.
        var device: DeviceLabel?
        /// Index into the upstreams.
        var upstream: Int?
        var requestBytes: UInt64 = 0
        var responseBytes: UInt64 = 0
        var timings = RequestTimings()
        /// The client went away before the response was complete.
        var isAborted = false
        var disclosed = Disclosure()
    }

    let settings: Settings
    private let form: LogForm
    // Members with the words that come again and again.
    private let routes: [[UInt8]]
    private let upstreams: [[UInt8]]
    private let methods: [[UInt8]]
    private let decisions: [[UInt8]]
    private let writer: LogWriter
    private var lines: ByteBuffer
    private var clock = ClockText()
    private var refusals: RefusalBudget
    private var timer: LoopTimer?
    private var isTimerRunning = false

    /// - Parameters:
    ///   - routes: their names in the order of the table. Of letters, digits and hyphens (configuration), so there is
    ///     nothing to escape.
    ///   - upstreams: the same.
    init(loop: Loop, writer: LogWriter, settings: Settings, routes: [String], upstreams: [String]) {
        self.writer = writer
        self.settings = settings
        let form = LogForm(isJSON: settings.isJSON)
        self.form = form
        self.routes = routes.map { form.piece(.route, $0) }
        self.upstreams = upstreams.map { form.piece(.upstream, $0) }
        methods = Method.allCases.map { form.piece(.method, $0.name.description) }
        decisions = Decision.allCases.map { form.piece(.decision, $0.name.description) }
        refusals = RefusalBudget(limit: settings.refusalsPerSecond)
        lines = ByteBuffer(pool: BufferPool())
        timer = LoopTimer(loop: loop, interval: .milliseconds(100)) { [unowned self] in
            isTimerRunning = false
            reportSuppressed(WallClock.microseconds)
            handOver()
            if refusals.owesCount { startTimer() }
        }
    }

    /// The client's network, for the entries of a connection.
    func client(_ address: SocketAddress) -> [UInt8] {
        form.piece(.client, String(decoding: ClientNetwork.text(of: address), as: UTF8.self))
    }

    func record(_ entry: Entry) {
        let isOrdinary = entry.denial == nil && !entry.isAborted
        // Ids of our own: no client chooses whether it is seen.
        if isOrdinary, entry.trace.request % settings.sample != 0 { return }
        let now = WallClock.microseconds
        reportSuppressed(now)
        if isOrdinary || refusals.admits(at: now / 1_000_000) { write(entry, now) }
        startTimer()
    }

    /// Hands everything to the writer, and what was lost before with it.
    func handOver() {
        guard !lines.isEmpty else { return }
        if writer.takesNews() { note("log_dropped", .blocks, UInt64(writer.droppedInAll), WallClock.microseconds) }
        writer.post(lines.copy())
        lines.removeAll()
    }

    /// The same for the last time: what was suppressed is told now.
    func finish() {
        reportSuppressed(.max)
        handOver()
    }

    private func startTimer() {
        guard !isTimerRunning else { return }
        isTimerRunning = true
        timer?.start()
    }

    /// - Parameter now: in microseconds since 1970; after all times if the log ends.
    private func reportSuppressed(_ now: Int64) {
        guard refusals.owesCount, let count = refusals.takeSuppressed(at: now / 1_000_000) else { return }
        note("suppressed", .lines, count, WallClock.microseconds)
    }

    // MARK: - Lines

    /// A line about the log itself.
    private func note(_ event: StaticString, _ member: LogForm.Member, _ count: UInt64, _ now: Int64) {
        write(now, event) { line in form.number(member, count, to: &line) }
    }

    private func write(_ entry: Entry, _ now: Int64) {
        write(now, entry.event) { line in append(entry, to: &line) }
    }

    private func write(_ now: Int64, _ event: StaticString, _ members: (inout ByteBuffer) -> Void) {
        clock.update(to: now / 1_000_000)
        let form = form
        let milliseconds = UInt64(now / 1_000 % 1_000)
        for _ in 0..<2 {
            let before = lines.count
            form.begin(clock.timestamp, milliseconds: milliseconds, event, to: &lines)
            members(&lines)
            form.end(&lines)
            guard lines.overflowed else { return }
            lines.rollback(to: before)
            handOver()
        }
        // A line alone is smaller than a block: all text from outside is cut in `LogForm`.
        lines.removeAll()
    }

    private func append(_ entry: Entry, to line: inout ByteBuffer) {
        // Once for the line: its arrays would be retained for each member.
        let form = form
        line.append(entry.client)
        if let address = entry.disclosed.clientAddress { form.word(.clientAddress, address, to: &line) }
        if entry.trace != .none {
            form.identifier(.requestId, entry.trace.request, to: &line)
            form.identifier(.traceId, entry.trace.id, to: &line)
        }
        if let route = entry.route { line.append(routes[route]) }
        if let method = entry.method { line.append(methods[Int(method.rawValue)]) }
        appendDisclosed(entry.disclosed, to: &line)
        if let decision = entry.decision { line.append(decisions[decision.rawValue]) }
        if entry.status != 0 { form.number(.status, UInt64(entry.status), to: &line) }
        if let denial = entry.denial {
            form.word(.denial, denial.row.code, to: &line)
            form.word(.fault, Array(denial.row.fault.rawValue.utf8), to: &line)
        }
        if let detail = entry.detail { form.text(.detail, detail, to: &line) }
        if let device = entry.device {
            form.identifier(.device, device.id, to: &line)
            if let app = device.app { form.word(.app, app, to: &line) }
        }
        if let upstream = entry.upstream { line.append(upstreams[upstream]) }
        if entry.timings.total != nil {
            form.number(.requestBytes, entry.requestBytes, to: &line)
            form.number(.responseBytes, entry.responseBytes, to: &line)
        }
        form.duration(.handshakeUs, entry.timings.handshake, to: &line)
        form.duration(.verificationUs, entry.timings.verification, to: &line)
        form.duration(.commitUs, entry.timings.commit, to: &line)
        form.duration(.upstreamUs, entry.timings.upstream, to: &line)
        form.duration(.durationUs, entry.timings.total, to: &line)
        if entry.isAborted { form.flag(.aborted, to: &line) }
    }

    private func appendDisclosed(_ disclosed: Disclosure, to line: inout ByteBuffer) {
        if let path = disclosed.path { form.text(.path, path, to: &line) }
        if let query = disclosed.query { form.text(.query, query, to: &line) }
        if let agent = disclosed.userAgent { form.text(.userAgent, agent, to: &line) }
    }
}
