internal import COpenSSL
public import Cryptography

/// The trust and the identity of TLS connections to servers. `TLSDestination` names the server of a connection.
///
/// One per upstream and worker, on the worker's own library context.
public final class ClientContext {
    let pointer: OpaquePointer
    /// Retained for its library context. OpenSSL counts its own references to the certificates.
    private let authorities: TrustedAuthorities

    /// The maximum number of authorities between a server's certificate and a trusted one.
    private static let depth: Int32 = 4

    /// Creates a context.
    ///
    /// - Parameters:
    ///   - authorities: the authorities that servers' certificates must chain to.
    ///   - identity: the client certificate chain and its key. Nil for none.
    ///   - applicationProtocol: the protocol that is offered to servers.
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
        SSL_CTX_set1_cert_store(pointer, authorities.store.pointer)
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

    /// The settings of a context, the same for all workers.
    public struct Settings: Sendable {
        public var authorities: TrustedAuthorities
        /// Our certificate, leaf first, and its key, in PEM. Nil for none.
        public var identity: (certificates: [UInt8], key: [UInt8])?
        public var policy: TLSPolicy
        /// The application protocol.
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
            throw .fromQueue(
                doing:
                    "use the client key: it must be the key of \(leaf.subject), "
                    + "with which this certificate was requested"
            )
        }
    }

    /// Offers one protocol with ALPN (RFC 7301), so that a server cannot choose another.
    private func offer(_ applicationProtocol: ApplicationProtocol) throws(CryptographyError) {
        let name = applicationProtocol.name
        let list = [UInt8(name.utf8.count)] + Array(name.utf8)
        ERR_clear_error()
        // Unlike other calls, this one returns 0 on success.
        guard SSL_CTX_set_alpn_protos(pointer, list, UInt32(list.count)) == 0 else {
            throw .fromQueue(doing: "offer \(name)")
        }
    }
}

// MARK: - Callbacks

/// Handles each certificate of a server's chain, and each objection to it. An objection stands; only its text is kept.
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

/// Handles changes of a connection's state, and alerts.
private nonisolated func connectionInformed(_ connection: OpaquePointer?, _ place: Int32, _ value: Int32) {
    guard ag_ssl_is_close_notify(place, value) == 1, let connection else { return }
    DestinationRecord.of(connection)?.hasEnded = true
}

/// Keeps a session. Returns 1 to keep the reference that OpenSSL counted for us.
private nonisolated func sessionReceived(_ connection: OpaquePointer?, _ session: OpaquePointer?) -> Int32 {
    guard let connection, let session, let record = DestinationRecord.of(connection) else { return 0 }
    return record.destination.keep(session) ? 1 : 0
}

/// A server with its context, the required name of its certificate, and its sessions.
///
/// Name and sessions are one object. So no session is offered under another name, to another server, or under other
/// trust (RFC 8446 section 4.6.1). Belongs to the thread of its context.
public final class TLSDestination {
    let context: ClientContext
    /// A host name, or a literal address without brackets.
    public let name: String
    /// The sessions in the order of their arrival. Each is ours to free.
    private var sessions: [OpaquePointer] = []

    /// The maximum number of sessions. A server may send any number; each simultaneous connection takes one.
    private static let limit = 8
    private let resumes: Bool

    /// Creates a destination.
    ///
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
            // It counts a reference of its own. An unusable session costs only a full handshake.
            SSL_set_session(connection, session)
            SSL_SESSION_free(session)
        }
        SSL_set_connect_state(connection)
        return connection
    }

    private func demandName(of connection: OpaquePointer) -> Bool {
        // A literal address is compared with the certificate's addresses, and is no server name (RFC 6066 section 3).
        if X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), name) == 1 { return true }
        // Only names of the extension subjectAltName, and wildcards only for a whole label (RFC 9525 section 6.3).
        SSL_set_hostflags(
            connection, UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        return SSL_set1_host(connection, name) == 1 && ag_ssl_set_tlsext_host_name(connection, name) == 1
    }

    // MARK: - Sessions

    /// Keeps a session.
    ///
    /// - Returns: whether the reference was taken over.
    fileprivate func keep(_ session: OpaquePointer) -> Bool {
        guard resumes else { return false }
        if sessions.count == Self.limit { SSL_SESSION_free(sessions.removeFirst()) }
        sessions.append(session)
        return true
    }

    /// Removes and returns a session, with a reference for the caller. Tickets of TLS 1.3 are used once: otherwise an
    /// observer of the network could see that two connections have one client (RFC 8446 appendix C.4).
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

    /// Returns whether a session can be used. A server that resumes one shows no certificate again, so the one it has
    /// shown must still be valid.
    private static func isGood(_ session: OpaquePointer) -> Bool {
        guard SSL_SESSION_is_resumable(session) == 1, let certificate = SSL_SESSION_get0_peer(session) else {
            return false
        }
        return X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0
    }

    var sessionCount: Int { sessions.count }
}

/// The data of OpenSSL's callbacks for an outgoing connection. Owned by the `TLSStream`; OpenSSL's connection refers to
/// it.
final class DestinationRecord {
    /// Retained with its context: tickets arrive at any time.
    let destination: TLSDestination
    /// Whether the server has sent close_notify. Without it, anybody on the path may have ended the connection, and
    /// content delimited by the end is incomplete (RFC 9112 section 9.8).
    var hasEnded = false
    /// The reason why the server's certificate was refused, for the log.
    private(set) var fault: String?

    private static let index = ag_ssl_get_ex_new_index(nil)
    /// The maximum length of a subject or an issuer, which a stranger may have written.
    private static let longestName = 256

    init(_ destination: TLSDestination) {
        self.destination = destination
    }

    /// Attaches the record to a connection.
    ///
    /// - Returns: false if memory is exhausted.
    func attach(to connection: OpaquePointer) -> Bool {
        SSL_set_ex_data(connection, Self.index, Unmanaged.passUnretained(self).toOpaque()) == 1
    }

    static func of(_ connection: OpaquePointer) -> DestinationRecord? {
        SSL_get_ex_data(connection, index).map { Unmanaged<DestinationRecord>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Stores the reason of a refusal.
    ///
    /// - Parameter certificate: the certificate of the chain with the objection.
    func refused(_ certificate: Certificate?, _ reason: String) {
        let names = certificate.map {
            ": subject \($0.subject.prefix(Self.longestName)), issuer \($0.issuer.prefix(Self.longestName))"
        }
        fault = "the server's certificate for \(destination.name) is refused: \(reason)\(names ?? "")"
    }
}

/// The authorities that servers' certificates must chain to, read once and shared by the contexts of all workers.
///
/// `@unchecked Sendable`: nothing changes after `init`. OpenSSL locks a store for look-ups, and counts references of it
/// and of its certificates atomically. The library context is only retained for the certificates, which refer to it.
public final class TrustedAuthorities: @unchecked Sendable {
    let store: TrustStore
    public let certificates: [Certificate]
    /// The number of skipped certificates.
    public let skipped: Int
    private let library: LibraryContext

    /// Reads authorities.
    ///
    /// - Parameters:
    ///   - pem: one or more certificates. They may be intermediates, which are then trusted themselves.
    ///   - skipsOthers: whether certificates that are no authorities are skipped, for a bundle from elsewhere.
    ///     Otherwise they
    ///     are refused.
    public init(pem: [[UInt8]], skipsOthers: Bool = false) throws(CryptographyError) {
        library = try LibraryContext()
        var all: [Certificate] = []
        for file in pem { all += try Certificate.all(inPEM: file, library) }
        certificates = skipsOthers ? all.filter(\.isAuthority) : all
        skipped = all.count - certificates.count
        store = try TrustStore(certificates)
    }
}
