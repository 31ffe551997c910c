internal import Bytes
internal import Encoding
internal import EventLoop
internal import HTTP
internal import TLS
internal import Telemetry

/// The lines of one worker's access log, collected in blocks for the writer. Waking its thread costs more than a line, so
/// it is woken once for some hundred.
struct LogLines: ~Copyable {
    private let writer: LogWriter
    private let form: LogForm
    /// The members whose values repeat: methods, decisions, routes, upstreams, servers and listeners, in this order.
    private var pieces = LogPieces()
    private let firstDecision: Int
    private let firstRoute: Int
    private let firstUpstream: Int
    /// The index of each upstream's first server.
    private let firstServers: [Int]
    private let firstListener: Int
    /// The present line.
    private var line = ByteBuffer(pool: BufferPool())
    /// The complete lines.
    private var block: [UInt8] = []
    /// The beginning of all lines of `second`.
    private var opening: [UInt8] = []
    private var second: Int64 = -1

    init(
        writer: LogWriter, isJSON: Bool, routes: [String], upstreams: [(name: String, servers: [String])],
        listeners: [String]
    ) {
        self.writer = writer
        form = LogForm(isJSON: isJSON)
        firstDecision = Method.allCases.count
        firstRoute = firstDecision + Decision.allCases.count
        firstUpstream = firstRoute + routes.count
        var next = firstUpstream + upstreams.count
        firstServers = upstreams.map { upstream in
            defer { next += upstream.servers.count }
            return next
        }
        firstListener = next
        for method in Method.allCases { pieces.add(form.piece(.method, method.name.description)) }
        for decision in Decision.allCases { pieces.add(form.piece(.decision, decision.name.description)) }
        for route in routes { pieces.add(form.piece(.route, route)) }
        for upstream in upstreams { pieces.add(form.piece(.upstream, upstream.name)) }
        for server in upstreams.flatMap(\.servers) { pieces.add(form.piece(.server, server)) }
        for listener in listeners { pieces.add(form.piece(.listener, listener)) }
        block.reserveCapacity(LogWriter.blockRoom)
    }

    var isEmpty: Bool { block.isEmpty }

    func client(_ address: SocketAddress) -> ConnectionPiece {
        ConnectionPiece(form.piece(.client, String(decoding: ClientNetwork.text(of: address), as: UTF8.self)))
    }

    /// Hands the lines to the writer, with the count of dropped blocks if it has changed.
    mutating func handOver() {
        guard !block.isEmpty else { return }
        if writer.takesNews() { note("log_dropped", .blocks, UInt64(writer.droppedInAll)) }
        writer.exchange(&block)
    }

    // MARK: - Lines

    /// Appends a line.
    ///
    /// - Parameter now: Microseconds since 1970.
    mutating func append(_ entry: AccessLog.Entry, at now: Int64) {
        begin(entry.event, now)
        appendMembers(of: entry)
        end()
        if block.count >= LogWriter.blockSize { handOver() }
    }

    /// Appends a line about the log itself.
    mutating func note(_ event: StaticString, _ member: LogForm.Member, _ count: UInt64) {
        begin(event, WallClock.microseconds)
        form.number(member, count, to: &line)
        end()
    }

    private mutating func begin(_ event: StaticString, _ now: Int64) {
        if now / 1_000_000 != second {
            second = now / 1_000_000
            opening = form.opening(CalendarTime(seconds: second))
        }
        form.begin(opening, milliseconds: UInt64(now / 1_000 % 1_000), event, to: &line)
    }

    private mutating func end() {
        form.end(&line)
        if line.overflowed {
            // `LogForm` cuts all text from outside, so this does not happen. Half a line would be worse than none.
            writer.lost()
        } else {
            line.copy(to: &block)
        }
        line.rollback(to: 0)
    }

    private mutating func appendMembers(of entry: AccessLog.Entry) {
        entry.client.append(to: &line)
        if let address = entry.disclosed.clientAddress { form.word(.clientAddress, address, to: &line) }
        if let listener = entry.listener { pieces.append(firstListener + listener, to: &line) }
        if let host = entry.host { form.word(.host, host, to: &line) }
        // At most 253 letters, digits, hyphens and dots: TLS accepts no other name.
        if let name = entry.serverName { form.word(.serverName, name, to: &line) }
        if entry.trace != .none {
            form.identifier(.requestId, entry.trace.request, to: &line)
            form.identifier(.traceId, entry.trace.id, to: &line)
        }
        if let route = entry.route { pieces.append(firstRoute + route, to: &line) }
        if let method = entry.method { pieces.append(Int(method.rawValue), to: &line) }
        if entry.isConnect { form.word(.method, "CONNECT", to: &line) }
        if let version = entry.version { form.word(.protocol, version.name, to: &line) }
        appendDisclosed(entry.disclosed)
        if let decision = entry.decision { pieces.append(firstDecision + decision.rawValue, to: &line) }
        if entry.status != 0 { form.number(.status, UInt64(entry.status), to: &line) }
        if let denial = entry.denial {
            form.word(.denial, denial.row.code, to: &line)
            form.word(.fault, Array(denial.row.fault.rawValue.utf8), to: &line)
        }
        if let denial = entry.wouldDeny { form.word(.wouldDeny, denial.row.code, to: &line) }
        if let simulated = entry.simulated { form.text(.simulated, simulated, to: &line) }
        if let detail = entry.detail { form.text(.detail, detail, to: &line) }
        if let device = entry.device {
            form.identifier(.device, device.id, to: &line)
            if let app = device.app { form.word(.app, app, to: &line) }
        }
        if let upstream = entry.upstream {
            pieces.append(firstUpstream + upstream, to: &line)
            if let server = entry.server { pieces.append(firstServers[upstream] + server, to: &line) }
        }
        if entry.timings.total != nil {
            form.number(.requestBytes, entry.requestBytes, to: &line)
            form.number(.responseBytes, entry.responseBytes, to: &line)
        }
        form.duration(.handshakeUs, entry.timings.handshake, to: &line)
        if let group = entry.keyExchange { form.word(.keyExchange, group.name, to: &line) }
        form.duration(.verificationUs, entry.timings.verification, to: &line)
        form.duration(.commitUs, entry.timings.commit, to: &line)
        form.duration(.upstreamUs, entry.timings.upstream, to: &line)
        form.duration(.durationUs, entry.timings.total, to: &line)
        if let end = entry.tunnelEnd { form.word(.tunnelEnd, end.name, to: &line) }
        if entry.isAborted { form.flag(.aborted, to: &line) }
    }

    private mutating func appendDisclosed(_ disclosed: Disclosure) {
        if let host = disclosed.requestedHost { form.text(.requestedHost, host, to: &line) }
        if let path = disclosed.path { form.text(.path, path, to: &line) }
        if let query = disclosed.query { form.text(.query, query, to: &line) }
        if let agent = disclosed.userAgent { form.text(.userAgent, agent, to: &line) }
    }
}

extension HTTPVersion {
    /// The name by RFC 9110 section 2.5 and RFC 9113.
    var name: StaticString {
        switch self {
        case .http10: "HTTP/1.0"
        case .http11: "HTTP/1.1"
        case .http2: "HTTP/2"
        }
    }
}
