internal import COpenSSL

/// What the handshake leaves for the connection. Owned by the `TLSStream`; OpenSSL's connection refers to it.
final class HandshakeRecord {
    var fault: ClientCertificateFault?
    /// The client's chain had been verified before.
    var isChainKnown = false

    private static let index = ag_ssl_get_ex_new_index(nil)

    /// - Returns: false if there is no memory for it.
    func attach(to connection: OpaquePointer) -> Bool {
        SSL_set_ex_data(connection, Self.index, Unmanaged.passUnretained(self).toOpaque()) == 1
    }

    static func of(_ connection: OpaquePointer) -> HandshakeRecord? {
        SSL_get_ex_data(connection, index).map { Unmanaged<HandshakeRecord>.fromOpaque($0).takeUnretainedValue() }
    }
}
