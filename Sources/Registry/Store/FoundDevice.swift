internal import Vocabulary

/// A device as the store knows it, found by an mTLS key.
struct FoundDevice {
    let id: DeviceID
    let identity: DeviceIdentity
    let isRevoked: Bool
    /// Whether the binding by which it was found is active.
    let isBound: Bool
    let window: CounterWindow
    let shown: ShownExtensions
    var riskMetric: UInt32?
    var systemVersion: SystemVersion?
}
