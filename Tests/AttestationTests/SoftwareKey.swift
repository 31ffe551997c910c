import COpenSSL
import Cryptography

/// A P-256 key that signs assertions as the Secure Enclave does, for tests only.
struct SoftwareKey {
    private let key: PrivateKey
    private let library: LibraryContext
    let verification: P256VerificationKey

    init(_ library: LibraryContext) throws {
        key = try PrivateKey.generateP256(library)
        self.library = library
        let point = key.publicKey.uncompressedPoint ?? []
        verification = try P256VerificationKey(point: point.span, library)
    }

    /// ECDSA with SHA-256 over the nonce SHA-256(authenticator data || client data hash), in DER.
    func sign(_ authenticatorData: [UInt8], _ clientDataHash: [UInt8]) throws -> [UInt8] {
        let nonce = try library.sha256(of: authenticatorData.span, clientDataHash.span)
        return try sign(digest: library.sha256(of: nonce.span).bytes)
    }

    /// ECDSA over a digest as it is.
    func sign(digest: [UInt8]) throws -> [UInt8] { try Self.sign(digest: digest, key.pointer, library) }

    static func sign(digest: [UInt8], _ key: OpaquePointer, _ library: LibraryContext) throws -> [UInt8] {
        guard let context = EVP_PKEY_CTX_new_from_pkey(library.pointer, key, nil) else {
            throw CryptographyError.fromQueue(doing: "sign")
        }
        defer { EVP_PKEY_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: 72)
        var length = signature.count
        guard EVP_PKEY_sign_init(context) == 1,
            EVP_PKEY_sign(context, &signature, &length, digest, digest.count) == 1
        else { throw CryptographyError.fromQueue(doing: "sign") }
        return Array(signature[..<length])
    }
}
