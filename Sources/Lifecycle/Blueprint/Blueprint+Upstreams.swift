internal import Cryptography
internal import EventLoop
internal import TLS
internal import Upstream

/// What TLS to services rests on.
extension Blueprint {
    /// Until when our certificates for services, and the authorities of theirs, are good, and what is doubtful about that.
    func expiriesOfUpstreams(_ library: LibraryContext) throws(StartupError) -> ([CertificateExpiry], [String]) {
        var certificates: [CertificateExpiry] = []
        var warnings: [String] = []
        for upstream in upstreams {
            guard let tls = upstream.tls else { continue }
            var own: [Certificate] = []
            if let identity = tls.identity {
                do throws(CryptographyError) {
                    own = try Certificate.all(inPEM: identity.certificates, library)
                } catch {
                    throw StartupError("upstream \(upstream.name): \(error)")
                }
            }
            let known =
                own.map { CertificateExpiry($0, role: .client, upstream: upstream.name) }
                + tls.authorities.certificates.map { CertificateExpiry($0, role: .authority, upstream: upstream.name) }
            for certificate in known where certificate.notAfter <= WallClock.seconds {
                warnings.append("upstream \(upstream.name): the certificate of \(certificate.subject) has expired")
            }
            certificates += known
        }
        return (certificates, warnings)
    }
}
