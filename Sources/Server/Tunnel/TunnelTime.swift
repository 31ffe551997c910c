internal import EventLoop

/// What a tunnel ends by, though nobody has ended it.
public enum TunnelLimit: Sendable {
    /// For too long, nothing has moved either way.
    case idle
    /// It has lasted for as long as one may.
    case life
    /// The client's certificate has ended.
    case certificate
}

/// The time limits of a tunnel. A value: the session reports to it what happens.
struct TunnelTime {
    private let idle: TimeSpan
    private let lifeEnd: Instant
    private let certificateEnd: Instant
    private var idleEnd: Instant
    /// One side has ended: by then the other has, or is taken to have.
    private var closeEnd: Instant?

    /// - Parameter certificateEnd: nil for a client without a certificate.
    init(idle: TimeSpan, life: TimeSpan, certificateEnd: Instant?, now: Instant) {
        self.idle = idle
        lifeEnd = now + life
        idleEnd = now + idle
        self.certificateEnd = certificateEnd ?? Instant(nanoseconds: .max)
    }

    /// When something is to be done, unless something moves before.
    var end: Instant { min(min(closeEnd ?? idleEnd, lifeEnd), certificateEnd) }

    /// Bytes have gone on, either way.
    mutating func moved(now: Instant) { idleEnd = now + idle }

    /// One side has ended: what moves gains no more time.
    mutating func closes(within span: TimeSpan, now: Instant) {
        if closeEnd == nil { closeEnd = now + span }
    }

    enum Verdict: Equatable {
        case goesOn
        /// What one side had begun is over.
        case closed
        case expired(TunnelLimit)
    }

    func verdict(at now: Instant) -> Verdict {
        if now >= certificateEnd { return .expired(.certificate) }
        if let closeEnd { return now >= closeEnd ? .closed : now >= lifeEnd ? .expired(.life) : .goesOn }
        if now >= lifeEnd { return .expired(.life) }
        return now >= idleEnd ? .expired(.idle) : .goesOn
    }
}
