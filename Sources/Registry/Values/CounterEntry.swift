public import Vocabulary

/// One counter value to be made durable, and under which conditions.
public struct CounterEntry: Sendable {
    public let device: DeviceID
    /// The mTLS key the request came with; its binding to the device must be active.
    public let binding: KeyID
    public let counter: UInt32
    /// The epoch of the challenge the proof was made for.
    public let epoch: RandomID
    /// By the assertion that carries the counter.
    public let shown: ShownExtensions
    let mode: CounterMode

    public init(
        device: DeviceID, binding: KeyID, counter: UInt32, epoch: RandomID, shown: ShownExtensions, mode: CounterMode
    ) {
        self.device = device
        self.binding = binding
        self.counter = counter
        self.epoch = epoch
        self.shown = shown
        self.mode = mode
    }
}

/// What became of a counter value.
public enum CounterOutcome: Equatable, Sendable {
    /// Spent durably. The only outcome that lets a request through.
    case committed
    case replayed
    /// Behind what is kept of the values below the highest, which may be another gateway's.
    case late(highest: UInt32)
    case deviceRevoked
    /// The binding has ended.
    case bindingEnded
    /// The key has shown an extension that the assertion lacks.
    case extensionWithheld
    /// There is no such device, or the key is bound to another one.
    case unknown
    /// The proof was made for another epoch of the store.
    case epochChanged
    /// Whether it was written is unknown, or it was not. The value stays spent all the same.
    case storeUnavailable
}
