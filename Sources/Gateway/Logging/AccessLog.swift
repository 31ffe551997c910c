internal import Bytes
internal import EventLoop
internal import HTTP
internal import Vocabulary

/// One worker's access log: a JSON object a line, collected in a block and handed to the writer when the block is full
/// or after a moment.
///
/// It says which route, not which path or query: patients' ids live there. Addresses are cut to their network.
final class AccessLog {
    /// One request, or one connection refused before any.
    struct Entry {
        var event: StaticString = "request"
        var trace = TraceID.none
        /// The client's network, as `ClientNetwork` writes it.
        var client: [UInt8] = []
        var route: String?
        var method: Method?
        var status: UInt16 = 0
        var denial: Denial?
        var detail: String?
        var requestBytes: UInt64 = 0
        var responseBytes: UInt64 = 0
        var duration: TimeSpan?
        /// The client went away before the response was complete.
        var isAborted = false
    }

    private let writer: LogWriter
    private var lines: ByteBuffer
    private var clock = ClockText()
    private var timer: LoopTimer?
    private var isTimerRunning = false

    init(loop: Loop, writer: LogWriter) {
        self.writer = writer
        lines = ByteBuffer(pool: BufferPool())
        timer = LoopTimer(loop: loop, interval: .milliseconds(100)) { [unowned self] in
            isTimerRunning = false
            handOver()
        }
    }

    func record(_ entry: Entry) {
        let now = WallClock.microseconds
        clock.update(to: now / 1_000_000)
        let before = lines.count
        Self.append(entry, now, clock.timestamp, to: &lines)
        if lines.overflowed {
            lines.rollback(to: before)
            handOver()
            Self.append(entry, now, clock.timestamp, to: &lines)
            // A line alone is far smaller than a block: its only unbounded text is cut in `append`.
            if lines.overflowed { lines.removeAll() }
        }
        if !isTimerRunning {
            isTimerRunning = true
            timer?.start()
        }
    }

    /// Hands everything to the writer.
    func handOver() {
        guard !lines.isEmpty else { return }
        writer.post(lines.copy())
        lines.removeAll()
        let lost = writer.takeDropped()
        guard lost > 0 else { return }
        lines.append("{\"event\":\"log_dropped\",\"blocks\":")
        lines.append(decimal: UInt64(lost))
        lines.append("}\n")
    }

    /// One access to the buffer for the whole line.
    private static func append(_ entry: Entry, _ now: Int64, _ timestamp: String, to lines: inout ByteBuffer) {
        lines.append("{\"time\":\"")
        lines.append(timestamp)
        lines.append(".")
        let milliseconds = UInt64(now / 1_000 % 1_000)
        if milliseconds < 100 { lines.append(milliseconds < 10 ? "00" : "0") }
        lines.append(decimal: milliseconds)
        lines.append("Z\",\"event\":\"")
        lines.append(entry.event)
        lines.append("\",\"client\":\"")
        lines.append(entry.client)
        lines.append("\"")
        if entry.trace != .none {
            lines.append(",\"trace_id\":\"")
            lines.append(hex: entry.trace.high, digits: 16)
            lines.append(hex: entry.trace.low, digits: 16)
            lines.append("\"")
        }
        if let route = entry.route {
            // Of letters, digits and hyphens (configuration), so there is nothing to escape.
            lines.append(",\"route\":\"")
            lines.append(route)
            lines.append("\"")
        }
        if let method = entry.method {
            lines.append(",\"method\":\"")
            lines.append(method.name)
            lines.append("\"")
        }
        if entry.status != 0 {
            lines.append(",\"status\":")
            lines.append(decimal: UInt64(entry.status))
        }
        appendDenial(entry, to: &lines)
        if let duration = entry.duration {
            lines.append(",\"request_bytes\":")
            lines.append(decimal: entry.requestBytes)
            lines.append(",\"response_bytes\":")
            lines.append(decimal: entry.responseBytes)
            lines.append(",\"duration_us\":")
            lines.append(decimal: UInt64(max(0, duration.nanoseconds / 1_000)))
        }
        if entry.isAborted { lines.append(",\"aborted\":true") }
        lines.append("}\n")
    }

    private static func appendDenial(_ entry: Entry, to lines: inout ByteBuffer) {
        if let denial = entry.denial {
            lines.append(",\"denial\":\"")
            lines.append(denial.row.code)
            lines.append("\",\"fault\":\"")
            lines.append(denial.row.fault.rawValue)
            lines.append("\"")
        }
        if let detail = entry.detail {
            lines.append(",\"detail\":")
            lines.appendJSON(String(detail.prefix(512)))
        }
    }
}
