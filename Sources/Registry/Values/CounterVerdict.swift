/// What a counter record says to one value.
public enum CounterVerdict: Equatable, Sendable {
    case accepted
    /// The value was spent before.
    case replayed
    /// Further behind than the mode allows, and not known to be spent.
    case late
}
