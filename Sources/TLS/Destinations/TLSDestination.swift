internal import COpenSSL

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
