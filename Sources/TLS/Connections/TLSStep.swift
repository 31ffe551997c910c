internal import COpenSSL
internal import Cryptography

/// How one step of a TLS connection ended.
public enum TLSStep: Equatable, Sendable {
    /// The step is complete; for reads and writes, that many bytes moved (a handshake moves none).
    case done(Int)
    /// Wait until the socket can be read.
    case wantRead
    /// Wait until the socket can be written.
    case wantWrite
    /// The peer has ended the connection with close_notify.
    case endOfStream
    /// The connection is broken; nothing more can be read or written.
    case failed(TLSFailure)
}

/// Why a TLS connection broke.
public enum TLSFailure: Error, Equatable, Sendable {
    /// The client certificate was refused.
    case clientCertificate(ClientCertificateFault)
    /// The peer closed or reset the connection without close_notify.
    case disconnected
    /// The protocol failed; OpenSSL's reason.
    case tls(String)

    /// Reads OpenSSL's error queue of this thread.
    static func fromQueue() -> TLSFailure {
        let first = ERR_peek_error()
        if ag_err_get_lib(first) == ERR_LIB_SSL {
            switch ag_err_get_reason(first) {
            case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return .clientCertificate(.missing)
            case SSL_R_UNEXPECTED_EOF_WHILE_READING: return .disconnected
            default: break
            }
        }
        let reasons = CryptographyError.fromQueue(doing: "").reasons
        return reasons.isEmpty ? .disconnected : .tls(reasons.joined(separator: "; "))
    }
}
