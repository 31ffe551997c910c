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
