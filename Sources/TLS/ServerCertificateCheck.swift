internal import Cryptography

extension TLSPolicy {
    /// Finds what no client should be shown, whichever the policy: a key that Mozilla's guidelines do not have
    /// (`certificate_types`, `certificate_curves`, `rsa_key_size`), or a signature that proves nothing any more.
    ///
    /// - Parameter chain: the server's certificate, then what is above it.
    static func checkServerCertificate(_ chain: [Certificate]) throws(CryptographyError) {
        guard let leaf = chain.first else { throw CryptographyError(doing: "use an empty server certificate chain") }
        switch leaf.publicKey?.kind {
        case .p256, .p384: break
        case .rsa(let bits):
            guard bits >= 2048 else { throw refusal(leaf, "its RSA key has \(bits) bits, at least 2048 are required") }
        case .other, nil:
            throw refusal(leaf, "its key is neither RSA nor on P-256 or P-384, so many clients could not connect")
        }
        for (depth, certificate) in chain.enumerated() {
            // Nobody verifies the signature of a root, which proves nothing.
            guard depth == 0 || !certificate.isSelfIssued else { continue }
            guard certificate.isSignedWithSHA256OrMore else {
                throw refusal(certificate, "its signature algorithm is weaker than SHA-256")
            }
            guard (certificate.publicKey?.securityBits ?? 0) >= 112 else {
                throw refusal(certificate, "its key is weaker than RSA with 2048 bits")
            }
        }
    }

    private static func refusal(_ certificate: Certificate, _ reason: String) -> CryptographyError {
        CryptographyError(doing: "use the server certificate \(certificate.subject): \(reason)")
    }
}
