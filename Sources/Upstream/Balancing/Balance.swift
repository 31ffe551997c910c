/// By what rule a request's server is chosen.
public enum Balance: Sendable {
    /// Each in turn.
    case roundRobin
    /// The one with the fewest requests under way.
    case leastConnections
    /// The same one for the same device, for as long as it can be used.
    case device
}
