internal import COpenSSL
internal import Cryptography

/// Resuming sessions: which may be, and what they carry.
extension ServerContext {
    func enableResumption(
        presenting chain: [Certificate], trusting authorities: [Certificate]
    ) throws(CryptographyError) {
        // Each list is hashed by itself: what one host presents may be what another one trusts. So are the names: hosts
        // that are alike in all else may differ in what they lead to. So is the kind of certificates: where self-signed
        // ones are not taken, their sessions are not known either. Lists and pins are not: they change often, and each
        // resumption is checked against the current ones (`sessionWanted`).
        let kinds: [UInt8] = [admission.selfSigned ? 1 : 0]
        // No name has a space.
        let names = names.map(\.text).sorted().joined(separator: " ")
        let all = try digest(of: chain) + digest(of: authorities) + kinds + Array(names.utf8)
        sessionBinding = try library.sha256(of: all.span).bytes
        SSL_CTX_set_session_id_context(pointer, sessionBinding, UInt32(sessionBinding.count))
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

    static func identity(of session: OpaquePointer?) -> ClientIdentity? {
        guard let session, let data = SSL_SESSION_get_ex_data(session, identityIndex) else { return nil }
        return Unmanaged<ClientIdentity>.fromOpaque(data).takeUnretainedValue()
    }
}

// MARK: - Callbacks

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
    // Before others can find it: it does not change any more then.
    guard let session, let context = serverContext(of: connection) else { return 0 }
    LeanSession.emptyChain(of: connection)
    guard LeanSession.strip(session) else { return 0 }
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
