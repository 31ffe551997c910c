internal import COpenSSL
internal import Cryptography
internal import Glibc

/// The server's answer to a client that asks for the state of its certificate (RFC 6066 section 8): what the operator has fetched
/// of the authority, as long as it is fresh. None after that: a client takes an old one for an attack, and none for none.
nonisolated func stapleResponse(_ connection: OpaquePointer?, _: UnsafeMutableRawPointer?) -> Int32 {
    guard let staple = serverContext(of: connection)?.staple, staple.isFresh(at: Int64(time(nil))) else {
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
