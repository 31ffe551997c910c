internal import COpenSSL
public import Cryptography

/// What is needed to open TLS connections: whom to trust, and who we are.
public final class ClientContext {
    private let pointer: OpaquePointer
    /// The session to offer next, if `resumes`.
    fileprivate var session: OpaquePointer?
    private let resumes: Bool

    /// - Parameters:
    ///   - authorities: server certificates must chain to one of these.
    ///   - identity: the client certificate chain and its key.
    ///   - resumes: whether each connection offers the session of the one before.
    public init(
        authorities: [Certificate], identity: (chain: [Certificate], key: PrivateKey)?, resumes: Bool,
        library: LibraryContext
    ) throws(CryptographyError) {
        ERR_clear_error()
        guard let pointer = SSL_CTX_new_ex(library.pointer, nil, TLS_client_method()) else {
            throw .fromQueue(doing: "create a TLS context")
        }
        self.pointer = pointer
        self.resumes = resumes
        _ = ag_ssl_ctx_set_min_proto_version(pointer, TLS1_2_VERSION)
        _ = ag_ssl_ctx_set_mode(
            pointer,
            Int(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS))
        ag_ssl_ctx_set_read_ahead(pointer, 1)
        SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
        for authority in authorities { X509_STORE_add_cert(SSL_CTX_get_cert_store(pointer), authority.pointer) }
        try present(identity)
        if resumes {
            // The context outlives its connections: who opens them keeps it.
            SSL_CTX_set_ex_data(pointer, ServerContext.contextIndex, Unmanaged.passUnretained(self).toOpaque())
            _ = ag_ssl_ctx_set_session_cache_mode(pointer, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL))
            SSL_CTX_sess_set_new_cb(pointer, sessionReceived)
        }
    }

    deinit {
        SSL_SESSION_free(session)
        SSL_CTX_free(pointer)
    }

    private func present(_ identity: (chain: [Certificate], key: PrivateKey)?) throws(CryptographyError) {
        guard let identity, let leaf = identity.chain.first else { return }
        ERR_clear_error()
        guard SSL_CTX_use_certificate(pointer, leaf.pointer) == 1,
            SSL_CTX_use_PrivateKey(pointer, identity.key.pointer) == 1
        else { throw .fromQueue(doing: "use the client certificate \(leaf.subject)") }
        for certificate in identity.chain.dropFirst() {
            _ = ag_ssl_ctx_add1_chain_cert(pointer, certificate.pointer)
        }
    }

    /// Whether a session is there to be offered.
    public var hasSession: Bool { session != nil }

    func makeConnection(_ descriptor: Int32, serverName: String) -> OpaquePointer? {
        guard let connection = SSL_new(pointer) else { return nil }
        // A literal address is looked for among the certificate's addresses, and is no server name (RFC 6066 section 3).
        let isAddress = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), serverName) == 1
        guard SSL_set_fd(connection, descriptor) == 1,
            isAddress
                || SSL_set1_host(connection, serverName) == 1
                    && ag_ssl_set_tlsext_host_name(connection, serverName) == 1
        else {
            SSL_free(connection)
            return nil
        }
        if resumes, let session { SSL_set_session(connection, session) }
        SSL_set_connect_state(connection)
        return connection
    }
}

/// Returning 1 keeps the reference that OpenSSL counted for us.
private nonisolated func sessionReceived(_ connection: OpaquePointer?, _ session: OpaquePointer?) -> Int32 {
    guard let data = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), ServerContext.contextIndex) else { return 0 }
    let context = Unmanaged<ClientContext>.fromOpaque(data).takeUnretainedValue()
    SSL_SESSION_free(context.session)
    context.session = session
    return 1
}
