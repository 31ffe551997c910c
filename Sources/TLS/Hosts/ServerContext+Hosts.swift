internal import COpenSSL
internal import Cryptography

/// Choosing the host, when all of the ClientHello is there and nothing of it has been looked at yet: before version, session,
/// certificate and client are decided about.
extension ServerContext {
    /// Has the host chosen on connections of this context. On those too that another one began: a second ClientHello, after a
    /// HelloRetryRequest, comes to the context that the first has chosen.
    func readClientHello() {
        SSL_CTX_set_client_hello_cb(pointer, clientHelloReceived, nil)
    }

    /// Makes a connection this context's that another one of its listener has begun.
    ///
    /// `SSL_set_SSL_CTX` takes over what OpenSSL looks up in the context when it needs it (trusted authorities and their names,
    /// the callbacks that verify and staple, ciphers, ALPN) and what belongs to the certificate (key, chain, signatures, security level). The rest
    /// `SSL_new` has copied from the first context, and it stays as it was, unless it is set here: CVE-2025-23419 is what comes
    /// of leaving some of it out. Mode, read-ahead and timeouts are the same in every context.
    ///
    /// - Returns: false if there was no memory for that; the connection must end.
    func takeOver(_ connection: OpaquePointer) -> Bool {
        guard SSL_get_SSL_CTX(connection) != pointer else { return true }
        guard SSL_set_SSL_CTX(connection, pointer) == pointer,
            SSL_set_session_id_context(connection, sessionBinding, UInt32(sessionBinding.count)) == 1,
            ag_ssl_set_min_proto_version(connection, ag_ssl_ctx_get_min_proto_version(pointer)) == 1,
            ag_ssl_set_max_proto_version(connection, ag_ssl_ctx_get_max_proto_version(pointer)) == 1,
            ag_ssl_set1_groups_list(connection, TLSPolicy.groupList) == 1,
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

extension VirtualHosts {
    /// Gives the connection to the host that its client asks for; the record says which.
    fileprivate func take(_ connection: OpaquePointer, _ record: HandshakeRecord) throws(ClientHelloFault) {
        let asked = try Self.serverName(askedOn: connection)
        guard !record.isHostChosen else {
            // All but a few extensions has to be as it was (RFC 8446 section 4.1.2).
            guard asked == record.serverName else { throw .serverNameChanged }
            return
        }
        let (context, name) = choose(asked)
        record.hostChosen(context, name)
        guard context.takeOver(connection) else { throw .noMemory }
        guard context.protocols.contains(.http11) || Self.namesProtocols(connection) else {
            throw .protocolMissing(context.protocols)
        }
    }

    private static func namesProtocols(_ connection: OpaquePointer) -> Bool {
        var bytes: UnsafePointer<UInt8>?
        var count = 0
        return SSL_client_hello_get0_ext(
            connection, UInt32(TLSEXT_TYPE_application_layer_protocol_negotiation), &bytes, &count) == 1
    }

    private static func serverName(
        askedOn connection: OpaquePointer
    ) throws(ClientHelloFault) -> ServerName? {
        var bytes: UnsafePointer<UInt8>?
        var count = 0
        guard SSL_client_hello_get0_ext(connection, UInt32(TLSEXT_TYPE_server_name), &bytes, &count) == 1 else {
            return nil
        }
        // Empty, it has no first byte.
        guard let bytes else { throw .serverNameMalformed }
        return try ServerNameExtension.parse(UnsafeBufferPointer(start: bytes, count: count).span)
    }
}

private nonisolated func clientHelloReceived(
    _ connection: OpaquePointer?, _ alert: UnsafeMutablePointer<Int32>?, _: UnsafeMutableRawPointer?
) -> Int32 {
    guard let connection, let record = HandshakeRecord.of(connection) else {
        alert?.pointee = SSL_AD_INTERNAL_ERROR
        return SSL_CLIENT_HELLO_ERROR
    }
    do throws(ClientHelloFault) {
        try record.hosts.take(connection, record)
        return SSL_CLIENT_HELLO_SUCCESS
    } catch {
        record.helloFault = error
        alert?.pointee = error.alert
        return SSL_CLIENT_HELLO_ERROR
    }
}
