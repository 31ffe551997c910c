public import Vocabulary

/// An mTLS key and the only device that it can ever be bound to.
public struct Binding: Equatable, Sendable {
    /// The key id of `keypair_mTLS`.
    public let key: KeyID
    public let device: DeviceID
    /// The time of the binding, in seconds since 1970-01-01T00:00:00Z.
    public let createdAt: Int64
    /// The end of the binding, in seconds since 1970-01-01T00:00:00Z. Nil while the binding is active.
    public let endedAt: Int64?
    /// The scheduled end, in seconds since 1970-01-01T00:00:00Z, which is set when another key replaces this one. Nil
    /// if no end is scheduled.
    public let endsAt: Int64?

    public var isActive: Bool { endedAt == nil }
}

/// A device with its bindings and the record of its attestation.
///
/// Bindings are sorted by creation time, then by key. A device that was registered without an attestation has no
/// record.
public struct DeviceDetails: Equatable, Sendable {
    public let device: Device
    public let bindings: [Binding]
    public let attestation: AttestationRecord?
    /// The state of the receipt refresh. Nil if the device was registered without a receipt.
    public internal(set) var refresh: ReceiptRefresh?
}

/// The kind of a barred key.
public enum BarredKeyKind: String, CaseIterable, Sendable {
    /// The hardware key of a device that was revoked.
    case hardware
    /// An mTLS key whose binding has ended.
    case mTLS = "mtls"
}

/// A page of revoked certificates, sorted by serial number.
public struct RevokedCertificatePage: Equatable, Sendable {
    public let certificates: [RevokedCertificate]
    /// The start of the next page. Nil after the last page.
    public let next: CertificateSerial?
}

/// A certificate with the facts that decide on its revocation. Times are in seconds since 1970-01-01T00:00:00Z.
struct CertificateRecord {
    let serial: CertificateSerial
    let notAfter: Int64
    let deviceRevokedAt: Int64?
    let bindingEndedAt: Int64?
    let bindingEndsAt: Int64?

    /// The time for which an expired certificate stays on revocation lists, in seconds. It is longer than the life of a
    /// list, because the certificate must be on a list that was made after its expiry (RFC 5280 section 3.3).
    static let listedAfterEnd: Int64 = 8 * 86_400

    /// Returns the entry of a revocation list.
    ///
    /// - Returns: nil for a certificate that is not revoked, or that expired too long ago to be listed.
    func revocation(at time: Int64) -> RevokedCertificate? {
        guard notAfter > time - Self.listedAfterEnd else { return nil }
        // Bindings end at their time even if no process runs that records it.
        let ended = bindingEndedAt ?? bindingEndsAt.flatMap { $0 <= time ? $0 : nil }
        // The end of a binding is final, but a revoked device can be restored.
        if let ended {
            return RevokedCertificate(
                serial: serial, revokedAt: min(ended, deviceRevokedAt ?? ended),
                reason: bindingEndsAt == nil ? .cessationOfOperation : .superseded)
        }
        return deviceRevokedAt.map { RevokedCertificate(serial: serial, revokedAt: $0, reason: .certificateHold) }
    }
}
