internal import Cryptography

/// Until when a certificate of the configuration is good.
struct CertificateExpiry: Equatable, Sendable {
    enum Role: String, Sendable {
        /// The gateway's own, or one above it.
        case server
        /// One that clients' certificates must chain to.
        case authority
        /// The one that issues phones' certificates.
        case issuer
        /// One that attestations of software phones must lead to.
        case attestation
    }

    let listener: String
    let role: Role
    /// In RFC 2253 form.
    let subject: String
    /// In seconds since 1970; 0 if the certificate says nothing readable.
    let notAfter: Int64

    init(_ certificate: Certificate, role: Role, listener: String) {
        self.listener = listener
        self.role = role
        subject = certificate.subject
        notAfter = certificate.notAfter ?? 0
    }
}
