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
    /// When it ends by itself, or did, for another key has taken its place. Seconds since 1970-01-01T00:00:00Z; nil if
    /// nothing ends it.
    public let endsAt: Int64?

    public var isActive: Bool { endedAt == nil }
}

/// A device, all its bindings, oldest first and those of one second by their keys, and what is kept of its attestation, if it came with one.
public struct DeviceDetails: Equatable, Sendable {
    public let device: Device
    public let bindings: [Binding]
    public let attestation: AttestationRecord?
    /// Nil if it came with no receipt.
    public internal(set) var refresh: ReceiptRefresh?
}
