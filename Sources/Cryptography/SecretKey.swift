internal import COpenSSL

/// An AES key of 256 bits, for what others have encrypted with it. It is never logged.
public struct SecretKey: Sendable {
    private let bytes: [UInt8]

    /// - Returns: nil unless there are 32 bytes.
    public init?(_ bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        self.bytes = bytes
    }

    /// Unwraps a key: AES Key Wrap (RFC 3394), which JSON Web Algorithms name `A256KW`.
    ///
    /// - Parameter wrapped: A multiple of 8 bytes, from 24 to 72.
    /// - Returns: nil if another key has wrapped it, or it was altered.
    public func unwrap(_ wrapped: [UInt8], _ library: LibraryContext) throws(CryptographyError) -> [UInt8]? {
        guard wrapped.count % 8 == 0, (24...72).contains(wrapped.count) else { return nil }
        let cipher = try Cipher("AES-256-WRAP", library)
        // OpenSSL decrypts by wrapping ciphers only if this is set.
        EVP_CIPHER_CTX_set_flags(cipher.context, EVP_CIPHER_CTX_FLAG_WRAP_ALLOW)
        guard EVP_DecryptInit_ex2(cipher.context, cipher.algorithm, bytes, nil, nil) == 1 else {
            throw .fromQueue(doing: "unwrap a key")
        }
        return cipher.update(wrapped)
    }

    /// Decrypts with AES in Galois/Counter Mode (NIST SP 800-38D), which JSON Web Algorithms name `A256GCM`.
    ///
    /// - Parameters:
    ///   - nonce: The initialization vector, 12 bytes.
    ///   - data: What is authenticated besides the ciphertext.
    ///   - tag: 16 bytes.
    /// - Returns: nil if a length is wrong or the tag does not match.
    public func open(
        _ ciphertext: [UInt8], nonce: [UInt8], authenticating data: [UInt8], tag: [UInt8], _ library: LibraryContext
    ) throws(CryptographyError) -> [UInt8]? {
        guard nonce.count == 12, tag.count == 16 else { return nil }
        let cipher = try Cipher("AES-256-GCM", library)
        guard EVP_DecryptInit_ex2(cipher.context, cipher.algorithm, bytes, nonce, nil) == 1 else {
            throw .fromQueue(doing: "decrypt")
        }
        let plaintext = cipher.authenticate(data) ? cipher.update(ciphertext) : nil
        return cipher.finish(tag) ? plaintext : nil
    }
}

/// One decryption by OpenSSL.
private final class Cipher {
    let algorithm: OpaquePointer
    let context: OpaquePointer

    init(_ name: String, _ library: LibraryContext) throws(CryptographyError) {
        ERR_clear_error()
        let algorithm = EVP_CIPHER_fetch(library.pointer, name, nil)
        guard let algorithm, let context = EVP_CIPHER_CTX_new() else {
            EVP_CIPHER_free(algorithm)
            throw .fromQueue(doing: "fetch \(name)")
        }
        self.algorithm = algorithm
        self.context = context
    }

    deinit {
        EVP_CIPHER_CTX_free(context)
        EVP_CIPHER_free(algorithm)
    }

    func authenticate(_ data: [UInt8]) -> Bool {
        var count: Int32 = 0
        return data.isEmpty || EVP_DecryptUpdate(context, nil, &count, data, Int32(clamping: data.count)) == 1
    }

    func update(_ ciphertext: [UInt8]) -> [UInt8]? {
        // Never longer than the input.
        var plaintext = [UInt8](repeating: 0, count: ciphertext.count + 16)
        var count: Int32 = 0
        guard EVP_DecryptUpdate(context, &plaintext, &count, ciphertext, Int32(clamping: ciphertext.count)) == 1 else {
            return nil
        }
        return Array(plaintext.prefix(Int(count)))
    }

    /// Returns whether the tag matches.
    func finish(_ tag: [UInt8]) -> Bool {
        var tag = tag
        var rest = [UInt8](repeating: 0, count: 16)
        var count: Int32 = 0
        return EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(tag.count), &tag) == 1
            && EVP_DecryptFinal_ex(context, &rest, &count) == 1
    }
}
