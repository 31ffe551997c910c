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

/// One server that connections are opened to: with which context, the name that its certificate must bear, and the sessions
/// it has given.
///
/// Name and sessions are one object, so that no session is ever offered under another name, to another server, or where
/// others are trusted (RFC 8446 section 4.6.1). Of one thread, that of its context.
public final class TLSDestination {
    let context: ClientContext
    /// A host name, or a literal address without brackets.
    public let name: String
    /// The last one received last. Each is ours to free.
    private var sessions: [OpaquePointer] = []

    /// A server may send as many as it likes; connections that are opened at once take one each.
    private static let limit = 8
    private let resumes: Bool

    /// - Parameter resumes: whether connections offer sessions of earlier ones.
    public init(_ context: ClientContext, name: String, resumes: Bool = true) {
        self.context = context
        self.name = name
        self.resumes = resumes
    }

    deinit {
        for session in sessions { SSL_SESSION_free(session) }
    }

    // MARK: - Connections

    func makeConnection(_ descriptor: Int32) -> OpaquePointer? {
        guard let connection = SSL_new(context.pointer) else { return nil }
        guard SSL_set_fd(connection, descriptor) == 1, demandName(of: connection) else {
            SSL_free(connection)
            return nil
        }
        if let session = takeSession() {
            // Which counts a reference of its own. One that cannot be used costs a full handshake, no more.
            SSL_set_session(connection, session)
            SSL_SESSION_free(session)
        }
        SSL_set_connect_state(connection)
        return connection
    }

    private func demandName(of connection: OpaquePointer) -> Bool {
        // A literal address is looked for among the certificate's addresses, and is no server name (RFC 6066 section 3).
        if X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), name) == 1 { return true }
        // Names of the extension subjectAltName alone, and a wildcard for a whole label (RFC 9525 section 6.3).
        SSL_set_hostflags(
            connection, UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        return SSL_set1_host(connection, name) == 1 && ag_ssl_set_tlsext_host_name(connection, name) == 1
    }

    // MARK: - Sessions

    /// - Returns: whether the reference was taken over.
    func keep(_ session: OpaquePointer) -> Bool {
        guard resumes else { return false }
        if sessions.count == Self.limit { SSL_SESSION_free(sessions.removeFirst()) }
        sessions.append(session)
        return true
    }

    /// A reference that is the caller's. Tickets of TLS 1.3 are used once: an observer of the network could otherwise
    /// see that two connections have one client (RFC 8446 appendix C.4).
    private func takeSession() -> OpaquePointer? {
        while let session = sessions.popLast() {
            guard Self.isGood(session) else {
                SSL_SESSION_free(session)
                continue
            }
            if SSL_SESSION_get_protocol_version(session) < TLS1_3_VERSION {
                SSL_SESSION_up_ref(session)
                sessions.append(session)
            }
            return session
        }
        return nil
    }

    /// A server that resumes a session shows no certificate again: the one it has shown must still be valid.
    private static func isGood(_ session: OpaquePointer) -> Bool {
        guard SSL_SESSION_is_resumable(session) == 1, let certificate = SSL_SESSION_get0_peer(session) else {
            return false
        }
        return X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0
    }

    var sessionCount: Int { sessions.count }
}

/// What OpenSSL's callbacks tell of a connection that we have opened. Owned by the `TLSStream`; OpenSSL's connection refers
/// to it.
final class DestinationRecord {
    /// Kept alive by it, with the context: tickets come at any time.
    let destination: TLSDestination
    /// The server has said that nothing more comes. Without that, the end of the connection is anybody's who is on the way, and
    /// content that lasts until it is not whole (RFC 9112 section 9.8).
    var hasEnded = false
    /// Why the server's certificate was refused, for the log.
    private(set) var fault: String?

    private static let index = ag_ssl_get_ex_new_index(nil)
    /// Of a subject or an issuer, which a stranger may have written.
    private static let longestName = 256

    init(_ destination: TLSDestination) {
        self.destination = destination
    }

    /// - Returns: false if there is no memory for it.
    func attach(to connection: OpaquePointer) -> Bool {
        SSL_set_ex_data(connection, Self.index, Unmanaged.passUnretained(self).toOpaque()) == 1
    }

    static func of(_ connection: OpaquePointer) -> DestinationRecord? {
        SSL_get_ex_data(connection, index).map { Unmanaged<DestinationRecord>.fromOpaque($0).takeUnretainedValue() }
    }

    /// - Parameter certificate: the one of the chain that is objected to.
    func refused(_ certificate: Certificate?, _ reason: String) {
        let names = certificate.map {
            ": subject \($0.subject.prefix(Self.longestName)), issuer \($0.issuer.prefix(Self.longestName))"
        }
        fault = "the server's certificate for \(destination.name) is refused: \(reason)\(names ?? "")"
    }
}

/// The authorities that servers' certificates must chain to: read once, however many they are, and shared by the contexts of
/// all workers.
///
/// `@unchecked Sendable`: nothing changes after `init`. OpenSSL looks into a store under the store's own lock, and counts
/// references of it and of its certificates atomically; the library context is only kept, for the certificates refer to it.
public final class TrustedAuthorities: @unchecked Sendable {
    let store: OpaquePointer
    public let certificates: [Certificate]
    /// Certificates that were passed over.
    public let skipped: Int
    private let library: LibraryContext

    /// - Parameters:
    ///   - pem: one or more certificates. They may be intermediates: what is configured is what is trusted.
    ///   - skipsOthers: whether certificates that are no authorities are passed over: in a bundle that somebody else has made.
    ///     Otherwise they are refused.
    public init(pem: [[UInt8]], skipsOthers: Bool = false) throws(CryptographyError) {
        library = try LibraryContext()
        var all: [Certificate] = []
        for file in pem { all += try Certificate.all(inPEM: file, library) }
        certificates = skipsOthers ? all.filter(\.isAuthority) : all
        skipped = all.count - certificates.count
        ERR_clear_error()
        guard let store = X509_STORE_new() else { throw .fromQueue(doing: "make a store of authorities") }
        self.store = store
        X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
        for authority in certificates {
            guard authority.isAuthority else {
                throw CryptographyError(doing: "trust \(authority.subject): it is not a certification authority")
            }
            ERR_clear_error()
            // One that is there already is no error.
            guard X509_STORE_add_cert(store, authority.pointer) == 1 else {
                throw .fromQueue(doing: "trust \(authority.subject)")
            }
        }
    }

    deinit {
        X509_STORE_free(store)
    }
}
