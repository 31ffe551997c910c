public import EventLoop

/// When a server that fails requests gets none for a while.
public struct EjectionRules: Sendable {
    /// Failures, one after the other, after which it is ejected.
    public var failures = 5
    /// For how long the first time; twice as long each time after.
    public var time = TimeSpan.seconds(10)
    /// For how long at most.
    public var longest = TimeSpan.seconds(300)
    /// Servers that are never ejected, whatever they do: somebody has to be asked.
    public var minimumServers = 1

    public init() {}
}
