public import Vocabulary

/// A verified attestation that is to become a device: pending, bound to no key yet.
public struct InstanceRegistration: Sendable {
    public let identity: DeviceIdentity
    public let attestation: AttestationRecord
    /// By the attestation.
    public let shown: ShownExtensions
    /// The nonce that the attestation was made for; spent if, and only if, this succeeds.
    public let nonce: SingleUse
    /// Of the nonce.
    public let epoch: RandomID

    public init(
        identity: DeviceIdentity, attestation: AttestationRecord, shown: ShownExtensions, nonce: SingleUse,
        epoch: RandomID
    ) {
        self.identity = identity
        self.attestation = attestation
        self.shown = shown
        self.nonce = nonce
        self.epoch = epoch
    }
}

public enum InitializationVerdict: Equatable, Sendable {
    case registered(DeviceDetails)
    /// The same attestation as before, of a device that is not bound yet: the first answer was lost. Nothing was written.
    case repeated(DeviceDetails)
    /// Nothing was written.
    case refused(InitializationRefusal)
}

public enum InitializationRefusal: Equatable, Sendable, CaseIterable {
    /// The nonce is of another epoch of the store.
    case epochChanged
    case nonceExpired
    /// In another initialization, or in a key binding.
    case nonceUsed
    /// The hardware key is a device's already, and this is not that device's own attestation once more.
    case keyRegistered
    /// It is that of a revoked device.
    case deviceRevoked
}
