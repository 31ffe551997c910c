internal import COpenSSL
public import Cryptography

/// What is needed to open TLS connections: whom to trust, and who we are. Whom a connection is for, `TLSDestination` says.
///
/// One per upstream and worker, on the worker's own library context.
public final class ClientContext {
    let pointer: OpaquePointer
    /// OpenSSL counts its own reference of what is in it; that of the library which the certificates were read in is ours.
    private let authorities: TrustedAuthorities

    /// Authorities between a server's certificate and one that is trusted.
    private static let depth: Int32 = 4

    /// - Parameters:
    ///   - authorities: server certificates must chain to one of these.
    ///   - identity: the client certificate chain and its key; nil to have none.
    ///   - applicationProtocol: the one that servers are offered.
    public init(
        authorities: TrustedAuthorities, identity: (chain: [Certificate], key: PrivateKey)? = nil,
        policy: TLSPolicy = .modern, speaking applicationProtocol: ApplicationProtocol = .http11,
        library: LibraryContext
    ) throws(CryptographyError) {
        ERR_clear_error()
        guard let pointer = SSL_CTX_new_ex(library.pointer, nil, TLS_client_method()) else {
            throw .fromQueue(doing: "create a TLS context")
        }
        self.pointer = pointer
        self.authorities = authorities
        try policy.applyToClient(pointer)
        TLSStream.setModes(of: pointer)
        SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, serverCertificateJudged)
        SSL_CTX_set_verify_depth(pointer, Self.depth)
        SSL_CTX_set1_cert_store(pointer, authorities.store)
        try present(identity)
        try offer(applicationProtocol)
        SSL_CTX_set_info_callback(pointer, connectionInformed)
        // Sessions are kept by their destination.
        _ = ag_ssl_ctx_set_session_cache_mode(pointer, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL))
        SSL_CTX_sess_set_new_cb(pointer, sessionReceived)
    }

    deinit {
        SSL_CTX_free(pointer)
    }

    /// What a context is made from: the same for all workers.
    public struct Settings: Sendable {
        public var authorities: TrustedAuthorities
        /// Our certificate, leaf first, and its key, in PEM; nil to have none.
        public var identity: (certificates: [UInt8], key: [UInt8])?
        public var policy: TLSPolicy
        /// What is spoken within.
        public var applicationProtocol = ApplicationProtocol.http11

        public init(
            authorities: TrustedAuthorities, identity: (certificates: [UInt8], key: [UInt8])? = nil,
            policy: TLSPolicy = .modern
        ) {
            self.authorities = authorities
            self.identity = identity
            self.policy = policy
        }
    }

    public convenience init(_ settings: Settings, library: LibraryContext) throws(CryptographyError) {
        var identity: (chain: [Certificate], key: PrivateKey)?
        if let (certificates, key) = settings.identity {
            identity = (try Certificate.all(inPEM: certificates, library), try PrivateKey(pem: key, library))
        }
        try self.init(
            authorities: settings.authorities, identity: identity, policy: settings.policy,
            speaking: settings.applicationProtocol, library: library)
    }

    private func present(_ identity: (chain: [Certificate], key: PrivateKey)?) throws(CryptographyError) {
        guard let identity else { return }
        guard let leaf = identity.chain.first else {
            throw CryptographyError(doing: "use an empty client certificate chain")
        }
        ERR_clear_error()
        guard SSL_CTX_use_certificate(pointer, leaf.pointer) == 1 else {
            throw .fromQueue(doing: "use the client certificate \(leaf.subject)")
        }
        for certificate in identity.chain.dropFirst() {
            guard ag_ssl_ctx_add1_chain_cert(pointer, certificate.pointer) == 1 else {
                throw .fromQueue(doing: "use the intermediate certificate \(certificate.subject)")
            }
        }
        guard SSL_CTX_use_PrivateKey(pointer, identity.key.pointer) == 1, SSL_CTX_check_private_key(pointer) == 1 else {
            throw .fromQueue(doing: "use the client key: it must be the key of \(leaf.subject)")
        }
    }

    /// ALPN (RFC 7301): one protocol, so that a server that would rather speak another knows that it must not.
    private func offer(_ applicationProtocol: ApplicationProtocol) throws(CryptographyError) {
        let name = applicationProtocol.name
        let list = [UInt8(name.utf8.count)] + Array(name.utf8)
        ERR_clear_error()
        // The one call that returns 0 when it succeeds.
        guard SSL_CTX_set_alpn_protos(pointer, list, UInt32(list.count)) == 0 else {
            throw .fromQueue(doing: "offer \(name)")
        }
    }
}

// MARK: - Callbacks

/// Called for each certificate of a server's chain, and for each objection to it. The objection stands; only its words are kept.
private nonisolated func serverCertificateJudged(_ isGood: Int32, _ store: OpaquePointer?) -> Int32 {
    guard isGood != 1, let store,
        let data = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()),
        let record = DestinationRecord.of(OpaquePointer(data))
    else { return isGood }
    let reason = X509_verify_cert_error_string(Int(X509_STORE_CTX_get_error(store))).map { String(cString: $0) }
    let certificate = X509_STORE_CTX_get_current_cert(store).map { Certificate(sharing: $0) }
    record.refused(certificate, reason ?? "it cannot be verified")
    return isGood
}

/// Called when the state of a connection changes, and for alerts.
private nonisolated func connectionInformed(_ connection: OpaquePointer?, _ place: Int32, _ value: Int32) {
    guard ag_ssl_is_close_notify(place, value) == 1, let connection else { return }
    DestinationRecord.of(connection)?.hasEnded = true
}

/// Returning 1 keeps the reference that OpenSSL counted for us.
private nonisolated func sessionReceived(_ connection: OpaquePointer?, _ session: OpaquePointer?) -> Int32 {
    guard let connection, let session, let record = DestinationRecord.of(connection) else { return 0 }
    return record.destination.keep(session) ? 1 : 0
}
