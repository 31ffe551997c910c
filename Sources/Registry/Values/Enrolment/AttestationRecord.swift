public import Vocabulary

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
