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
    let sha512: OpaquePointer
    let hmac: OpaquePointer
    private let digestContext: OpaquePointer

    public init() throws(CryptographyError) {
        ERR_clear_error()
        let pointer = OSSL_LIB_CTX_new()
        let sha256 = EVP_MD_fetch(pointer, "SHA256", nil)
        let sha512 = EVP_MD_fetch(pointer, "SHA512", nil)
        let hmac = EVP_MAC_fetch(pointer, "HMAC", nil)
        let digestContext = EVP_MD_CTX_new()
        guard let pointer, let sha256, let sha512, let hmac, let digestContext else {
            EVP_MD_CTX_free(digestContext)
            EVP_MAC_free(hmac)
            EVP_MD_free(sha512)
            EVP_MD_free(sha256)
            OSSL_LIB_CTX_free(pointer)
            throw .fromQueue(doing: "create a library context")
        }
        self.pointer = pointer
        self.sha256 = sha256
        self.sha512 = sha512
        self.hmac = hmac
        self.digestContext = digestContext
    }

    deinit {
        EVP_MD_CTX_free(digestContext)
        EVP_MAC_free(hmac)
        EVP_MD_free(sha512)
        EVP_MD_free(sha256)
        OSSL_LIB_CTX_free(pointer)
    }

    /// SHA-256 of `bytes`.
    public func sha256(of bytes: Span<UInt8>) throws(CryptographyError) -> Digest256 {
        try sha256(of: bytes, Span())
    }

    /// SHA-256 of `first` followed by `second`, which need not lie beside each other.
    public func sha256(of first: Span<UInt8>, _ second: Span<UInt8>) throws(CryptographyError) -> Digest256 {
        var digest = Digest256()
        try compute(sha256, first, second, into: &digest)
        return digest
    }

    /// SHA-512 of `bytes`.
    public func sha512(of bytes: Span<UInt8>) throws(CryptographyError) -> Digest512 {
        var digest = Digest512()
        try compute(sha512, bytes, Span(), into: &digest)
        return digest
    }

    /// SHA-1 of `first` followed by `second`, for protocols that name it and rely on nothing it once promised: the answer to a
    /// WebSocket's key (RFC 6455 section 10.8) is no secret and proves nothing but that the key was read. Fetched for each
    /// call, which is rare.
    public func sha1(of first: Span<UInt8>, _ second: Span<UInt8>) throws(CryptographyError) -> Digest<20> {
        ERR_clear_error()
        guard let algorithm = EVP_MD_fetch(pointer, "SHA1", nil) else { throw .fromQueue(doing: "fetch SHA-1") }
        defer { EVP_MD_free(algorithm) }
        var digest = Digest<20>()
        try compute(algorithm, first, second, into: &digest)
        return digest
    }

    private func compute<let length: Int>(
        _ algorithm: OpaquePointer, _ first: Span<UInt8>, _ second: Span<UInt8>, into digest: inout Digest<length>
    ) throws(CryptographyError) {
        ErrorQueue.forget()
        let context = digestContext
        let done = digest.fill { room in
            EVP_DigestInit_ex2(context, algorithm, nil) == 1
                && first.withUnsafeBufferPointer { EVP_DigestUpdate(context, $0.baseAddress, $0.count) } == 1
                && second.withUnsafeBufferPointer { EVP_DigestUpdate(context, $0.baseAddress, $0.count) } == 1
                && EVP_DigestFinal_ex(context, room, nil) == 1
        }
        guard done else { throw .fromQueue(doing: "compute a digest") }
    }

    /// `count` unpredictable bytes.
    public func randomBytes(_ count: Int) throws(CryptographyError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        ERR_clear_error()
        guard RAND_bytes_ex(pointer, &bytes, count, 256) == 1 else { throw .fromQueue(doing: "generate random bytes") }
        return bytes
    }
}

/// Which OpenSSL this process runs with.
public enum OpenSSLVersion {
    /// As OpenSSL says it, `3.0.17`: of the library that was loaded, not of the headers that were compiled with.
    public static var text: String {
        OpenSSL_version(OPENSSL_VERSION_STRING).map { String(cString: $0) } ?? "unknown"
    }
}

/// An OpenSSL call failed, or what it was given is not what it should be.
public struct CryptographyError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What was attempted, in words: "read the certificate in server.pem".
    public let doing: String
    /// OpenSSL's reasons, the innermost last; empty if the fault was found here.
    public let reasons: [String]

    public init(doing: String, reasons: [String] = []) {
        self.doing = doing
        self.reasons = reasons
    }

    /// Empties OpenSSL's error queue of this thread into a value. The queue must have been cleared before the call that
    /// failed, or it tells of older failures.
    package static func fromQueue(doing: String) -> CryptographyError {
        var reasons: [String] = []
        while true {
            let code = ERR_get_error()
            guard code != 0 else { break }
            reasons.append(ERR_reason_error_string(code).map { String(cString: $0) } ?? "code \(code)")
        }
        return CryptographyError(doing: doing, reasons: reasons)
    }

    public var description: String {
        reasons.isEmpty ? "cannot \(doing)" : "cannot \(doing): \(reasons.joined(separator: "; "))"
    }
}

/// OpenSSL's errors of this thread.
package enum ErrorQueue {
    /// Forgets what earlier calls have left, so that what is read after the next one is its own. Before calls that requests make:
    /// `ERR_clear_error` goes over all sixteen places whether anything is in them or not, and takes four times as long.
    package static func forget() {
        if ERR_peek_error() != 0 { ERR_clear_error() }
    }
}
