internal import COpenSSL
internal import Cryptography

// What OpenSSL asks in the middle of a handshake.

nonisolated func verifyClientCertificate(
    _ store: OpaquePointer?, _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let store, let argument,
        let data = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx())
    else { return 0 }
    let context = Unmanaged<ServerContext>.fromOpaque(argument).takeUnretainedValue()
    let connection = OpaquePointer(data)
    // The trust that verifies and the chains that it has verified are those of one context.
    switch ClientCertificateVerifier.verify(
        store, admitting: context.admission, knowing: context.chains, context.library)
    {
    case .success((let identity, let isKnown)):
        HandshakeRecord.of(connection)?.isChainKnown = isKnown
        let retained = Unmanaged.passRetained(identity)
        guard
            SSL_SESSION_set_ex_data(SSL_get_session(connection), ServerContext.identityIndex, retained.toOpaque()) == 1
        else {
            retained.release()
            return 0
        }
        return 1
    case .failure(let fault):
        HandshakeRecord.of(connection)?.fault = fault
        return 0
    }
}

/// ALPN (RFC 7301): what the host speaks and the client offers, or the alert for clients that offer only others.
nonisolated func selectProtocol(
    _ connection: OpaquePointer?, _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ outLength: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?, _ offeredLength: UInt32, _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    guard let argument, let offered else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    // The one of the host that was chosen: OpenSSL asks when the ClientHello has been dealt with.
    let context = Unmanaged<ServerContext>.fromOpaque(argument).takeUnretainedValue()
    let list = UnsafeBufferPointer(start: offered, count: Int(offeredLength))
    guard let place = ApplicationProtocol.choose(context.protocols, among: list.span) else {
        connection.flatMap(HandshakeRecord.of)?.helloFault = .protocolUnknown(context.protocols)
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }
    // The answer may point into the client's list, which lives as long as the handshake.
    out?.pointee = offered + place.lowerBound
    outLength?.pointee = UInt8(place.count)
    return SSL_TLSEXT_ERR_OK
}
