internal import COpenSSL
internal import Cryptography

/// A client certificate that its own key has signed. It vouches for nobody; it is a form in which TLS takes a key, whose
/// possession the handshake proves. So it is held to its form, and the key to P-256.
struct SelfSignedCertificate {
    private let certificate: Certificate

    /// What ECDSA on P-256 with SHA-256 has.
    private static let signatureBits: Int32 = 128

    /// Nil if the certificate names another issuer than its subject, or its own key has not signed it: then it is one of an
    /// unknown authority, whatever names it bears.
    init?(_ certificate: Certificate) {
        guard certificate.isNamedIssuer(of: certificate), let key = X509_get0_pubkey(certificate.pointer) else {
            return nil
        }
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard X509_verify(certificate.pointer, key) == 1 else { return nil }
        self.certificate = certificate
    }

    func identity(_ library: LibraryContext) -> Result<ClientIdentity, ClientCertificateFault> {
        func refused(_ kind: ClientCertificateFault.Kind, _ reason: String) -> Result<
            ClientIdentity, ClientCertificateFault
        > {
            .failure(
                ClientCertificateFault(
                    kind: kind, certificate: PresentedCertificate(certificate, library), reason: reason))
        }
        // Either comparison is 0 where the field is no valid time.
        guard X509_cmp_current_time(X509_get0_notBefore(certificate.pointer)) < 0,
            X509_cmp_current_time(X509_get0_notAfter(certificate.pointer)) > 0, let notAfter = certificate.notAfter,
            let notBefore = certificate.notBefore
        else { return refused(.outsideValidity, "it has expired, or is not valid yet") }
        if let reason = unsuitability { return refused(.unsuitable, reason) }
        do throws(CryptographyError) {
            guard let keyID = try certificate.publicKey?.keyID(library) else {
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
