/// Whether the process gives up access to every file that it does not need.
public enum Sandbox: String, CaseIterable, Sendable {
    case off
    /// As far as the kernel can; a log line says how far.
    case bestEffort = "best-effort"
    /// The process does not start if the kernel cannot.
    case required
}

/// What came of it.
enum Confinement: Equatable, Sendable {
    /// Nobody has asked for it.
    case none
    /// - version: of Landlock, as the kernel numbers it.
    case landlock(version: Int)
    /// By the process that this one takes over from, whose rules it cannot leave.
    case inherited
    /// - reason: for people.
    case unavailable(reason: String)

    var isInForce: Bool {
        switch self {
        case .landlock, .inherited: true
        case .none, .unavailable: false
        }
    }
}
