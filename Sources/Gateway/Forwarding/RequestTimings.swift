internal import EventLoop

/// The duration of each phase of a request; nil for a phase that did not occur. Phases do not overlap, and their sum
/// is less than the total: waits for the client lie between them.
struct RequestTimings: Equatable {
    /// The TLS handshake, with the first request of its connection.
    var handshake: TimeSpan?
    /// Verification of the proof with any outcome: CPU time only.
    var verification: TimeSpan?
    /// From the counter's acceptance in memory until the commit completed or failed.
    var commit: TimeSpan?
    /// From the first byte to the upstream until the head of its response, or its failure.
    var upstream: TimeSpan?
    /// From the first byte to the upstream until the end of its response.
    var upstreamEnd: TimeSpan?
    /// From the complete head until the kernel has taken the last byte.
    var total: TimeSpan?
}

/// The starts of phases, for spans.
struct PhaseStarts {
    var verification = Instant(nanoseconds: 0)
    var commit = Instant(nanoseconds: 0)
    var upstream = Instant(nanoseconds: 0)
}

/// The decision about a request.
enum Decision: Int, CaseIterable {
    /// It was sent to the upstream, with any outcome.
    case forwarded
    /// Its head and a part of its content were sent to the upstream, but never all: the content did not, or not yet,
    /// match the proof.
    case partial
    /// It was refused, and nothing of it reached the upstream.
    case denied
    /// The gateway answered it itself.
    case answered

    /// The name in logs and metrics.
    var name: StaticString {
        switch self {
        case .forwarded: "forwarded"
        case .partial: "partial"
        case .denied: "denied"
        case .answered: "answered"
        }
    }
}
