internal import COpenSSL
internal import Glibc

/// Encrypted session tickets of TLS 1.3 (RFC 8446 section 4.6.1): clients with a certificate resume at every worker,
/// process and gateway with the same secret, and nothing is kept for them.
///
/// OpenSSL encrypts the session with keys of `TicketKeys`, and this file adds the identity: the verdict on the client's
/// chain. Each resumption judges the identity by the present rules of the host, and OpenSSL compares the session id
/// context, a fingerprint of the host and its trust. What does not pass leads to a full handshake, which gives the
/// reason.
///
/// Others have a session of the `SessionTable`, whose ticket is its id: those without a certificate, because their
/// session must be forgotten when one is demanded of them, and those with TLS 1.2, whose tickets are not encrypted on
/// their way and would give away the connection with their key.
enum SessionTickets {
    static func enable(in context: OpaquePointer) -> Bool {
        SSL_CTX_set_session_ticket_cb(context, ticketMade, ticketRead, nil) == 1
            && SSL_CTX_set_tlsext_ticket_key_evp_cb(context, ticketKeyWanted) == 1
    }

    /// The maximum number of tickets in a ClientHello. Clients offer one or two, and OpenSSL tries to decrypt each.
    private static let mostOffered = 8

    /// Whether a client offers more tickets than any client needs. A ClientHello has room for 1,600, which would cost
    /// more than two full handshakes.
    ///
    /// - Parameter connection: one whose ClientHello is complete and not evaluated yet.
    static func isOfferExcessive(_ connection: OpaquePointer) -> Bool {
        withExtension(UInt32(TLSEXT_TYPE_psk), of: connection) { $0.hasTickets(above: mostOffered) } ?? false
    }

    /// Has OpenSSL decrypt the ticket that a client offers, if it is an encrypted one.
    ///
    /// - Parameter connection: one whose ClientHello is complete and not evaluated yet.
    static func readOffer(of connection: OpaquePointer) {
        guard
            withExtension(UInt32(TLSEXT_TYPE_supported_versions), of: connection, { $0.offersTLS13 }) == true,
            withExtension(UInt32(TLSEXT_TYPE_psk), of: connection, { $0.firstTicketLength }) ?? SessionID.length
                != SessionID.length
        else { return }
        SSL_clear_options(connection, ag_ssl_no_ticket())
    }

    private static func withExtension<Value>(
        _ type: UInt32, of connection: OpaquePointer, _ read: (Span<UInt8>) -> Value
    ) -> Value? {
        var bytes: UnsafePointer<UInt8>?
        var count = 0
        guard SSL_client_hello_get0_ext(connection, type, &bytes, &count) == 1, let bytes else { return nil }
        return read(UnsafeBufferPointer(start: bytes, count: count).span)
    }

    /// Whether the session of a connection went into an encrypted ticket.
    static func isEncrypted(_ connection: OpaquePointer) -> Bool {
        SSL_get_options(connection) & ag_ssl_no_ticket() == 0
    }

    /// Whether the ticket of a connection is to be encrypted: if so, its session holds the identity from now on.
    fileprivate static func encrypts(_ connection: OpaquePointer, _ session: OpaquePointer) -> Bool {
        guard let context = ServerContext.of(connection), context.tickets.prepare(),
            let content = ServerContext.identity(of: session)?.ticketContent
        else { return false }
        return SSL_SESSION_set1_ticket_appdata(session, content, content.count) == 1
    }
}

extension Span where Element == UInt8 {
    /// Whether a list of supported versions (RFC 8446 section 4.2.1) contains TLS 1.3. OpenSSL then chooses it.
    fileprivate var offersTLS13: Bool {
        stride(from: 1, to: count - 1, by: 2).contains { self[$0] == 3 && self[$0 + 1] == 4 }
    }

    /// The length of the first ticket in a list of offered keys (RFC 8446 section 4.2.11).
    fileprivate var firstTicketLength: Int? { count < 4 ? nil : length(at: 2) }

    /// Whether such a list, behind its own length, has more tickets than `limit`. OpenSSL refuses a malformed list.
    fileprivate func hasTickets(above limit: Int) -> Bool {
        guard count >= 2 else { return false }
        let end = Swift.min(count, 2 + length(at: 0))
        var (place, number) = (2, 0)
        while place + 2 <= end {
            // An age of four bytes follows each ticket.
            place += 2 + length(at: place) + 4
            number += 1
            if number > limit { return true }
        }
        return false
    }

    private func length(at place: Int) -> Int { Int(self[place]) << 8 | Int(self[place + 1]) }
}

// MARK: - Callbacks

/// Prepares the session of a new ticket, before OpenSSL encodes it. Returns 0 on a failure, which ends the connection.
private nonisolated func ticketMade(_ connection: OpaquePointer?, _: UnsafeMutableRawPointer?) -> Int32 {
    guard let connection, let session = SSL_get_session(connection) else { return 0 }
    guard SSL_version(connection) == TLS1_3_VERSION else { return 1 }
    // No ticket contains a certificate.
    LeanSession.emptyChain(of: connection)
    guard LeanSession.strip(session) else { return 0 }
    // Resuming proves no possession of the certificate's key, so it does not prolong the session (RFC 8446 section
    // 4.6.1): OpenSSL has set the present as its time.
    if SSL_session_reused(connection) == 1 {
        guard let time = HandshakeRecord.of(connection)?.fullHandshakeTime else { return 0 }
        ag_ssl_session_set_time(session, time)
    }
    if SessionTickets.encrypts(connection, session) {
        SSL_clear_options(connection, ag_ssl_no_ticket())
    } else {
        SSL_set_options(connection, ag_ssl_no_ticket())
    }
    return 1
}

/// Decides about a ticket that OpenSSL has decrypted, or could not decrypt.
private nonisolated func ticketRead(
    _ connection: OpaquePointer?, _ session: OpaquePointer?, _: UnsafePointer<UInt8>?, _: Int,
    _ status: SSL_TICKET_STATUS, _: UnsafeMutableRawPointer?
) -> SSL_TICKET_RETURN {
    // Each handshake brings a new ticket, used once by clients that do not want to be recognised by it.
    let refused = SSL_TICKET_RETURN(SSL_TICKET_RETURN_IGNORE_RENEW)
    guard status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW, let session,
        let context = ServerContext.of(connection)
    else { return refused }
    var content: UnsafeMutableRawPointer?
    var count = 0
    guard SSL_SESSION_get0_ticket_appdata(session, &content, &count) == 1, let content,
        let identity = ClientIdentity(
            ticketContent: UnsafeRawBufferPointer(start: content, count: count).bindMemory(to: UInt8.self),
            sharing: context.trust.encoder),
        context.trust.admission.objection(to: identity, at: Int64(time(nil))) == nil,
        ServerContext.attach(identity, to: session)
    else { return refused }
    // The identity has it now.
    SSL_SESSION_set1_ticket_appdata(session, nil, 0)
    connection.flatMap(HandshakeRecord.of)?.fullHandshakeTime = ag_ssl_session_get_time(session)
    return SSL_TICKET_RETURN(SSL_TICKET_RETURN_USE_RENEW)
}

/// Chooses the keys of a ticket. Returns 1 if they are set, 0 if no key has the ticket's name, -1 on a failure.
private nonisolated func ticketKeyWanted(
    _ connection: OpaquePointer?, _ name: UnsafeMutablePointer<UInt8>?, _ start: UnsafeMutablePointer<UInt8>?,
    _ cipher: OpaquePointer?, _ code: OpaquePointer?, _ isEncrypting: Int32
) -> Int32 {
    guard let keys = ServerContext.of(connection)?.tickets, let name, let start, let cipher, let code else { return -1 }
    if isEncrypting == 1 { return keys.encrypt(name, start, cipher, code) ? 1 : -1 }
    return keys.decrypt(name, start, cipher, code).map { $0 ? 1 : -1 } ?? 0
}
