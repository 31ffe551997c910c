internal import COpenSSL
public import Cryptography

/// What a host of a worker's listener needs to accept TLS connections: certificate, key, trust, policy.
///
/// One per worker, listener and host, on the worker's own library context.
public final class ServerContext {
    let pointer: OpaquePointer
    let library: LibraryContext
    let sessions: SessionTable
    let chains = VerifiedChains()
    /// Those of the host; none if the context is for everybody who asks for no host that has one.
    public let names: [ServerName]
    /// What binds sessions to the host, its certificate and its trust.
    var sessionBinding: [UInt8] = []
    /// Whether every client must present a certificate. Where it need not, something above TLS says who may ask.
    public let demandsCertificates: Bool
    /// Which of the clients with certificates are let in.
    public let admission: ClientAdmission
    /// What is spoken with clients, the preferred one first.
    let protocols: [ApplicationProtocol]
    /// The OCSP response of the certificate, for clients that ask for it.
    let staple: StapledResponse?

    /// - Parameters:
    ///   - names: of the host, if it is one of several.
    ///   - chain: the server certificate, then its intermediates.
    ///   - authorities: client certificates must chain to one of these; they may be intermediates. Nil to ask no client
    ///     for a certificate, never for a listener of the gateway.
    ///   - admission: which clients are let in. If self-signed certificates are taken too, the client does not receive
    ///     the authorities' names: otherwise a client with a self-signed certificate would have none to present.
    ///   - protocols: at least one, the preferred one first.
    ///   - staple: of the server certificate; handed out for as long as it is fresh.
    ///   - sessions: shared by the contexts of all workers.
    public init(
        names: [ServerName] = [], chain: [Certificate], key: PrivateKey, authorities: [Certificate]?,
        admission: ClientAdmission = ClientAdmission(), policy: TLSPolicy,
        protocols: [ApplicationProtocol] = [.http11], staple: StapledResponse? = nil,
        sessions: SessionTable, library: LibraryContext
    ) throws(CryptographyError) {
        ERR_clear_error()
        guard let pointer = SSL_CTX_new_ex(library.pointer, nil, TLS_server_method()) else {
            throw .fromQueue(doing: "create a TLS context")
        }
        self.pointer = pointer
        self.library = library
        self.sessions = sessions
        self.names = names
        demandsCertificates = authorities != nil
        self.admission = admission
        self.protocols = protocols
        self.staple = staple
        try policy.apply(to: pointer)
        setModes()
        try TLSPolicy.checkServerCertificate(chain)
        try use(chain, key)
        if let authorities { try demandClientCertificates(from: authorities) }
        // Sessions without a client's identity are never found again (SessionTable).
        try enableResumption(presenting: chain, trusting: authorities ?? [])
    }

    deinit {
        SSL_CTX_free(pointer)
    }

    private func setModes() {
        let context = pointer
        TLSStream.setModes(of: context)
        // Four certificates at most are looked at. OpenSSL takes 100 KiB of them, and decodes all before it asks anybody.
        _ = ag_ssl_ctx_set_max_cert_list(context, 16_384)
        SSL_CTX_set_alpn_select_cb(context, selectProtocol, Unmanaged.passUnretained(self).toOpaque())
        if staple != nil { _ = ag_ssl_ctx_set_tlsext_status_cb(context, stapleResponse) }
    }

    private func use(_ chain: [Certificate], _ key: PrivateKey) throws(CryptographyError) {
        guard let leaf = chain.first else { throw CryptographyError(doing: "use an empty server certificate chain") }
        ERR_clear_error()
        guard SSL_CTX_use_certificate(pointer, leaf.pointer) == 1 else {
            throw .fromQueue(doing: "use the server certificate \(leaf.subject)")
        }
        for certificate in chain.dropFirst() {
            guard ag_ssl_ctx_add1_chain_cert(pointer, certificate.pointer) == 1 else {
                throw .fromQueue(doing: "use the intermediate certificate \(certificate.subject)")
            }
        }
        guard SSL_CTX_use_PrivateKey(pointer, key.pointer) == 1, SSL_CTX_check_private_key(pointer) == 1 else {
            throw .fromQueue(doing: "use the server key: it must be the key of \(leaf.subject)")
        }
    }

    private func demandClientCertificates(from authorities: [Certificate]) throws(CryptographyError) {
        let names = ag_sk_x509_name_new()
        let store = SSL_CTX_get_cert_store(pointer)
        for authority in authorities {
            guard authority.isAuthority else {
                ag_sk_x509_name_pop_free(names)
                throw CryptographyError(doing: "trust \(authority.subject): it is not a certification authority")
            }
            ERR_clear_error()
            guard X509_STORE_add_cert(store, authority.pointer) == 1,
                ag_sk_x509_name_push(names, X509_NAME_dup(X509_get_subject_name(authority.pointer))) > 0
            else {
                ag_sk_x509_name_pop_free(names)
                throw .fromQueue(doing: "trust \(authority.subject)")
            }
        }
        // What is configured is what is trusted, be it a root or an intermediate.
        X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
        // Sent to the client, so that a phone with several identities presents the right one. Takes over the list.
        if admission.selfSigned {
            ag_sk_x509_name_pop_free(names)
        } else {
            SSL_CTX_set_client_CA_list(pointer, names)
        }
        SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        SSL_CTX_set_verify_depth(pointer, 4)
        // The context is alive while a handshake runs: every TLSStream holds it.
        SSL_CTX_set_cert_verify_callback(pointer, verifyClientCertificate, Unmanaged.passUnretained(self).toOpaque())
    }
}
