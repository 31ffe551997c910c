/// How much of the administration an endpoint is, and how much of it those get who come by a listener.
public enum AdministrationLevel: String, Comparable, CaseIterable, Sendable {
    /// Metrics and health: what a scraper asks for. Nothing of a device or of a request stands in them.
    case metrics
    /// All that only looks, the page among it; but no export, which is the whole registry.
    case view
    /// Everything.
    case admin

    public static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .metrics: 0
        case .view: 1
        case .admin: 2
        }
    }
}
