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

/// ALPN (RFC 7301): http/1.1, else http/1.0, and an alert for clients that offer protocols but neither of these.
nonisolated func selectProtocol(
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
