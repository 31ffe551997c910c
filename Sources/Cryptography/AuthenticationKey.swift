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
