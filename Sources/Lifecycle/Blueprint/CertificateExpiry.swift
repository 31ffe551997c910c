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
    /// The first name of the host of the listener; nil for the listener itself.
    let host: String?
    let role: Role
    /// In RFC 2253 form.
    let subject: String
    /// In seconds since 1970; 0 if the certificate says nothing readable.
    let notAfter: Int64

    init(_ certificate: Certificate, role: Role, listener: String, host: String? = nil) {
        self.listener = listener
        self.host = host
        self.role = role
        subject = certificate.subject
        notAfter = certificate.notAfter ?? 0
    }

    /// For people.
    var place: String { "listener \(listener)" + (host.map { ", host \($0)" } ?? "") }
}
