/// What a worker thinks of a server now.
public enum ServerCondition: Int, CaseIterable, Sendable {
    case usable
    /// Back from an ejection, and nothing has succeeded yet: one request at a time.
    case onProbation
    /// It has failed too many requests, and gets none for a while.
    case ejected
    /// Its checks fail.
    case unhealthy
    /// No address of it is known.
    case unresolved

    /// In metrics and status.
    public var name: String {
        switch self {
        case .usable: "usable"
        case .onProbation: "probation"
        case .ejected: "ejected"
        case .unhealthy: "unhealthy"
        case .unresolved: "unresolved"
        }
    }
}
