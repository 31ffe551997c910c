public import Vocabulary

/// An mTLS key and the one device it was ever bound to.
public struct Binding: Equatable, Sendable {
    /// The key id of `keypair_mTLS`.
    public let key: KeyID
    public let device: DeviceID
    /// Seconds since 1970-01-01T00:00:00Z.
    public let createdAt: Int64
    /// Seconds since 1970-01-01T00:00:00Z; nil while the binding is active.
    public let endedAt: Int64?

    public var isActive: Bool { endedAt == nil }
}

/// A device and all its bindings, oldest first.
public struct DeviceDetails: Equatable, Sendable {
    public let device: Device
    public let bindings: [Binding]
}
