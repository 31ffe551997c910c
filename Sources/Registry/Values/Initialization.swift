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

    /// The phone cannot attest its key a second time, so a lost answer must be had by the same attestation.
    ///
    /// - Parameter known: the device of its hardware key.
    func repetition(by known: DeviceDetails) -> InitializationVerdict {
        guard known.device.state != .revoked else { return .refused(.deviceRevoked) }
        guard known.bindings.isEmpty, known.device.identity == identity,
            known.attestation?.digest == attestation.digest
        else { return .refused(.keyRegistered) }
        return .repeated(known)
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

/// What is kept of the attestation a device was registered with. App, platform and environment are in its identity.
public struct AttestationRecord: Equatable, Sendable {
    /// SHA-256 of the attestation object, byte for byte.
    public let digest: Fingerprint
    /// The mTLS key that the attestation vouched for together with the hardware key; the first binding must be of this
    /// one. nil where the attestation names none.
    public let certificateKey: KeyID?
    /// The newest there is: the attestation's own, or one that it was exchanged for; at most 16 KiB.
    public let receipt: [UInt8]?
    /// What that receipt says about the phone, if it says anything.
    public let riskMetric: UInt32?
    /// The system version that the attestation states; nil if it states none. Never changes.
    public let systemVersion: SystemVersion?

    /// The bytes a receipt has at most: no more than an attestation, which carries it.
    public static let receiptLimit = 16 * 1024

    /// - Returns: nil if the receipt is larger than any that is genuine.
    public init?(
        digest: Fingerprint, certificateKey: KeyID? = nil, receipt: [UInt8]? = nil, riskMetric: UInt32? = nil,
        systemVersion: SystemVersion? = nil
    ) {
        if let receipt, receipt.count > Self.receiptLimit { return nil }
        self.digest = digest
        self.certificateKey = certificateKey
        self.receipt = receipt
        self.riskMetric = riskMetric
        self.systemVersion = systemVersion
    }
}

/// Something that may be used once while it is good: an enrolment nonce, an admission token. Whether it is genuine the
/// caller has found out before.
public struct SingleUse: Hashable, Sendable {
    /// Of what makes it unique.
    public let id: Fingerprint
    /// Seconds since 1970-01-01T00:00:00Z; from then on it is refused, used or not.
    public let expiresAt: Int64

    public init(id: Fingerprint, expiresAt: Int64) {
        self.id = id
        self.expiresAt = expiresAt
    }

    /// How far ahead an admission token may expire when it is shown, in seconds: whatever was used once expires within that.
    public static let longestTokenLife: Int64 = 3_600
}
