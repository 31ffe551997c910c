/// How much of the registry is kept in memory, and how much may wait for the store.
public struct RegistryLimits: Sendable {
    /// Devices whose records are in memory, at about 600 bytes each: the workers' and the writer's.
    public var devices = 65_536
    /// Counters that may wait for the store. Further ones are refused at once, unspent.
    public var waitingCounters = 4_096
    /// Lookups that may wait for the store. Further ones are refused at once.
    public var waitingLookups = 16_384

    public init() {}

    /// Commands that may wait; operators and enrolment send few.
    public static let waitingCommands = 256
    /// How many may wait when a further one of enrolment is refused: strangers can keep enrolment busy, and an operator's
    /// revocation must have a place then.
    public static let enrolmentCommands = 192
}
