internal import COpenSSL

/// An RSA public key for verification of signatures over SHA-256.
///
/// Belongs to the thread of its library context.
public final class RSAVerificationKey {
    /// The encoding of a signature (RFC 8017 section 8).
    public enum Scheme: Sendable {
        /// RSASSA-PKCS1-v1_5.
        case pkcs1
        /// RSASSA-PSS with MGF1 of SHA-256 and a salt of 32 bytes.
        case pss
    }

    /// The permitted lengths of a modulus in bits. A shorter one is too weak, a longer one too expensive.
    public static let modulusBits = 2048...8192
    /// The longest permitted exponent in bits.
    public static let longestExponent = 64

    private let key: OpaquePointer
    private let modulusLength: Int
    /// Retained because the key belongs to it.
    private let library: LibraryContext

    /// Creates a key from its numbers, big-endian without leading zeros.
    ///
    /// - Throws: if the modulus or the exponent has another length, is even, or the exponent is 1.
    public init(
        modulus: Span<UInt8>, exponent: Span<UInt8>, _ library: LibraryContext
    ) throws(CryptographyError) {
        guard Self.modulusBits.contains(Self.bits(of: modulus)), modulus[modulus.count - 1] & 1 == 1 else {
            throw CryptographyError(doing: "read an RSA key: not an odd modulus of 2048 to 8192 bits")
        }
        guard (2...Self.longestExponent).contains(Self.bits(of: exponent)), exponent[exponent.count - 1] & 1 == 1
        else {
            throw CryptographyError(doing: "read an RSA key: not an odd exponent of 2 to 64 bits")
        }
        ERR_clear_error()
        guard let key = Self.make(modulus, exponent, library) else { throw .fromQueue(doing: "read an RSA key") }
        self.key = key
        self.library = library
        modulusLength = modulus.count
    }

    deinit {
        EVP_PKEY_free(key)
    }

    /// Returns the length of a number in bits. 0 if its first byte is zero.
    private static func bits(of number: Span<UInt8>) -> Int {
        guard number.count > 0, number[0] != 0 else { return 0 }
        return 8 * number.count - number[0].leadingZeroBitCount
    }

    private static func make(
        _ modulus: Span<UInt8>, _ exponent: Span<UInt8>, _ library: LibraryContext
    ) -> OpaquePointer? {
        let n = modulus.withUnsafeBufferPointer { BN_bin2bn($0.baseAddress, Int32($0.count), nil) }
        let e = exponent.withUnsafeBufferPointer { BN_bin2bn($0.baseAddress, Int32($0.count), nil) }
        let builder = OSSL_PARAM_BLD_new()
        let context = EVP_PKEY_CTX_new_from_name(library.pointer, "RSA", nil)
        defer {
            EVP_PKEY_CTX_free(context)
            OSSL_PARAM_BLD_free(builder)
            BN_free(e)
            BN_free(n)
        }
        guard let n, let e, let builder, ag_param_bld_push_rsa(builder, n, e) == 1,
            let parameters = OSSL_PARAM_BLD_to_param(builder)
        else { return nil }
        defer { OSSL_PARAM_free(parameters) }
        var key: OpaquePointer?
        guard EVP_PKEY_fromdata_init(context) == 1,
            EVP_PKEY_fromdata(context, &key, ag_evp_pkey_public_key(), parameters) == 1
        else {
            EVP_PKEY_free(key)
            return nil
        }
        return key
    }

    /// Returns whether this key signed the message whose SHA-256 is `digest`.
    ///
    /// - Parameter signature: As long as the modulus; other lengths are refused.
    public func verify(digest: Digest256, signature: Span<UInt8>, _ scheme: Scheme) -> Bool {
        guard signature.count == modulusLength else { return false }
        ErrorQueue.forget()
        guard let context = EVP_PKEY_CTX_new_from_pkey(library.pointer, key, nil) else { return false }
        defer { EVP_PKEY_CTX_free(context) }
        guard EVP_PKEY_verify_init(context) == 1, select(scheme, in: context) else { return false }
        let verdict = digest.span.withUnsafeBufferPointer { digest in
            signature.withUnsafeBufferPointer { signature in
                EVP_PKEY_verify(context, signature.baseAddress, signature.count, digest.baseAddress, digest.count)
            }
        }
        return verdict == 1
    }

    /// Selects padding and digest.
    ///
    /// - Returns: whether OpenSSL accepted them.
    private func select(_ scheme: Scheme, in context: OpaquePointer) -> Bool {
        switch scheme {
        case .pkcs1:
            EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1
                && EVP_PKEY_CTX_set_signature_md(context, library.sha256) == 1
        case .pss:
            EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1
                && EVP_PKEY_CTX_set_signature_md(context, library.sha256) == 1
                && EVP_PKEY_CTX_set_rsa_mgf1_md(context, library.sha256) == 1
                && EVP_PKEY_CTX_set_rsa_pss_saltlen(context, Int32(digestLength)) == 1
        }
    }

    private var digestLength: Int { Int(EVP_MD_get_size(library.sha256)) }
}
