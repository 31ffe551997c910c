internal import EventLoop

/// How long each phase of a request took; nil where it had none. Phases do not overlap, and do not add up to the whole:
/// waiting for the client lies between them.
struct RequestTimings: Equatable {
    /// The TLS handshake, with the first request of its connection.
    var handshake: TimeSpan?
    /// Verifying the proof, whatever came of it. Time of the processor alone.
    var verification: TimeSpan?
    /// From the counter's acceptance in memory until its fate is known: durable, or refused.
    var commit: TimeSpan?
    /// From the first byte for the upstream until the head of its response, or until it failed.
    var upstream: TimeSpan?
    /// From the complete head until the last byte was handed to the kernel.
    var total: TimeSpan?
}

/// When phases began, for spans.
struct PhaseStarts {
    var verification = Instant(nanoseconds: 0)
    var commit = Instant(nanoseconds: 0)
    var upstream = Instant(nanoseconds: 0)
}

/// What became of a request.
enum Decision: Int, CaseIterable {
    /// It went to the upstream, whatever came of that.
    case forwarded
    /// Its head and some of its content went to the upstream, never all of it: the content was not, or not found to be,
    /// what the proof says.
    case partial
    /// It was refused, and nothing of it reached the upstream.
    case denied
    /// The gateway answered it itself.
    case answered

    /// In logs and metrics.
    var name: StaticString {
        switch self {
        case .forwarded: "forwarded"
        case .partial: "partial"
        case .denied: "denied"
        case .answered: "answered"
        }
    }
}
