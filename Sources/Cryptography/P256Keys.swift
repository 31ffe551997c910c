internal import COpenSSL
internal import Encoding

/// A P-256 private key for repeated ECDSA signatures.
///
/// The signing context is kept with the key. Belongs to the thread of its library context.
public final class P256SigningKey {
    /// The public key: the uncompressed point, 65 bytes.
    public let point: [UInt8]
    private let key: PrivateKey
    private let signing: OpaquePointer

    /// Sets up signing.
    ///
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

    /// Returns a signature over the message whose SHA-256 is `digest`: ECDSA-Sig-Value in DER, at most 72 bytes.
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

/// A P-256 public key for repeated verification of ECDSA signatures.
///
/// It is made from the point that the registry keeps. `EVP_PKEY_fromdata` takes 13 microseconds, while decoding a
/// SubjectPublicKeyInfo takes 77. The verification context is kept, because a new one for each signature costs 1.6
/// microseconds. A key takes about 2 KiB. Belongs to the thread of its library context.
public final class P256VerificationKey {
    private let key: OpaquePointer
    private let verification: OpaquePointer
    /// Retained because key and verification context belong to it.
    private let library: LibraryContext

    /// Creates a key from its point.
    ///
    /// P-256 has cofactor 1, so every point of the curve except infinity is a valid key (SEC 1 section 3.2.2.1).
    /// Infinity has no uncompressed form.
    ///
    /// - Parameter point: The uncompressed point (X9.63): 0x04 and two coordinates of 32 bytes.
    /// - Throws: if the point has another form or is not on the curve.
    public init(point: Span<UInt8>, _ library: LibraryContext) throws(CryptographyError) {
        // OpenSSL also accepts the hybrid forms 0x06 and 0x07, which would be a second spelling of the same key.
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

    /// Creates an OpenSSL key that the caller owns.
    ///
    /// - Returns: nil if the point is not on the curve.
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

    /// Returns whether this key signed the message whose SHA-256 is `digest`.
    ///
    /// Both values of `s` are accepted. Apple's signers produce either, and no signature serves as an identity here.
    ///
    /// - Parameter signature: ECDSA-Sig-Value (RFC 3279 section 2.2.3) in DER. OpenSSL refuses other BER encodings,
    ///   because it encodes the value again and compares.
    public func verify(digest: Digest256, signature: Span<UInt8>) -> Bool {
        guard Self.signatureLengths.contains(signature.count) else { return false }
        ErrorQueue.forget()
        let verdict = digest.span.withUnsafeBufferPointer { digest in
            signature.withUnsafeBufferPointer { signature in
                EVP_PKEY_verify(
                    verification, signature.baseAddress, signature.count, digest.baseAddress, digest.count)
            }
        }
        // 0 is an invalid signature. A negative value means that the bytes are not a signature.
        return verdict == 1
    }

    /// Returns whether this key signed the message whose SHA-256 is `digest`.
    ///
    /// It allocates nothing, because requests of Android devices are verified with it.
    ///
    /// - Parameter signature: r and s of 32 bytes each, as in JWS (RFC 7518 section 3.4) and HTTP Message Signatures
    ///   (RFC 9421 section 3.3.4). Other lengths are refused.
    public func verify(digest: Digest256, fixedWidthSignature signature: Span<UInt8>) -> Bool {
        guard let encoding = InlineSignature(fixedWidth: signature) else { return false }
        return verify(digest: digest, signature: encoding.span)
    }
}

/// An ECDSA-Sig-Value in DER, stored inline.
private struct InlineSignature {
    // Two INTEGERs of at most 33 octets in a SEQUENCE.
    private var octets = InlineArray<72, UInt8>(repeating: 0)
    private var count = 2

    /// Encodes r and s of fixed width. Returns nil unless there are 64 bytes.
    init?(fixedWidth signature: Span<UInt8>) {
        guard signature.count == 2 * ECDSASignature.width else { return nil }
        append(integer: signature.extracting(..<ECDSASignature.width))
        append(integer: signature.extracting(ECDSASignature.width...))
        octets[0] = 0x30
        octets[1] = UInt8(count - 2)
    }

    /// Appends a non-negative INTEGER. A leading zero octet stands only where the sign bit would be set (X.690 section
    /// 8.3).
    private mutating func append(integer magnitude: Span<UInt8>) {
        var first = 0
        while first < magnitude.count - 1, magnitude[first] == 0 { first += 1 }
        let padding = magnitude[first] >= 0x80 ? 1 : 0
        octets[count] = 0x02
        octets[count + 1] = UInt8(magnitude.count - first + padding)
        // The padding is zero already.
        count += 2 + padding
        for index in first..<magnitude.count {
            octets[count] = magnitude[index]
            count += 1
        }
    }

    var span: Span<UInt8> {
        @_lifetime(borrow self)
        get { octets.span.extracting(first: count) }
    }
}

/// Conversion between the two forms of a P-256 ECDSA signature.
public enum ECDSASignature {
    /// Width of r and of s, in bytes.
    fileprivate static let width = 32

    /// Encodes r and s of fixed width (RFC 7518 section 3.4) as ECDSA-Sig-Value in DER (RFC 3279 section 2.2.3).
    ///
    /// The verifier checks the range of r and s.
    ///
    /// - Returns: nil unless there are 64 bytes.
    public static func der(fixedWidth signature: Span<UInt8>) -> [UInt8]? {
        guard let encoding = InlineSignature(fixedWidth: signature) else { return nil }
        return encoding.span.indices.map { encoding.span[$0] }
    }

    /// Decodes an ECDSA-Sig-Value in DER into r and s of fixed width: 64 bytes (RFC 7518 section 3.4).
    ///
    /// - Returns: nil if the value is malformed or an integer is longer than the curve's order.
    public static func fixedWidth(der signature: Span<UInt8>) -> [UInt8]? {
        do throws(DERFault) {
            var outer = DERReader(signature)
            var integers = DERReader(signature, in: try outer.read(.sequence))
            try outer.finish()
            var fixed: [UInt8] = []
            for _ in 0..<2 {
                var octets = try integers.read(.integer).map { signature[$0] }
                if octets.count == width + 1, octets[0] == 0 { octets.removeFirst() }
                guard (1...width).contains(octets.count) else { return nil }
                fixed += [UInt8](repeating: 0, count: width - octets.count) + octets
            }
            try integers.finish()
            return fixed
        } catch {
            return nil
        }
    }
}
