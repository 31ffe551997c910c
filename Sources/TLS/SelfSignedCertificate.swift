internal import COpenSSL
internal import Cryptography

/// A client certificate that its own key has signed. It is only the form in which TLS carries a key; the handshake proves
/// possession of that key. So the checks are of its form, and the key must be on P-256.
///
/// The key is checked before the signature. A sender chooses both, and verification with some keys costs a multiple of a
/// handshake: RSA with a public exponent as long as its modulus. Certificates of authorities have no such check, because
/// OpenSSL verifies a chain from the trusted certificate downwards: a key verifies only after a trusted one has signed it.
struct SelfSignedCertificate {
    private let certificate: Certificate
    private let key: PublicKey

    /// The strength of ECDSA on P-256 with SHA-256.
    private static let signatureBits: Int32 = 128

    /// Nil if the certificate names another issuer than its subject, or has an unknown type of key. Then it is a
    /// certificate of an unknown authority.
    init?(_ certificate: Certificate) {
        guard certificate.isSelfIssued, let key = certificate.publicKey else { return nil }
        self.certificate = certificate
        self.key = key
    }

    /// Checks the certificate.
    ///
    /// - Returns: the identity, or the fault. Nil if another key signed the certificate: then an unknown authority did,
    ///   whatever name it has.
    func identity(_ library: LibraryContext) -> Result<ClientIdentity, ClientCertificateFault>? {
        func refused(_ kind: ClientCertificateFault.Kind, _ reason: String) -> Result<
            ClientIdentity, ClientCertificateFault
        > {
            .failure(
                ClientCertificateFault(
                    kind: kind, certificate: PresentedCertificate(certificate, library), reason: reason))
        }
        guard key.isP256 else { return refused(.unsuitable, "the key is not on P-256") }
        guard isSignedByItsKey else { return nil }
        // Either comparison is 0 where the field is no valid time.
        guard X509_cmp_current_time(X509_get0_notBefore(certificate.pointer)) < 0,
            X509_cmp_current_time(X509_get0_notAfter(certificate.pointer)) > 0, let notAfter = certificate.notAfter,
            let notBefore = certificate.notBefore
        else { return refused(.outsideValidity, "it has expired, or is not valid yet") }
        if let reason = unsuitability { return refused(.unsuitable, reason) }
        do throws(CryptographyError) {
            guard let keyID = try key.keyID(library) else {
                return refused(.unsuitable, "the key is not on P-256")
            }
            return .success(
                ClientIdentity(
                    kind: .selfSigned, keyID: keyID, thumbprint: try certificate.thumbprint(library),
                    notBefore: notBefore, notAfter: notAfter, chain: []))
        } catch {
            return refused(.unsuitable, error.description)
        }
    }

    private var isSignedByItsKey: Bool {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return X509_verify(certificate.pointer, key.pointer) == 1
    }

    private var unsuitability: String? {
        let pointer = certificate.pointer
        // Reading them is what fills in the flags.
        let flags = X509_get_extension_flags(pointer)
        guard flags & UInt32(EXFLAG_INVALID) == 0 else { return "an extension is malformed" }
        guard flags & UInt32(EXFLAG_CRITICAL) == 0 else { return "it has an unknown critical extension" }
        guard flags & UInt32(EXFLAG_CA) == 0, !certificate.mayBeAuthority else {
            return "the certificate belongs to a certification authority"
        }
        // What the handshake makes of the key is a signature (RFC 8446 section 4.4.2.4).
        guard flags & UInt32(EXFLAG_KUSAGE) == 0 || X509_get_key_usage(pointer) & UInt32(KU_DIGITAL_SIGNATURE) != 0
        else { return "the key usage lacks digitalSignature" }
        let purposes = X509_get_extended_key_usage(pointer)
        guard flags & UInt32(EXFLAG_XKUSAGE) == 0 || purposes & UInt32(XKU_SSL_CLIENT | XKU_ANYEKU) != 0 else {
            return "no extended key usage clientAuth"
        }
        var bits: Int32 = 0
        guard X509_get_signature_info(pointer, nil, nil, &bits, nil) == 1, bits >= Self.signatureBits else {
            return "the signature is weaker than P-256 with SHA-256"
        }
        return nil
    }
}
