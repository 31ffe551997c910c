internal import COpenSSL

/// A reusable key for HMAC-SHA-256 (RFC 2104).
///
/// The key is set up once, so that each code costs only its hashing. Belongs to the thread of its library context.
public final class AuthenticationKey {
    private let context: OpaquePointer
    /// Retained because it owns the algorithm.
    private let library: LibraryContext

    /// Sets up the key.
    ///
    /// - Parameter key: At least one byte. RFC 2104 section 3 recommends at least 32.
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

    /// Returns the authentication code of `message`. Compare codes with `==` of `Digest`, which takes constant time.
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
    /// Length limit of `info`, in bytes. Every OpenSSL version supports at least this length.
    public static let longestInfo = 1024

    /// Derives `count` bytes of key material.
    ///
    /// - Parameters:
    ///   - secret: The input keying material. It must not be a password, because HKDF does not stretch weak secrets.
    ///   - salt: May be empty, which means 32 zeros (RFC 5869 section 2.2).
    ///   - info: The purpose of the key, at most `longestInfo` bytes. Different purposes give different keys.
    ///   - count: At most 255 * 32 (RFC 5869 section 2.3).
    public static func hkdfSHA256(
        secret: Span<UInt8>, salt: Span<UInt8> = Span(), info: Span<UInt8>, count: Int, _ library: LibraryContext
    ) throws(CryptographyError) -> [UInt8] {
        guard !secret.isEmpty else { throw CryptographyError(doing: "derive a key from an empty secret") }
        guard (1...255 * 32).contains(count) else { throw CryptographyError(doing: "derive a key of \(count) bytes") }
        guard info.count <= longestInfo else {
            throw CryptographyError(doing: "derive a key for a purpose that is too long")
        }
        ERR_clear_error()
        // Derivation is rare (at start, and when the store's epoch changes), so the algorithm is not kept.
        let algorithm = EVP_KDF_fetch(library.pointer, "HKDF", nil)
        defer { EVP_KDF_free(algorithm) }
        guard let context = EVP_KDF_CTX_new(algorithm) else { throw .fromQueue(doing: "create an HKDF") }
        defer { EVP_KDF_CTX_free(context) }
        var key = [UInt8](repeating: 0, count: count)
        let done = secret.withUnsafeBufferPointer { secret in
            salt.withUnsafeBufferPointer { salt in
                info.withUnsafeBufferPointer { info in
                    var parameters = [ag_param_digest_sha256(), ag_param_kdf_key(secret.baseAddress, secret.count)]
                    // OpenSSL refuses a parameter without an address. A parameter that is left out is empty.
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
