/// What is known while a run is under way.
public struct LoadProgress: Sendable {
    /// `priming`, `warmup`, `measuring`, `draining` or `holding`.
    public let phase: String
    /// Open at this moment.
    public let connections: Int
    /// Counted so far.
    public let requests: Int
    public let failed: Int
}
