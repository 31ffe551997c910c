internal import EventLoop

/// Clients that the administration refused before it looked at the request: counted by reason and logged at a limited
/// rate. Belongs to the server's loop.
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
            case .host: "the Host field is not a name of the listener"
            case .origin: "the request has an Origin field, so it comes from a web page"
            case .session: "the page's session has ended, or belongs to another listener"
            case .level: "the listener's level does not allow the request"
            case .handshake: "the TLS handshake failed"
            case .connections: "the limit of connections is reached"
            }
        }
    }

    private var counts: [Reason: UInt64] = [:]
    private let notice: (String) -> Void
    private let linesPerMinute: Int
    private var minute: Int64?
    private var lines = 0
    private var suppressed = 0

    /// - Parameter notice: receives which client was refused, and why.
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
        let more = suppressed == 0 ? "" : "; \(suppressed) others since the previous line"
        suppressed = 0
        notice("refused \(client) at \(door): \(reason.sentence)\(more)")
    }
}
