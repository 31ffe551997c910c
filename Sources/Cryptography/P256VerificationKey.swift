internal import COpenSSL

/// A P-256 public key that verifies ECDSA signatures, many of them.
///
/// Made from the point as the registry keeps it: `EVP_PKEY_fromdata` takes 13 microseconds, decoding a
/// SubjectPublicKeyInfo 77. The verification context is kept with the key: making one per signature costs 1.6
/// microseconds more. Holds about 2 KiB. Belongs to the thread of its library context.
public final class P256VerificationKey {
    private let key: OpaquePointer
    private let verification: OpaquePointer
    /// Kept alive: key and verification are made in it.
    private let library: LibraryContext

    /// - Parameter point: the uncompressed point (X9.63): 0x04 and two coordinates of 32 bytes.
    /// - Throws: if it is of another form, or not on the curve. On P-256, whose cofactor is 1, every point of the curve
    ///   but infinity, which has no uncompressed form, is a valid key (SEC 1 section 3.2.2.1).
    public init(point: Span<UInt8>, _ library: LibraryContext) throws(CryptographyError) {
        // Said here because OpenSSL also takes the hybrid forms 0x06 and 0x07: a second spelling of the same key.
        guard point.count == 65, point[0] == 0x04 else {
            throw CryptographyError(doing: "read a P-256 key: not an uncompressed point of 65 bytes")
        }
        ERR_clear_error()
        guard let key = Self.make(point, library) else { throw .fromQueue(doing: "read a P-256 key") }
        let verification = EVP_PKEY_CTX_new_from_pkey(library.pointer, key, nil)
        guard let verification, EVP_PKEY_verify_init(verification) == 1 else {
            EVP_PKEY_CTX_free(verification)
            EVP_PKEY_free(key)
            throw .fromQueue(doing: "prepare to verify signatures")
        }
        self.key = key
        self.verification = verification
        self.library = library
    }

    deinit {
        EVP_PKEY_CTX_free(verification)
        EVP_PKEY_free(key)
    }

    /// - Returns: an owned key; nil if the point is not on the curve.
    static func make(_ point: Span<UInt8>, _ library: LibraryContext) -> OpaquePointer? {
        let context = EVP_PKEY_CTX_new_from_name(library.pointer, "EC", nil)
        defer { EVP_PKEY_CTX_free(context) }
        guard EVP_PKEY_fromdata_init(context) == 1 else { return nil }
        var key: OpaquePointer?
        let done = point.withUnsafeBufferPointer { point in
            var parameters = [
                ag_param_group_p256(), ag_param_public_key(point.baseAddress, point.count), OSSL_PARAM_construct_end(),
            ]
            return EVP_PKEY_fromdata(context, &key, ag_evp_pkey_public_key(), &parameters)
        }
        guard done == 1 else {
            EVP_PKEY_free(key)
            return nil
        }
        return key
    }

    /// Lengths of an ECDSA-Sig-Value on P-256: two INTEGERs of 1 to 33 octets in a SEQUENCE.
    private static let signatureLengths = 8...72

    /// Whether `signature` was made by this key over the message whose SHA-256 is `digest`.
    ///
    /// - Parameter signature: ECDSA-Sig-Value (RFC 3279 section 2.2.3) in DER. Other BER encodings are refused: OpenSSL
    ///   re-encodes the decoded value and compares. Either of the two values of `s` is accepted: Apple's signers do not
    ///   choose between them, and nothing here takes a signature for an identity.
    public func verify(digest: Digest256, signature: Span<UInt8>) -> Bool {
        guard Self.signatureLengths.contains(signature.count) else { return false }
        ErrorQueue.forget()
        let verdict = digest.span.withUnsafeBufferPointer { digest in
            signature.withUnsafeBufferPointer { signature in
                EVP_PKEY_verify(
                    verification, signature.baseAddress, signature.count, digest.baseAddress, digest.count)
            }
        }
        // 0: made by another key or over other bytes. Negative: not a signature at all.
        return verdict == 1
    }

    /// Whether `signature` was made by this key over the message whose SHA-256 is `digest`.
    ///
    /// - Parameter signature: r and s of 32 bytes each, as JWS has them (RFC 7518 section 3.4); any other length is refused.
    public func verify(digest: Digest256, fixedWidthSignature signature: Span<UInt8>) -> Bool {
        guard let encoding = ECDSASignature.der(fixedWidth: signature) else { return false }
        return verify(digest: digest, signature: encoding.span)
    }
}
