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

/// As what a key is barred.
public enum BarredKeyKind: String, CaseIterable, Sendable {
    /// The hardware key of a device that was revoked.
    case hardware
    /// An mTLS key whose binding has ended.
    case mTLS = "mtls"
}

/// Some of the certificates that are revoked, in the order of their serial numbers.
public struct RevokedCertificatePage: Equatable, Sendable {
    public let certificates: [RevokedCertificate]
    /// Where the next page begins; nil if this was the last.
    public let next: CertificateSerial?
}

/// A certificate, with what may have revoked it.
struct CertificateRecord {
    let serial: CertificateSerial
    let notAfter: Int64
    let deviceRevokedAt: Int64?
    let bindingEndedAt: Int64?
    let bindingEndsAt: Int64?

    /// Nil if it is not revoked, or ended too long ago to be listed.
    func revocation(at time: Int64) -> RevokedCertificate? {
        guard notAfter > time - RegistryStore.listedAfterEnd else { return nil }
        // Where nothing runs that ends bindings, one whose time has come has ended all the same.
        let ended = bindingEndedAt ?? bindingEndsAt.flatMap { $0 <= time ? $0 : nil }
        // Of both, what can be taken back comes second.
        if let ended {
            return RevokedCertificate(
                serial: serial, revokedAt: min(ended, deviceRevokedAt ?? ended),
                reason: bindingEndsAt == nil ? .cessationOfOperation : .superseded)
        }
        return deviceRevokedAt.map { RevokedCertificate(serial: serial, revokedAt: $0, reason: .certificateHold) }
    }
}
