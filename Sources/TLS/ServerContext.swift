internal import COpenSSL
public import Cryptography

/// What a worker's listener needs to accept TLS connections: certificate, key, trust, policy.
///
/// One per worker and listener, on the worker's own library context.
public final class ServerContext {
    let pointer: OpaquePointer
    fileprivate let library: LibraryContext
    fileprivate let sessions: SessionTable
    /// Whether every client must present a certificate. Where it need not, something above TLS says who may ask.
    public let demandsCertificates: Bool
    /// Which of the clients with certificates are let in.
    public let admission: ClientAdmission
    /// What clients are told of the certificate, if they ask.
    let staple: StapledResponse?

    /// - Parameters:
    ///   - chain: the server certificate, then its intermediates.
    ///   - authorities: client certificates must chain to one of these; they may be intermediates. Nil to ask no client
    ///     for a certificate, never for a listener of the gateway.
    ///   - admission: which clients are let in. If self-signed certificates are taken too, the client is not told the
    ///     authorities' names, or one with a certificate of its own would have none to present.
    ///   - staple: of the server certificate; handed out for as long as it is fresh.
    ///   - sessions: shared by the contexts of all workers.
    public init(
        chain: [Certificate], key: PrivateKey, authorities: [Certificate]?,
        admission: ClientAdmission = ClientAdmission(), policy: TLSPolicy, staple: StapledResponse? = nil,
        sessions: SessionTable, library: LibraryContext
    ) throws(CryptographyError) {
        ERR_clear_error()
        guard let pointer = SSL_CTX_new_ex(library.pointer, nil, TLS_server_method()) else {
            throw .fromQueue(doing: "create a TLS context")
        }
        self.pointer = pointer
        self.library = library
        self.sessions = sessions
        demandsCertificates = authorities != nil
        self.admission = admission
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
        // Partial writes: a record at a time leaves the buffer, from wherever it now stands. Buffers are freed when idle.
        _ = ag_ssl_ctx_set_mode(
            context,
            Int(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS))
        // One recv for a whole record, not one for its header and one for its body.
        ag_ssl_ctx_set_read_ahead(context, 1)
        SSL_CTX_set_alpn_select_cb(context, selectProtocol, nil)
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
                throw CryptographyError(doing: "trust \(authority.subject): it is no certification authority")
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
        // Told to the client, so that a phone with several identities presents the right one. Takes over the list.
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

    private func enableResumption(
        presenting chain: [Certificate], trusting authorities: [Certificate]
    ) throws(CryptographyError) {
        // Each list is hashed by itself: what one listener presents may be what another one trusts.
        // So is the kind of certificates: where self-signed ones are not taken, their sessions are not known either. Lists and
        // pins are not: they change often, and whoever wants to resume is judged by those of now (`sessionWanted`).
        let kinds: [UInt8] = [admission.selfSigned ? 1 : 0]
        let all = try digest(of: chain) + digest(of: authorities) + kinds
        let binding = try library.sha256(of: all.span).bytes
        SSL_CTX_set_session_id_context(pointer, binding, UInt32(binding.count))
        SSL_CTX_set_ex_data(pointer, Self.contextIndex, Unmanaged.passUnretained(self).toOpaque())
        _ = ag_ssl_ctx_set_session_cache_mode(pointer, Int(SSL_SESS_CACHE_SERVER | SSL_SESS_CACHE_NO_INTERNAL))
        SSL_CTX_set_timeout(pointer, 3600)
        SSL_CTX_set_num_tickets(pointer, 1)
        SSL_CTX_sess_set_new_cb(pointer, sessionMade)
        SSL_CTX_sess_set_get_cb(pointer, sessionWanted)
    }

    private func digest(of certificates: [Certificate]) throws(CryptographyError) -> [UInt8] {
        var thumbprints: [UInt8] = []
        for certificate in certificates { thumbprints += try certificate.thumbprint(library) }
        return try library.sha256(of: thumbprints.span).bytes
    }

    // MARK: - What OpenSSL's objects carry for us

    static let contextIndex = ag_ssl_ctx_get_ex_new_index()
    /// On a session: the identity, retained once for each copy of the session.
    static let identityIndex = ag_ssl_session_get_ex_new_index(identityCopied, identityFreed)
    /// On a connection: its `HandshakeRecord`, owned by the `TLSStream`.
    static let recordIndex = ag_ssl_get_ex_new_index(nil)

    static func identity(of session: OpaquePointer?) -> ClientIdentity? {
        guard let session, let data = SSL_SESSION_get_ex_data(session, identityIndex) else { return nil }
        return Unmanaged<ClientIdentity>.fromOpaque(data).takeUnretainedValue()
    }
}

/// What the handshake leaves for the connection.
final class HandshakeRecord {
    var fault: ClientCertificateFault?
}

// MARK: - Callbacks

private nonisolated func verifyClientCertificate(
    _ store: OpaquePointer?, _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let store, let argument,
        let data = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx())
    else { return 0 }
    let context = Unmanaged<ServerContext>.fromOpaque(argument).takeUnretainedValue()
    let connection = OpaquePointer(data)
    switch ClientCertificateVerifier.verify(store, admitting: context.admission, context.library) {
    case .success(let identity):
        let retained = Unmanaged.passRetained(identity)
        guard
            SSL_SESSION_set_ex_data(SSL_get_session(connection), ServerContext.identityIndex, retained.toOpaque()) == 1
        else {
            retained.release()
            return 0
        }
        return 1
    case .failure(let fault):
        if let record = SSL_get_ex_data(connection, ServerContext.recordIndex) {
            Unmanaged<HandshakeRecord>.fromOpaque(record).takeUnretainedValue().fault = fault
        }
        return 0
    }
}

/// A copied session shares the identity (TLS 1.3 copies the session for each ticket it sends).
private nonisolated func identityCopied(
    _: UnsafeMutablePointer<CRYPTO_EX_DATA>?, _: UnsafePointer<CRYPTO_EX_DATA>?,
    _ slot: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _: Int32, _: Int, _: UnsafeMutableRawPointer?
) -> Int32 {
    if let data = slot?.pointee { _ = Unmanaged<ClientIdentity>.fromOpaque(data).retain() }
    return 1
}

private nonisolated func identityFreed(
    _: UnsafeMutableRawPointer?, _ data: UnsafeMutableRawPointer?, _: UnsafeMutablePointer<CRYPTO_EX_DATA>?, _: Int32,
    _: Int, _: UnsafeMutableRawPointer?
) {
    if let data { Unmanaged<ClientIdentity>.fromOpaque(data).release() }
}

func serverContext(of connection: OpaquePointer?) -> ServerContext? {
    SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), ServerContext.contextIndex)
        .map { Unmanaged<ServerContext>.fromOpaque($0).takeUnretainedValue() }
}

/// Returning 1 keeps the reference that OpenSSL counted for us.
private nonisolated func sessionMade(_ connection: OpaquePointer?, _ session: OpaquePointer?) -> Int32 {
    guard let session, let context = serverContext(of: connection) else { return 0 }
    context.sessions.insert(session)
    return 1
}

private nonisolated func sessionWanted(
    _ connection: OpaquePointer?, _ bytes: UnsafePointer<UInt8>?, _ length: Int32, _ copy: UnsafeMutablePointer<Int32>?
) -> OpaquePointer? {
    // The table has counted the reference that OpenSSL takes over.
    copy?.pointee = 0
    guard let context = serverContext(of: connection),
        let id = SessionID(UnsafeBufferPointer(start: bytes, count: Int(length)))
    else { return nil }
    return context.sessions.find(id, admitting: context.admission)
}

/// ALPN (RFC 7301): http/1.1, else http/1.0, and an alert for clients that offer protocols but neither of these.
private nonisolated func selectProtocol(
    _: OpaquePointer?, _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ outLength: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?, _ offeredLength: UInt32, _: UnsafeMutableRawPointer?
) -> Int32 {
    // A list of names, each behind a byte that holds its length; OpenSSL has checked that it is well-formed.
    let list = UnsafeBufferPointer(start: offered, count: Int(offeredLength))
    for wanted in ["http/1.1", "http/1.0"] {
        var position = 0
        while position < list.count {
            let length = Int(list[position])
            if list[(position + 1)..<(position + 1 + length)].elementsEqual(wanted.utf8) {
                // The answer may point into the client's list, which lives as long as the handshake.
                out?.pointee = offered.map { $0 + position + 1 }
                outLength?.pointee = UInt8(length)
                return SSL_TLSEXT_ERR_OK
            }
            position += 1 + length
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL
}
