internal import COpenSSL

/// A P-256 private key that makes ECDSA signatures, many of them.
///
/// The signing context is kept with the key, as `P256VerificationKey` keeps its own. Belongs to the thread of its library
/// context.
public final class P256SigningKey {
    /// Its public half: the uncompressed point, 65 bytes.
    public let point: [UInt8]
    private let key: PrivateKey
    private let signing: OpaquePointer

    /// - Throws: if the key is not on P-256.
    public init(_ key: PrivateKey, _ library: LibraryContext) throws(CryptographyError) {
        let publicKey = key.publicKey
        guard publicKey.isP256, let point = publicKey.uncompressedPoint, point.count == 65 else {
            throw CryptographyError(doing: "sign: the key is not on P-256")
        }
        ERR_clear_error()
        let signing = EVP_PKEY_CTX_new_from_pkey(library.pointer, key.pointer, nil)
        guard let signing, EVP_PKEY_sign_init(signing) == 1 else {
            EVP_PKEY_CTX_free(signing)
            throw .fromQueue(doing: "prepare to sign")
        }
        self.point = point
        self.key = key
        self.signing = signing
    }

    deinit {
        EVP_PKEY_CTX_free(signing)
    }

    /// A signature over the message whose SHA-256 is `digest`: ECDSA-Sig-Value in DER, at most 72 bytes.
    public func sign(digest: Digest256) throws(CryptographyError) -> [UInt8] {
        var signature = [UInt8](repeating: 0, count: 72)
        var length = signature.count
        ERR_clear_error()
        let done = digest.span.withUnsafeBufferPointer { digest in
            EVP_PKEY_sign(signing, &signature, &length, digest.baseAddress, digest.count)
        }
        guard done == 1 else { throw .fromQueue(doing: "sign") }
        signature.removeLast(signature.count - length)
        return signature
    }
}

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

/// The two forms of an ECDSA signature on P-256.
public enum ECDSASignature {
    /// Width of r and of s, in bytes.
    private static let width = 32

    /// The ECDSA-Sig-Value in DER (RFC 3279 section 2.2.3) of r and s in a fixed width (RFC 7518 section 3.4).
    ///
    /// - Returns: nil unless there are 64 bytes. The verifier checks that r and s lie between 1 and the order of the
    ///   curve.
    public static func der(fixedWidth signature: Span<UInt8>) -> [UInt8]? {
        guard signature.count == 2 * width else { return nil }
        let content = integer(signature.extracting(first: width)) + integer(signature.extracting(last: width))
        return [0x30, UInt8(content.count)] + content
    }

    /// r and s in a fixed width, 64 bytes (RFC 7518 section 3.4), of an ECDSA-Sig-Value in DER.
    ///
    /// - Returns: nil unless it is one, of integers that are no longer than the curve's order.
    public static func fixedWidth(der signature: Span<UInt8>) -> [UInt8]? {
        guard signature.count >= 2, signature[0] == 0x30, Int(signature[1]) == signature.count - 2 else { return nil }
        var position = 2
        var fixed: [UInt8] = []
        for _ in 0..<2 {
            guard position + 2 <= signature.count, signature[position] == 0x02 else { return nil }
            let length = Int(signature[position + 1])
            position += 2
            guard length > 0, length <= width + 1, position + length <= signature.count else { return nil }
            var octets = (position..<(position + length)).map { signature[$0] }
            position += length
            if octets.count == width + 1 {
                guard octets.removeFirst() == 0 else { return nil }
            }
            fixed += [UInt8](repeating: 0, count: width - octets.count) + octets
        }
        return position == signature.count ? fixed : nil
    }

    /// An INTEGER: no leading zero octets, but one where the sign bit would be set (X.690 section 8.3).
    private static func integer(_ magnitude: Span<UInt8>) -> [UInt8] {
        var start = 0
        while start < magnitude.count - 1, magnitude[start] == 0 { start += 1 }
        var octets = (start..<magnitude.count).map { magnitude[$0] }
        if octets[0] >= 0x80 { octets.insert(0, at: 0) }
        return [0x02, UInt8(octets.count)] + octets
    }
}
