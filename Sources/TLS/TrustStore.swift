internal import COpenSSL
internal import Cryptography

/// OpenSSL's X509_STORE of authorities, each of which is trusted itself, whether it is a root or an intermediate.
final class TrustStore {
    let pointer: OpaquePointer

    /// - Throws: If a certificate is no authority. A duplicate is no error.
    init(_ authorities: [Certificate]) throws(CryptographyError) {
        ERR_clear_error()
        guard let pointer = X509_STORE_new() else { throw .fromQueue(doing: "create a store of trusted authorities") }
        self.pointer = pointer
        X509_STORE_set_flags(pointer, UInt(X509_V_FLAG_PARTIAL_CHAIN))
        for authority in authorities {
            guard authority.isAuthority else {
                throw CryptographyError(doing: "trust \(authority.subject): it is not a certification authority")
            }
            ERR_clear_error()
            guard X509_STORE_add_cert(pointer, authority.pointer) == 1 else {
                throw .fromQueue(doing: "trust \(authority.subject)")
            }
        }
    }

    deinit {
        X509_STORE_free(pointer)
    }
}
