internal import COpenSSL
public import Cryptography
internal import Glibc

/// The certificate, key, trust and policy with which a host of a worker's listener accepts TLS connections.
///
/// One per worker, listener and host, on the worker's own library context.
public final class ServerContext {
    let pointer: OpaquePointer
    let library: LibraryContext
    let sessions: SessionTable
    /// The keys of encrypted tickets, of which the sessions have the secrets.
    let tickets: TicketKeys
    /// The offered groups, in OpenSSL's notation.
    private let groups: String
    /// What clients' certificates are judged by.
    public let trust: ClientTrust
    /// The names of the host. Empty in the default context, for clients that ask for no known host.
    public let names: [ServerName]
    /// The digest that binds sessions to the host, its certificate and its trust.
    private var sessionBinding: [UInt8] = []
    /// Whether every client must present a certificate. If not, a layer above TLS decides about clients without one.
    public let demandsCertificates: Bool
    /// The offered protocols, the preferred one first.
    let protocols: [ApplicationProtocol]
    /// The OCSP response of the certificate, for clients that ask for it.
    fileprivate let staple: StapledResponse?

    /// Creates a context.
    ///
    /// - Parameters:
    ///   - names: the names of the host, if it is one of several.
    ///   - chain: the server certificate, then its intermediates.
    ///   - authorities: the authorities that client certificates must chain to; they may be intermediates. Nil requests
    ///     no
    ///     client certificate, and is never used for a listener of the gateway.
    ///   - admission: the rules for clients. If self-signed certificates are accepted, the client does not receive the
    ///     authorities' names: otherwise a client with a self-signed certificate would present none. If certificates
    ///     are optional, they are requested all the same.
    ///   - kept: what identities keep of certificates for services.
    ///   - protocols: at least one, the preferred one first.
    ///   - staple: the OCSP response of the server certificate, sent while it is fresh.
    ///   - sessions: the table that the contexts of all workers share.
    public init(
        names: [ServerName] = [], chain: [Certificate], key: PrivateKey, authorities: [Certificate]?,
        admission: ClientAdmission = ClientAdmission(), keeping kept: CertificateForwarding = .off, policy: TLSPolicy,
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
        tickets = try TicketKeys(sessions, library)
        self.names = names
        demandsCertificates = authorities != nil && !admission.isOptional
        trust = try ClientTrust(
            authorities: authorities ?? [], admission: admission, keeping: kept, library: library)
        self.protocols = protocols
        self.staple = staple
        groups = try policy.apply(to: pointer, admission)
        setModes()
        try TLSPolicy.checkServerCertificate(chain)
        try use(chain, key)
        if let authorities { try demandClientCertificates(from: authorities) }
        // Where certificates are demanded, sessions without an identity are never found again (SessionTable).
        try enableResumption(presenting: chain, trusting: authorities ?? [])
    }

    deinit {
        SSL_CTX_free(pointer)
    }

    private func setModes() {
        let context = pointer
        TLSStream.setModes(of: context)
        // At most four certificates are verified. OpenSSL would accept 100 KiB of them, and decode all first.
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
            throw .fromQueue(
                doing:
                    "use the server key: it must be the key of \(leaf.subject), "
                    + "with which this certificate was requested"
            )
        }
    }

    private func demandClientCertificates(from authorities: [Certificate]) throws(CryptographyError) {
        // Counts a reference of its own.
        SSL_CTX_set1_cert_store(pointer, trust.store.pointer)
        // Sent to the client, so that a phone with several identities presents the right one.
        if !trust.admission.selfSigned { try name(authorities) }
        let demand = trust.admission.isOptional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT
        SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | demand, nil)
        SSL_CTX_set_verify_depth(pointer, ClientTrust.depth)
        // The context is alive while a handshake runs: every TLSStream holds it.
        SSL_CTX_set_cert_verify_callback(pointer, verifyClientCertificate, Unmanaged.passUnretained(self).toOpaque())
    }

    private func name(_ authorities: [Certificate]) throws(CryptographyError) {
        let names = ag_sk_x509_name_new()
        for authority in authorities {
            ERR_clear_error()
            guard ag_sk_x509_name_push(names, X509_NAME_dup(X509_get_subject_name(authority.pointer))) > 0 else {
                ag_sk_x509_name_pop_free(names)
                throw .fromQueue(doing: "name the authority \(authority.subject)")
            }
        }
        // Takes over the list.
        SSL_CTX_set_client_CA_list(pointer, names)
    }
}

extension ServerContext {
    /// Permits the curve of a verified client certificate in TLS 1.2, where OpenSSL demands that it is one of the
    /// connection's groups. The key exchange has been chosen already, and there is no other: renegotiation is off.
    ///
    /// - Returns: false if memory is exhausted.
    fileprivate static func permitCurve(ofClientOf connection: OpaquePointer, _ certificate: OpaquePointer?) -> Bool {
        guard SSL_version(connection) == TLS1_2_VERSION, let certificate else { return true }
        switch Certificate(sharing: certificate).publicKey?.kind {
        case .p384, .p521: return ag_ssl_set1_groups_list(connection, TLSPolicy.certificateGroupList) == 1
        case .p256, .ed25519, .rsa, .other, nil: return true
        }
    }
}

// MARK: - Callbacks during the handshake

/// Verifies the client's certificate.
private nonisolated func verifyClientCertificate(
    _ store: OpaquePointer?, _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let store, let argument,
        let data = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx())
    else { return 0 }
    let context = Unmanaged<ServerContext>.fromOpaque(argument).takeUnretainedValue()
    let connection = OpaquePointer(data)
    // The trust and the chains that it has verified belong to the same context.
    switch ClientCertificateVerifier.verify(store, by: context.trust) {
    case .success((let identity, let isKnown)):
        HandshakeRecord.of(connection)?.isChainKnown = isKnown
        guard ServerContext.permitCurve(ofClientOf: connection, X509_STORE_CTX_get0_cert(store)) else { return 0 }
        return ServerContext.attach(identity, to: SSL_get_session(connection)) ? 1 : 0
    case .failure(let fault):
        HandshakeRecord.of(connection)?.fault = fault
        return 0
    }
}

/// Chooses the protocol (ALPN, RFC 7301) that both sides support. Sends an alert to clients that offer only others.
private nonisolated func selectProtocol(
    _ connection: OpaquePointer?, _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ outLength: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?, _ offeredLength: UInt32, _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let argument, let offered else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    // The context of the chosen host: OpenSSL calls this after handling the ClientHello.
    let context = Unmanaged<ServerContext>.fromOpaque(argument).takeUnretainedValue()
    let list = UnsafeBufferPointer(start: offered, count: Int(offeredLength))
    guard let place = ApplicationProtocol.choose(context.protocols, among: list.span) else {
        connection.flatMap(HandshakeRecord.of)?.helloFault = .protocolUnknown(context.protocols)
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }
    // The result may point into the client's list, which lives as long as the handshake.
    out?.pointee = offered + place.lowerBound
    outLength?.pointee = UInt8(place.count)
    return SSL_TLSEXT_ERR_OK
}

/// Sends the OCSP response to a client that asks for it (RFC 6066 section 8), if it is fresh. Clients take a stale
/// response for an attack, but accept none at all.
private nonisolated func stapleResponse(_ connection: OpaquePointer?, _: UnsafeMutableRawPointer?) -> Int32 {
    guard let staple = ServerContext.of(connection)?.staple, staple.isFresh(at: Int64(time(nil))) else {
        return SSL_TLSEXT_ERR_NOACK
    }
    let encoding = staple.encoding
    // OpenSSL frees it with the connection.
    guard let copy = CRYPTO_malloc(encoding.count, #file, #line) else { return SSL_TLSEXT_ERR_NOACK }
    copy.copyMemory(from: encoding, byteCount: encoding.count)
    _ = ag_ssl_set_tlsext_status_ocsp_resp(
        connection, copy.assumingMemoryBound(to: UInt8.self), encoding.count)
    return SSL_TLSEXT_ERR_OK
}

// MARK: - Session resumption

extension ServerContext {
    private func enableResumption(
        presenting chain: [Certificate], trusting authorities: [Certificate]
    ) throws(CryptographyError) {
        // A session of another host, or of a host with another trust, leads to a full handshake, at every gateway.
        //
        // Each list is hashed separately: a certificate that one host presents may be one that another host trusts. The
        // names are included, because hosts that are otherwise equal may lead to different services. The rules for
        // certificates are included, so that sessions of those that are not accepted here are unknown. So is what
        // identities keep of them for services, which older sessions may lack. Whether certificates are optional is not:
        // the table checks it. Revocation lists and pins are not: they change often, and each resumption is checked
        // against the current ones (`sessionWanted`, `SessionTickets`).
        let admission = trust.admission
        let kinds: [UInt8] = [
            admission.selfSigned ? 1 : 0, trust.encoder.kept.rawValue, admission.usage == .required ? 1 : 0,
            admission.names == nil ? 0 : 1,
        ]
        let keys = Array("\(admission.keys);".utf8)
        // No name contains a space.
        let names = names.map(\.text).sorted().joined(separator: " ")
        let all = try digest(of: chain) + digest(of: authorities) + kinds + keys + Array(names.utf8)
        sessionBinding = try library.sha256(of: all.span).bytes
        SSL_CTX_set_session_id_context(pointer, sessionBinding, UInt32(sessionBinding.count))
        SSL_CTX_set_ex_data(pointer, Self.contextIndex, Unmanaged.passUnretained(self).toOpaque())
        _ = ag_ssl_ctx_set_session_cache_mode(pointer, Int(SSL_SESS_CACHE_SERVER | SSL_SESS_CACHE_NO_INTERNAL))
        SSL_CTX_set_timeout(pointer, 3600)
        SSL_CTX_set_num_tickets(pointer, 1)
        SSL_CTX_sess_set_new_cb(pointer, sessionMade)
        SSL_CTX_sess_set_get_cb(pointer, sessionWanted)
        guard SessionTickets.enable(in: pointer) else { throw .fromQueue(doing: "enable session tickets") }
    }

    private func digest(of certificates: [Certificate]) throws(CryptographyError) -> [UInt8] {
        var thumbprints: [UInt8] = []
        for certificate in certificates { thumbprints += try certificate.thumbprint(library) }
        return try library.sha256(of: thumbprints.span).bytes
    }

    // MARK: - Data attached to OpenSSL's objects

    fileprivate static let contextIndex = ag_ssl_ctx_get_ex_new_index()
    /// The index of a session's identity, retained once for each copy of the session.
    fileprivate static let identityIndex = ag_ssl_session_get_ex_new_index(identityCopied, identityFreed)

    static func identity(of session: OpaquePointer?) -> ClientIdentity? {
        guard let session, let data = SSL_SESSION_get_ex_data(session, identityIndex) else { return nil }
        return Unmanaged<ClientIdentity>.fromOpaque(data).takeUnretainedValue()
    }

    /// Attaches the identity to a session that has none.
    ///
    /// - Returns: false if memory is exhausted.
    static func attach(_ identity: ClientIdentity, to session: OpaquePointer?) -> Bool {
        let retained = Unmanaged.passRetained(identity)
        guard SSL_SESSION_set_ex_data(session, identityIndex, retained.toOpaque()) == 1 else {
            retained.release()
            return false
        }
        return true
    }

    static func of(_ connection: OpaquePointer?) -> ServerContext? {
        SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), contextIndex)
            .map { Unmanaged<ServerContext>.fromOpaque($0).takeUnretainedValue() }
    }
}

// MARK: - Callbacks

/// Retains the identity for a copied session. TLS 1.3 copies the session for each ticket it sends.
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

/// Stores a session whose ticket is its id. Returns 1 to keep the reference that OpenSSL counted for us.
private nonisolated func sessionMade(_ connection: OpaquePointer?, _ session: OpaquePointer?) -> Int32 {
    guard let connection, let session, let context = ServerContext.of(connection) else { return 0 }
    guard !SessionTickets.isEncrypted(connection) else {
        // The ticket has it, and the session the identity.
        SSL_SESSION_set1_ticket_appdata(session, nil, 0)
        return 0
    }
    LeanSession.emptyChain(of: connection)
    context.sessions.insert(session)
    return 1
}

private nonisolated func sessionWanted(
    _ connection: OpaquePointer?, _ bytes: UnsafePointer<UInt8>?, _ length: Int32, _ copy: UnsafeMutablePointer<Int32>?
) -> OpaquePointer? {
    // The table has counted the reference that OpenSSL takes over.
    copy?.pointee = 0
    guard let context = ServerContext.of(connection),
        let id = SessionID(UnsafeBufferPointer(start: bytes, count: Int(length))),
        let session = context.sessions.find(id, admitting: context.trust.admission)
    else { return nil }
    let record = connection.flatMap(HandshakeRecord.of)
    record?.offeredSession = id
    record?.fullHandshakeTime = ag_ssl_session_get_time(session)
    return session
}

/// The choice of the host, when the ClientHello is complete and none of it has been evaluated: before version, session,
/// certificate and client are decided.
extension ServerContext {
    /// Registers the choice of the host for connections of this context. A connection that began in another context
    /// calls it too: after a HelloRetryRequest, the second ClientHello is handled by the chosen context.
    func readClientHello() {
        SSL_CTX_set_client_hello_cb(pointer, clientHelloReceived, nil)
    }

    /// Moves a connection of another context of the same listener to this context.
    ///
    /// `SSL_set_SSL_CTX` moves everything that OpenSSL looks up in the context when needed: trusted authorities and
    /// their names, the callbacks that verify and staple, ciphers, ALPN. It also moves what belongs to the certificate:
    /// key, chain, signatures, security level. `SSL_new` copied the rest from the first context, so it stays unless it
    /// is set here. CVE-2025-23419 resulted from leaving some of it out. Mode, read-ahead and timeouts are the same in
    /// every context.
    ///
    /// - Returns: false if memory is exhausted; the connection must end.
    func takeOver(_ connection: OpaquePointer) -> Bool {
        guard SSL_get_SSL_CTX(connection) != pointer else { return true }
        guard SSL_set_SSL_CTX(connection, pointer) == pointer,
            SSL_set_session_id_context(connection, sessionBinding, UInt32(sessionBinding.count)) == 1,
            ag_ssl_set_min_proto_version(connection, ag_ssl_ctx_get_min_proto_version(pointer)) == 1,
            ag_ssl_set_max_proto_version(connection, ag_ssl_ctx_get_max_proto_version(pointer)) == 1,
            ag_ssl_set1_groups_list(connection, groups) == 1,
            SSL_set_num_tickets(connection, SSL_CTX_get_num_tickets(pointer)) == 1
        else { return false }
        SSL_set_verify(connection, SSL_CTX_get_verify_mode(pointer), nil)
        SSL_set_verify_depth(connection, SSL_CTX_get_verify_depth(pointer))
        let options = SSL_CTX_get_options(pointer)
        SSL_clear_options(connection, ~options)
        SSL_set_options(connection, options)
        return true
    }
}
