internal import EventLoop

/// Who was turned away from the administration before anything of the request was looked at: counted by reason, and told to
/// the log, but for a flood. Belongs to the server's loop.
public final class AdministrationRefusals {
    /// What was missing or wrong. The raw value is the metric's label.
    public enum Reason: String, CaseIterable, Sendable {
        case token
        /// A web page says its own name.
        case host
        /// Only web pages say one; and this one is not the administration's own.
        case origin
        /// The page's, for it is over or another listener's.
        case session
        /// Who may come in asks for more than the listener is for.
        case level
        /// The TLS handshake: no certificate, or one that is refused, or no TLS at all.
        case handshake
        /// As many connections as there may be.
        case connections

        var sentence: StaticString {
            switch self {
            case .token: "the token is missing or wrong"
            case .host: "the Host field is no name of the listener"
            case .origin: "the request has an Origin field, as those of web pages do"
            case .session: "the page's session is over, or not of this listener"
            case .level: "what was asked for is beyond the listener's level"
            case .handshake: "the TLS handshake failed"
            case .connections: "there are as many connections as there may be"
            }
        }
    }

    private var counts: [Reason: UInt64] = [:]
    private let notice: (String) -> Void
    private let linesPerMinute: Int
    private var minute: Int64?
    private var lines = 0
    private var suppressed = 0

    /// - Parameter notice: told of who was turned away, and why.
    init(linesPerMinute: Int = 30, notice: @escaping (String) -> Void) {
        self.linesPerMinute = linesPerMinute
        self.notice = notice
    }

    /// How many since the server began.
    public func count(of reason: Reason) -> UInt64 { counts[reason] ?? 0 }

    /// - Parameters:
    ///   - client: its address without the port, or its user.
    ///   - door: where it came.
    func add(_ reason: Reason, _ client: String, at door: String, _ now: Instant) {
        counts[reason, default: 0] += 1
        let minute = now.nanoseconds / 60_000_000_000
        if minute != self.minute {
            self.minute = minute
            lines = 0
        }
        guard lines < linesPerMinute else {
            suppressed += 1
            return
        }
        lines += 1
        let more = suppressed == 0 ? "" : "; \(suppressed) others since the line before"
        suppressed = 0
        notice("refused \(client) at \(door): \(reason.sentence)\(more)")
    }
}
