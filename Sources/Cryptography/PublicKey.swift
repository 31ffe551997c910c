internal import COpenSSL
public import Vocabulary

/// A public key.
public final class PublicKey {
    package let pointer: OpaquePointer

    /// Takes ownership of one reference.
    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        EVP_PKEY_free(pointer)
    }

    /// Parses exactly one SubjectPublicKeyInfo in DER (RFC 5280 section 4.1).
    public convenience init(der: Span<UInt8>, _ context: LibraryContext) throws(CryptographyError) {
        self.init(owning: try Self.decode(der, context))
    }

    /// Creates a P-256 key from its uncompressed point: 0x04 and two coordinates of 32 bytes.
    ///
    /// - Throws: if the point has another form or is not on the curve.
    public convenience init(point: Span<UInt8>, _ library: LibraryContext) throws(CryptographyError) {
        self.init(owning: try Self.make(point, library))
    }

    private static func make(_ point: Span<UInt8>, _ library: LibraryContext) throws(CryptographyError) -> OpaquePointer
    {
        // OpenSSL also accepts the hybrid forms 0x06 and 0x07.
        guard point.count == 65, point[0] == 0x04 else {
            throw CryptographyError(doing: "read a P-256 key: not an uncompressed point of 65 bytes")
        }
        ERR_clear_error()
        guard let key = P256VerificationKey.make(point, library) else { throw .fromQueue(doing: "read a P-256 key") }
        return key
    }

    private static func decode(_ der: Span<UInt8>, _ context: LibraryContext) throws(CryptographyError) -> OpaquePointer
    {
        ERR_clear_error()
        var consumed = -1
        let key = der.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var next = bytes.baseAddress
            let key = d2i_PUBKEY_ex(nil, &next, bytes.count, context.pointer, nil)
            if let start = bytes.baseAddress, let next { consumed = next - start }
            return key
        }
        guard let key else { throw .fromQueue(doing: "read the public key") }
        guard consumed == der.count else {
            EVP_PKEY_free(key)
            throw CryptographyError(doing: "read the public key: bytes follow it")
        }
        return key
    }

    /// Parses a PEM public key (SubjectPublicKeyInfo).
    public convenience init(pem: [UInt8], _ context: LibraryContext) throws(CryptographyError) {
        self.init(owning: try Self.read(pem, context))
    }

    private static func read(_ pem: [UInt8], _ context: LibraryContext) throws(CryptographyError) -> OpaquePointer {
        let source = MemoryBIO(reading: pem)
        ERR_clear_error()
        guard let key = PEM_read_bio_PUBKEY_ex(source.pointer, nil, { _, _, _, _ in 0 }, nil, context.pointer, nil)
        else { throw .fromQueue(doing: "read the PEM public key") }
        return key
    }

    /// Returns the key as a SubjectPublicKeyInfo in PEM.
    public func pem() throws(CryptographyError) -> [UInt8] {
        let target = MemoryBIO()
        ERR_clear_error()
        guard PEM_write_bio_PUBKEY(target.pointer, pointer) == 1 else {
            throw .fromQueue(doing: "write the public key")
        }
        return target.bytes
    }

    var isElliptic: Bool { EVP_PKEY_get_base_id(pointer) == EVP_PKEY_EC }
    var isRSA: Bool { EVP_PKEY_get_base_id(pointer) == EVP_PKEY_RSA }

    /// OpenSSL's estimate of the key's strength in bits: 128 for P-256, Ed25519 and RSA-3072.
    public var securityBits: Int { Int(EVP_PKEY_get_security_bits(pointer)) }

    /// The uncompressed point of an elliptic curve key (X9.63): 65 bytes on P-256. Nil for other kinds of keys.
    public var uncompressedPoint: [UInt8]? {
        // A key decoded from a certificate keeps the form of its point, so the form is requested explicitly.
        var point = [UInt8](repeating: 0, count: 133)
        var length = 0
        guard
            EVP_PKEY_get_octet_string_param(pointer, OSSL_PKEY_PARAM_PUB_KEY, &point, point.count, &length) == 1
        else { return nil }
        if point.first == 0x04 { return Array(point[..<length]) }
        return uncompressed()
    }

    private func uncompressed() -> [UInt8]? {
        guard let copy = EVP_PKEY_dup(pointer) else { return nil }
        defer { EVP_PKEY_free(copy) }
        var point = [UInt8](repeating: 0, count: 133)
        var length = 0
        guard
            EVP_PKEY_set_utf8_string_param(
                copy, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, OSSL_PKEY_EC_POINT_CONVERSION_FORMAT_UNCOMPRESSED)
                == 1,
            EVP_PKEY_get_octet_string_param(copy, OSSL_PKEY_PARAM_PUB_KEY, &point, point.count, &length) == 1
        else { return nil }
        return Array(point[..<length])
    }

    /// Returns SHA-256 of the P-256 point. Nil for keys that are not on P-256.
    public func keyID(_ context: LibraryContext) throws(CryptographyError) -> KeyID? {
        guard isP256, let point = uncompressedPoint, point.count == 65 else { return nil }
        let digest = try context.sha256(of: point.span)
        return KeyID(digest: digest.span)
    }

    /// The kinds of keys that decisions distinguish.
    public enum Kind: Equatable, Sendable {
        case rsa(bits: Int)
        case p256
        case p384
        case p521
        case ed25519
        case other
    }

    public var kind: Kind {
        if isRSA { return .rsa(bits: Int(EVP_PKEY_get_bits(pointer))) }
        if EVP_PKEY_get_base_id(pointer) == EVP_PKEY_ED25519 { return .ed25519 }
        return switch curve {
        case NID_X9_62_prime256v1: .p256
        case NID_secp384r1: .p384
        case NID_secp521r1: .p521
        default: .other
        }
    }

    /// The length of an RSA key's public exponent in bits, which decides what a verification costs. Nil for other keys.
    public var exponentBits: Int? {
        guard isRSA else { return nil }
        var exponent: OpaquePointer?
        guard EVP_PKEY_get_bn_param(pointer, OSSL_PKEY_PARAM_RSA_E, &exponent) == 1 else { return nil }
        defer { BN_free(exponent) }
        return Int(BN_num_bits(exponent))
    }

    /// Whether the key is on brainpoolP256r1 (RFC 5639), the curve of German health cards.
    public var isBrainpoolP256: Bool { curve == NID_brainpoolP256r1 }

    /// Returns whether a signature is ECDSA by this key, on a curve of 256 bits, over the message whose SHA-256 is
    /// `digest`.
    ///
    /// - Parameter signature: r and s, 32 bytes each (RFC 7518 section 3.4).
    public func verify(
        digest: Digest256, fixedWidthSignature signature: Span<UInt8>, _ library: LibraryContext
    ) throws(CryptographyError) -> Bool {
        guard isElliptic, EVP_PKEY_get_bits(pointer) == 256, let encoding = ECDSASignature.der(fixedWidth: signature)
        else { return false }
        ERR_clear_error()
        defer { ERR_clear_error() }
        let verification = EVP_PKEY_CTX_new_from_pkey(library.pointer, pointer, nil)
        defer { EVP_PKEY_CTX_free(verification) }
        guard let verification, EVP_PKEY_verify_init(verification) == 1 else {
            throw .fromQueue(doing: "prepare to verify a signature")
        }
        return digest.span.withUnsafeBufferPointer { digest in
            EVP_PKEY_verify(verification, encoding, encoding.count, digest.baseAddress, digest.count) == 1
        }
    }

    /// Whether the key is on P-256.
    public var isP256: Bool { curve == NID_X9_62_prime256v1 }

    /// The NID of the curve. Nil unless the key is on a named elliptic curve.
    private var curve: Int32? { curveName.map { OBJ_txt2nid($0) } }

    /// OpenSSL's name of the curve. Nil unless the key is on a named elliptic curve.
    var curveName: String? {
        guard isElliptic else { return nil }
        var name = [CChar](repeating: 0, count: 64)
        var length = 0
        guard EVP_PKEY_get_group_name(pointer, &name, name.count, &length) == 1, length < name.count else { return nil }
        return String(decoding: name[..<length].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
