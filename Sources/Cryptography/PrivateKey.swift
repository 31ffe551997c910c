internal import COpenSSL

/// A private key.
public final class PrivateKey {
    package let pointer: OpaquePointer

    private init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        EVP_PKEY_free(pointer)
    }

    /// A new P-256 key.
    public static func generateP256(_ context: LibraryContext) throws(CryptographyError) -> PrivateKey {
        ERR_clear_error()
        guard let key = ag_generate_p256(context.pointer) else { throw .fromQueue(doing: "generate a P-256 key") }
        return PrivateKey(owning: key)
    }

    /// A new P-384 key: the curve of Apple's authorities.
    public static func generateP384(_ context: LibraryContext) throws(CryptographyError) -> PrivateKey {
        ERR_clear_error()
        guard let key = ag_generate_p384(context.pointer) else { throw .fromQueue(doing: "generate a P-384 key") }
        return PrivateKey(owning: key)
    }

    /// Reads an unencrypted PEM private key (PKCS #8, or the older forms OpenSSL knows).
    public convenience init(pem: [UInt8], _ context: LibraryContext) throws(CryptographyError) {
        self.init(owning: try Self.read(pem, context))
    }

    private static func read(_ pem: [UInt8], _ context: LibraryContext) throws(CryptographyError) -> OpaquePointer {
        let source = MemoryBIO(reading: pem)
        ERR_clear_error()
        // The callback answers "no passphrase": without it OpenSSL would ask on the terminal.
        guard let key = PEM_read_bio_PrivateKey_ex(source.pointer, nil, { _, _, _, _ in 0 }, nil, context.pointer, nil)
        else { throw .fromQueue(doing: "read the PEM private key") }
        return key
    }

    /// The key as unencrypted PKCS #8 PEM.
    public func pem() throws(CryptographyError) -> [UInt8] {
        let target = MemoryBIO()
        ERR_clear_error()
        guard PEM_write_bio_PKCS8PrivateKey(target.pointer, pointer, nil, nil, 0, nil, nil) == 1 else {
            throw .fromQueue(doing: "write the private key")
        }
        return target.bytes
    }

    /// Its public half.
    public var publicKey: PublicKey {
        EVP_PKEY_up_ref(pointer)
        return PublicKey(owning: pointer)
    }
}
