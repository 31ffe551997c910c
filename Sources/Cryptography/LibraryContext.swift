internal import COpenSSL

/// One OpenSSL library context, with the algorithms that are needed often fetched once.
///
/// Every worker has its own: fetching in a shared one takes its locks (measured: 575 against 520 microseconds per
/// handshake with two threads), and fetching per call costs more than the digest of a short message does.
///
/// Not `Sendable`: a context belongs to the thread of its worker. What was made in it (keys, certificates) may be used
/// by others.
public final class LibraryContext {
    package let pointer: OpaquePointer
    let sha256: OpaquePointer
    private let digestContext: OpaquePointer

    public init() throws(CryptographyError) {
        ERR_clear_error()
        let pointer = OSSL_LIB_CTX_new()
        let sha256 = EVP_MD_fetch(pointer, "SHA256", nil)
        let digestContext = EVP_MD_CTX_new()
        guard let pointer, let sha256, let digestContext else {
            EVP_MD_CTX_free(digestContext)
            EVP_MD_free(sha256)
            OSSL_LIB_CTX_free(pointer)
            throw .fromQueue(doing: "create a library context")
        }
        self.pointer = pointer
        self.sha256 = sha256
        self.digestContext = digestContext
    }

    deinit {
        EVP_MD_CTX_free(digestContext)
        EVP_MD_free(sha256)
        OSSL_LIB_CTX_free(pointer)
    }

    /// SHA-256 of `bytes`: 32 bytes.
    public func sha256(of bytes: Span<UInt8>) throws(CryptographyError) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        ERR_clear_error()
        let done = bytes.withUnsafeBufferPointer { bytes in
            EVP_DigestInit_ex2(digestContext, sha256, nil) == 1
                && EVP_DigestUpdate(digestContext, bytes.baseAddress, bytes.count) == 1
                && EVP_DigestFinal_ex(digestContext, &digest, nil) == 1
        }
        guard done else { throw .fromQueue(doing: "compute SHA-256") }
        return digest
    }

    /// `count` unpredictable bytes.
    public func randomBytes(_ count: Int) throws(CryptographyError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        ERR_clear_error()
        guard RAND_bytes_ex(pointer, &bytes, count, 256) == 1 else { throw .fromQueue(doing: "draw random bytes") }
        return bytes
    }

    /// The OpenSSL the process runs with, `OpenSSL 3.0.x ...`.
    public static var version: String { String(cString: OpenSSL_version(OPENSSL_VERSION)) }
}
