public import Vocabulary

/// A request to register a device from a verified attestation. The device becomes pending, without a binding.
public struct InstanceRegistration: Sendable {
    public let identity: DeviceIdentity
    public let attestation: AttestationRecord
    /// The app extensions that the attestation shows.
    public let shown: ShownExtensions
    /// The nonce of the attestation. It is spent only if the registration succeeds.
    public let nonce: SingleUse
    /// The epoch of the nonce.
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

    /// Returns the result for a hardware key that is registered already.
    ///
    /// A phone cannot attest its key twice, so a client that lost the response repeats the same attestation.
    ///
    /// - Parameter known: The device of the hardware key.
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
    /// The same attestation as before, for a device without a binding, because the first response was lost. Nothing was
    /// written.
    case repeated(DeviceDetails)
    /// Nothing was written.
    case refused(InitializationRefusal)
}

public enum InitializationRefusal: Equatable, Sendable, CaseIterable {
    /// The nonce belongs to another epoch of the store.
    case epochChanged
    case nonceExpired
    /// The nonce was used in another initialization or in a key binding.
    case nonceUsed
    /// A device with the hardware key exists, and this is not a repetition of its attestation.
    case keyRegistered
    /// The device of the hardware key is revoked.
    case deviceRevoked
}

/// The stored properties of the attestation that a device was registered with. `DeviceIdentity` has its app, platform
/// and environment.
public struct AttestationRecord: Equatable, Sendable {
    /// The SHA-256 of the attestation object.
    public let digest: Fingerprint
    /// The mTLS key that the attestation names. The first binding must use this key. Nil if the attestation names none.
    public let certificateKey: KeyID?
    /// The newest receipt: that of the attestation, or its latest replacement. At most 16 KiB.
    public let receipt: [UInt8]?
    /// The risk metric of the receipt. Nil if the receipt has none.
    public let riskMetric: UInt32?
    /// The system version in the attestation. Nil if the attestation has none. It never changes.
    public let systemVersion: SystemVersion?

    /// The maximum size of a receipt in bytes. A receipt is part of an attestation, which has the same limit.
    public static let receiptLimit = 16 * 1024

    /// Creates a record.
    ///
    /// - Returns: nil if the receipt exceeds `receiptLimit`.
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

/// A verified value that can be used once before it expires: an enrolment nonce or an admission token.
public struct SingleUse: Hashable, Sendable {
    /// The fingerprint of the unique part of the value.
    public let id: Fingerprint
    /// The expiry, in seconds since 1970-01-01T00:00:00Z. From then on the value is refused, used or not.
    public let expiresAt: Int64

    public init(id: Fingerprint, expiresAt: Int64) {
        self.id = id
        self.expiresAt = expiresAt
    }

    /// The maximum remaining lifetime of an admission token when it is presented, in seconds. Every used token expires
    /// within this time.
    public static let longestTokenLife: Int64 = 3_600
}
