internal import COpenSSL
public import Cryptography
internal import Glibc

/// What the clients of a host are judged by: the trusted authorities, the rules, and the chains that were verified.
///
/// One per worker, on the worker's own library context. A host of a listener judges certificates of handshakes by it; a
/// listener behind a proxy that terminates TLS judges those that the proxy forwards by another one.
public final class ClientTrust {
    let store: TrustStore
    let library: LibraryContext
    let chains = VerifiedChains()
    /// The rules for clients with certificates.
    public let admission: ClientAdmission
    /// Makes what identities keep of certificates for services.
    let encoder: CertificateEncoder

    /// The maximum number of certificates between a leaf and a trusted one.
    static let depth: Int32 = 4

    /// Creates the trust.
    ///
    /// - Parameters:
    ///   - authorities: the authorities that client certificates must chain to; they may be intermediates.
    ///   - admission: the rules for clients.
    ///   - kept: what identities keep of certificates for services.
    public init(
        authorities: [Certificate], admission: ClientAdmission = ClientAdmission(),
        keeping kept: CertificateForwarding = .off, library: LibraryContext
    ) throws(CryptographyError) {
        store = try TrustStore(authorities)
        self.library = library
        self.admission = admission
        encoder = CertificateEncoder(keeping: kept)
    }

    /// Verifies a certificate as a handshake does, without one. Possession of the key is not proven.
    ///
    /// - Parameter chain: the certificate, then those that its client has sent with it. At least one.
    /// - Returns: the identity, or the fault.
    public func verify(
        _ chain: [Certificate]
    ) throws(CryptographyError) -> Result<ClientIdentity, ClientCertificateFault> {
        guard let context = X509_STORE_CTX_new_ex(library.pointer, nil), let sent = ag_sk_x509_new() else {
            throw .fromQueue(doing: "verify a client certificate")
        }
        defer {
            X509_STORE_CTX_free(context)
            ag_sk_x509_free(sent)
        }
        for certificate in chain { _ = ag_sk_x509_push(sent, certificate.pointer) }
        ERR_clear_error()
        defer { ERR_clear_error() }
        // What OpenSSL sets before it calls `verifyClientCertificate`.
        guard X509_STORE_CTX_init(context, store.pointer, chain.first?.pointer, sent) == 1,
            X509_STORE_CTX_set_default(context, "ssl_client") == 1
        else { throw .fromQueue(doing: "verify a client certificate") }
        X509_STORE_CTX_set_depth(context, Self.depth)
        return ClientCertificateVerifier.verify(context, by: self).map(\.identity)
    }

    /// Returns the objection to a client whose certificate was verified earlier, by the present time, lists and keys.
    public func objection(to identity: ClientIdentity) -> ClientAdmission.KeyRejection? {
        admission.objection(to: identity, at: Int64(time(nil)))
    }
}
