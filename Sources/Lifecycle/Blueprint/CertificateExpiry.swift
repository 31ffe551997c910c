internal import Cryptography

/// Until when a certificate of the configuration is good.
struct CertificateExpiry: Equatable, Sendable {
    enum Role: String, Sendable {
        /// The gateway's own, or one above it.
        case server
        /// One that the certificates of clients, or of an upstream's servers, must chain to.
        case authority
        /// The one that we show to an upstream's servers, or one above it.
        case client
        /// The one that issues phones' certificates.
        case issuer
        /// One that attestations of software phones must lead to.
        case attestation
    }

    /// Where it is for clients; nil where it is for an upstream.
    let listener: String?
    let upstream: String?
    /// The first name of the host of the listener; nil for the listener itself.
    let host: String?
    let role: Role
    /// In RFC 2253 form.
    let subject: String
    /// In seconds since 1970; 0 if the certificate says nothing readable.
    let notAfter: Int64

    init(_ certificate: Certificate, role: Role, listener: String, host: String? = nil) {
        self.listener = listener
        upstream = nil
        self.host = host
        self.role = role
        subject = certificate.subject
        notAfter = certificate.notAfter ?? 0
    }

    init(_ certificate: Certificate, role: Role, upstream: String) {
        listener = nil
        self.upstream = upstream
        host = nil
        self.role = role
        subject = certificate.subject
        notAfter = certificate.notAfter ?? 0
    }

    /// For people.
    var place: String {
        if let upstream { return "upstream \(upstream)" }
        return "listener \(listener ?? "")" + (host.map { ", host \($0)" } ?? "")
    }

    /// Whether both certificates have the same place, so that a message must distinguish them.
    func isOfSamePlace(as other: CertificateExpiry) -> Bool {
        listener == other.listener && upstream == other.upstream && host == other.host && role == other.role
    }
}
