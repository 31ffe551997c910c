internal import COpenSSL
internal import Cryptography

/// Decides about a client certificate during the handshake.
///
/// Beyond OpenSSL's chain building (to the configured authorities only, validity, signatures, critical extensions): the
/// leaf must say clientAuth, must be no authority, and every key and signature of the chain must be as strong as P-256
/// (security level 3: 128 bits).
///
/// A self-signed certificate has a kind of its own, on listeners that admit them: `SelfSignedCertificate` decides about it.
/// No certificate can be of both kinds: what leads to a configured authority, or is one, is judged as issued.
enum ClientCertificateVerifier {
    private static let securityLevel: Int32 = 3

    /// - Returns: the identity, or the fault; on a fault the context holds the error whose alert fits.
    static func verify(
        _ context: OpaquePointer, admittingSelfSigned: Bool, _ library: LibraryContext
    ) -> Result<ClientIdentity, ClientCertificateFault> {
        X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(context), securityLevel)
        let accepted = X509_verify_cert(context) == 1
        guard let pointer = X509_STORE_CTX_get0_cert(context) else { return refuse(context, .missing) }
        let leaf = Certificate(sharing: pointer)
        guard accepted else {
            if admittingSelfSigned, let certificate = SelfSignedCertificate(leaf) {
                return certificate.identity(library).flatMapError { refuse(context, $0) }
            }
            return refuse(context, .of(verifyError: X509_STORE_CTX_get_error(context), subject: leaf.subject))
        }
        if let reason = unsuitability(of: leaf) {
            return refuse(context, .unsuitable(subject: leaf.subject, reason: reason))
        }
        do {
            let identity = ClientIdentity(
                kind: .issued, keyID: try leaf.publicKey?.keyID(library), thumbprint: try leaf.thumbprint(library),
                notAfter: earliestEnd(of: context))
            return .success(identity)
        } catch {
            return refuse(context, .unsuitable(subject: leaf.subject, reason: error.description))
        }
    }

    private static func refuse(
        _ context: OpaquePointer, _ fault: ClientCertificateFault
    ) -> Result<ClientIdentity, ClientCertificateFault> {
        X509_STORE_CTX_set_error(context, fault.alertingVerifyError)
        return .failure(fault)
    }

    private static func unsuitability(of leaf: Certificate) -> String? {
        // OpenSSL lets a certificate without the extension pass for any purpose; RFC 5280 section 4.2.1.12 leaves it to
        // the application.
        let flags = X509_get_extension_flags(leaf.pointer)
        guard flags & UInt32(EXFLAG_XKUSAGE) != 0,
            X509_get_extended_key_usage(leaf.pointer) & UInt32(XKU_SSL_CLIENT) != 0
        else { return "no extended key usage clientAuth" }
        // The flag too: OpenSSL takes one whose key usage lacks keyCertSign for no authority, whatever else it says.
        guard flags & UInt32(EXFLAG_CA) == 0, X509_check_ca(leaf.pointer) == 0 else {
            return "the certificate is a certification authority's"
        }
        guard let key = leaf.publicKey else { return "the key is of an unknown kind" }
        guard key.securityBits >= 128 else { return "the key is weaker than P-256" }
        return nil
    }

    private static func earliestEnd(of context: OpaquePointer) -> Int64 {
        let chain = X509_STORE_CTX_get0_chain(context)
        var earliest = Int64.max
        for index in 0..<ag_sk_x509_num(chain) {
            guard let pointer = ag_sk_x509_value(chain, index) else { continue }
            // An unreadable time cannot have passed verification; if it did, it counts as over.
            earliest = min(earliest, Certificate(sharing: pointer).notAfter ?? 0)
        }
        return earliest
    }
}
