internal import COpenSSL

/// A key of HMAC-SHA-256 (RFC 2104), ready to be used many times.
///
/// The key is set once; a code then costs as much as its hashing does. Belongs to the thread of its library context.
public final class AuthenticationKey {
    private let context: OpaquePointer
    /// Kept alive: the algorithm is its.
    private let library: LibraryContext

    /// - Parameter key: of any length but zero (RFC 2104 section 3 advises at least the hash's 32 bytes).
    public init(_ key: Span<UInt8>, _ library: LibraryContext) throws(CryptographyError) {
        guard !key.isEmpty else { throw CryptographyError(doing: "use an empty key for HMAC") }
        ERR_clear_error()
        guard let context = EVP_MAC_CTX_new(library.hmac) else { throw .fromQueue(doing: "create an HMAC") }
        let parameters = [ag_param_digest_sha256(), OSSL_PARAM_construct_end()]
        let isSet = key.withUnsafeBufferPointer { EVP_MAC_init(context, $0.baseAddress, $0.count, parameters) }
        guard isSet == 1 else {
            EVP_MAC_CTX_free(context)
            throw .fromQueue(doing: "set the key of an HMAC")
        }
        self.context = context
        self.library = library
    }

    deinit {
        // Overwrites the key before giving its memory back.
        EVP_MAC_CTX_free(context)
    }

    /// The authentication code of `message`. Compare codes with `==` of `Digest`, which takes constant time.
    public func code(of message: Span<UInt8>) throws(CryptographyError) -> Digest256 {
        var code = Digest256()
        ErrorQueue.forget()
        let context = self.context
        let done = code.fill { room in
            var length = 0
            // Without a key argument, OpenSSL restarts with the key that was set.
            return EVP_MAC_init(context, nil, 0, nil) == 1
                && message.withUnsafeBufferPointer { EVP_MAC_update(context, $0.baseAddress, $0.count) } == 1
                && EVP_MAC_final(context, room, &length, 32) == 1 && length == 32
        }
        guard done else { throw .fromQueue(doing: "compute an HMAC") }
        return code
    }
}

/// HKDF with SHA-256 (RFC 5869).
public enum KeyDerivation {
    /// Longest `info`, in bytes. OpenSSL's own bound differs between its versions, and none is lower.
    public static let longestInfo = 1024

    /// Derives `count` bytes of key material.
    ///
    /// - Parameters:
    ///   - secret: the input keying material; not a password: HKDF does not stretch what can be guessed.
    ///   - salt: may be empty (RFC 5869 section 2.2: then the hash's length of zeros).
    ///   - info: what the key is for: other purposes, other keys. May be empty; at most `longestInfo`.
    ///   - count: at most 255 * 32 (RFC 5869 section 2.3).
    public static func hkdfSHA256(
        secret: Span<UInt8>, salt: Span<UInt8> = Span(), info: Span<UInt8>, count: Int, _ library: LibraryContext
    ) throws(CryptographyError) -> [UInt8] {
        guard !secret.isEmpty else { throw CryptographyError(doing: "derive a key from an empty secret") }
        guard (1...255 * 32).contains(count) else { throw CryptographyError(doing: "derive a key of \(count) bytes") }
        guard info.count <= longestInfo else {
            throw CryptographyError(doing: "derive a key for a purpose that is too long")
        }
        ERR_clear_error()
        // Derivation is rare (at start, and when the store's epoch changes), so nothing is kept fetched for it.
        let algorithm = EVP_KDF_fetch(library.pointer, "HKDF", nil)
        defer { EVP_KDF_free(algorithm) }
        guard let context = EVP_KDF_CTX_new(algorithm) else { throw .fromQueue(doing: "create an HKDF") }
        defer { EVP_KDF_CTX_free(context) }
        var key = [UInt8](repeating: 0, count: count)
        let done = secret.withUnsafeBufferPointer { secret in
            salt.withUnsafeBufferPointer { salt in
                info.withUnsafeBufferPointer { info in
                    var parameters = [ag_param_digest_sha256(), ag_param_kdf_key(secret.baseAddress, secret.count)]
                    // OpenSSL refuses a parameter without an address; one that is not given is empty.
                    if !salt.isEmpty { parameters.append(ag_param_kdf_salt(salt.baseAddress, salt.count)) }
                    if !info.isEmpty { parameters.append(ag_param_kdf_info(info.baseAddress, info.count)) }
                    parameters.append(OSSL_PARAM_construct_end())
                    return EVP_KDF_derive(context, &key, count, parameters)
                }
            }
        }
        guard done == 1 else { throw .fromQueue(doing: "derive a key") }
        return key
    }
}
