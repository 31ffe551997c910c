internal import Cryptography
internal import EventLoop
internal import TLS
internal import Upstream

/// What TLS to services rests on.
extension Blueprint {
    /// Until when our certificates for services, and the authorities of theirs, are good.
    func expiriesOfUpstreams(_ library: LibraryContext) throws(StartupError) -> [CertificateExpiry] {
        var certificates: [CertificateExpiry] = []
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
            certificates +=
                own.map { CertificateExpiry($0, role: .client, upstream: upstream.name) }
                + tls.authorities.certificates.map { CertificateExpiry($0, role: .authority, upstream: upstream.name) }
        }
        return certificates
    }
}
