public import Vocabulary

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
