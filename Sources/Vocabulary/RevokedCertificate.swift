/// An entry of a revocation list (RFC 5280 section 5.1.2.6).
public struct RevokedCertificate: Equatable, Sendable {
    public let serial: CertificateSerial
    /// Seconds since 1970-01-01T00:00:00Z.
    public let revokedAt: Int64
    public let reason: RevocationReason

    public init(serial: CertificateSerial, revokedAt: Int64, reason: RevocationReason) {
        self.serial = serial
        self.revokedAt = revokedAt
        self.reason = reason
    }
}

/// Why a certificate is revoked: those reasons of RFC 5280 section 5.3.1 that a registry knows.
public enum RevocationReason: String, CaseIterable, Sendable {
    /// Another key has taken the place of the certificate's.
    case superseded
    /// The key's binding to its device was ended.
    case cessationOfOperation
    /// The device is revoked. It may be restored, and no other reason can be taken back.
    case certificateHold
}
