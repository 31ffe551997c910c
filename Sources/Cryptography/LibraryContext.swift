internal import COpenSSL
public import Vocabulary

/// An OpenSSL library context that keeps the algorithms in frequent use.
///
/// Each worker has its own. A shared context takes locks: 575 instead of 520 microseconds per handshake were measured
/// with two threads. Fetching an algorithm costs more than the digest of a short message.
///
/// Not `Sendable`: a context belongs to the thread of its worker. Other threads may use keys and certificates made in
/// it.
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

    /// Returns SHA-256 of `bytes`.
    public func sha256(of bytes: Span<UInt8>) throws(CryptographyError) -> Digest256 {
        try sha256(of: bytes, Span())
    }

    /// Returns SHA-256 of `first` followed by `second`.
    public func sha256(of first: Span<UInt8>, _ second: Span<UInt8>) throws(CryptographyError) -> Digest256 {
        var digest = Digest256()
        try compute(sha256, first, second, into: &digest)
        return digest
    }

    /// Returns SHA-512 of `bytes`.
    public func sha512(of bytes: Span<UInt8>) throws(CryptographyError) -> Digest512 {
        var digest = Digest512()
        try compute(sha512, bytes, Span(), into: &digest)
        return digest
    }

    /// Returns SHA-1 of `first` followed by `second`, for protocols that require it without relying on its security.
    ///
    /// The answer to a WebSocket's key is one: it only proves that the key was read (RFC 6455 section 10.8). The
    /// algorithm is fetched for each call, which is rare.
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

    /// Returns `count` unpredictable bytes.
    public func randomBytes(_ count: Int) throws(CryptographyError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        ERR_clear_error()
        guard RAND_bytes_ex(pointer, &bytes, count, 256) == 1 else { throw .fromQueue(doing: "generate random bytes") }
        return bytes
    }

    /// Returns an unpredictable, unique serial number.
    public func randomSerial() throws(CryptographyError) -> CertificateSerial {
        guard let serial = CertificateSerial(random: try randomBytes(16)) else {
            preconditionFailure("a serial number has 16 random bytes")
        }
        return serial
    }
}

/// The version of the OpenSSL library in this process.
public enum OpenSSLVersion {
    /// The version of the loaded library, such as `3.0.17`. The headers may have another.
    public static var text: String {
        OpenSSL_version(OPENSSL_VERSION_STRING).map { String(cString: $0) } ?? "unknown"
    }
}

/// A failed OpenSSL call, or input that is not as required.
public struct CryptographyError: Error, Equatable, Sendable, CustomStringConvertible {
    /// A description of the attempt, such as "read the certificate in server.pem".
    public let doing: String
    /// OpenSSL's reasons, the innermost last. Empty if OpenSSL did not report the error.
    public let reasons: [String]

    public init(doing: String, reasons: [String] = []) {
        self.doing = doing
        self.reasons = reasons
    }

    /// Moves OpenSSL's error queue of this thread into a value. Clear the queue before the call, or older errors are
    /// included.
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

/// OpenSSL's error queue of this thread.
package enum ErrorQueue {
    /// Discards errors of earlier calls. For calls on the path of a request: `ERR_clear_error` visits all sixteen
    /// slots, used or not, and takes four times as long.
    package static func forget() {
        if ERR_peek_error() != 0 { ERR_clear_error() }
    }
}
