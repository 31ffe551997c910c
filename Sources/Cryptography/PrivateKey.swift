internal import COpenSSL

/// A private key.
public final class PrivateKey {
    package let pointer: OpaquePointer

    /// Takes ownership of one reference.
    package init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        EVP_PKEY_free(pointer)
    }

    /// Generates a P-256 key.
    public static func generateP256(_ context: LibraryContext) throws(CryptographyError) -> PrivateKey {
        ERR_clear_error()
        guard let key = ag_generate_p256(context.pointer) else { throw .fromQueue(doing: "generate a P-256 key") }
        return PrivateKey(owning: key)
    }

    /// Generates a P-384 key, on the curve of Apple's authorities.
    public static func generateP384(_ context: LibraryContext) throws(CryptographyError) -> PrivateKey {
        ERR_clear_error()
        guard let key = ag_generate_p384(context.pointer) else { throw .fromQueue(doing: "generate a P-384 key") }
        return PrivateKey(owning: key)
    }

    /// Generates a key on brainpoolP256r1, the curve of German health cards.
    public static func generateBrainpoolP256(_ context: LibraryContext) throws(CryptographyError) -> PrivateKey {
        ERR_clear_error()
        guard let key = ag_generate_brainpool_p256(context.pointer) else {
            throw .fromQueue(doing: "generate a key on brainpoolP256r1")
        }
        return PrivateKey(owning: key)
    }

    /// Returns an ECDSA signature over the message whose SHA-256 is `digest`, in DER, by a key on any curve of 256 bits.
    /// `P256SigningKey` is for repeated ones.
    public func sign(digest: Digest256, _ context: LibraryContext) throws(CryptographyError) -> [UInt8] {
        ERR_clear_error()
        let signing = EVP_PKEY_CTX_new_from_pkey(context.pointer, pointer, nil)
        defer { EVP_PKEY_CTX_free(signing) }
        guard let signing, EVP_PKEY_sign_init(signing) == 1 else { throw .fromQueue(doing: "prepare to sign") }
        var signature = [UInt8](repeating: 0, count: 72)
        var length = signature.count
        let done = digest.span.withUnsafeBufferPointer { digest in
            EVP_PKEY_sign(signing, &signature, &length, digest.baseAddress, digest.count)
        }
        guard done == 1 else { throw .fromQueue(doing: "sign") }
        return Array(signature[..<length])
    }

    /// Parses a PEM private key: PKCS #8, or an older form that OpenSSL supports.
    ///
    /// - Parameter passphrase: Nil if the key is not encrypted. An unencrypted key with a passphrase is refused,
    ///   because its owner believes it to be protected.
    public convenience init(
        pem: [UInt8], passphrase: Passphrase? = nil, _ context: LibraryContext
    ) throws(CryptographyError) {
        self.init(owning: try Self.read(pem, passphrase, context))
    }

    private static func read(
        _ pem: [UInt8], _ passphrase: Passphrase?, _ context: LibraryContext
    ) throws(CryptographyError) -> OpaquePointer {
        let source = MemoryBIO(reading: pem)
        var asked = PassphraseQuestion(passphrase: passphrase)
        ERR_clear_error()
        // Without a callback, OpenSSL asks on the terminal.
        let key = withUnsafeMutablePointer(to: &asked) { question in
            PEM_read_bio_PrivateKey_ex(source.pointer, nil, answerPassphrase, question, context.pointer, nil)
        }
        guard let key else {
            guard asked.isAsked else { throw Self.unreadable(pem, context) }
            guard passphrase == nil else { throw .fromQueue(doing: "decrypt the private key with this passphrase") }
            ERR_clear_error()
            throw CryptographyError(
                doing: "read the private key: it is encrypted, and there is no passphrase for it; "
                    + "`openssl pkey -in FILE -out NEW` writes it without encryption")
        }
        guard asked.isAsked || passphrase == nil else {
            EVP_PKEY_free(key)
            throw CryptographyError(
                doing: "read the private key: there is a passphrase for it, but it is not encrypted")
        }
        return key
    }

    private static func unreadable(_ pem: [UInt8], _ context: LibraryContext) -> CryptographyError {
        guard !FileDiagnosis.holdsPrivateKey(pem) else {
            // The next call empties the queue.
            let error = CryptographyError.fromQueue(doing: "read the PEM private key")
            let hint = FileDiagnosis.cut(pem) + FileDiagnosis.mislabelled(pem, context)
            return hint.isEmpty ? error : CryptographyError(doing: error.doing + hint)
        }
        ERR_clear_error()
        let hint = FileDiagnosis.hint(pem, context)
        return CryptographyError(doing: "read the private key: no BEGIN PRIVATE KEY in the PEM text\(hint)")
    }

    /// Returns the key as unencrypted PKCS #8 in PEM.
    public func pem() throws(CryptographyError) -> [UInt8] {
        let target = MemoryBIO()
        ERR_clear_error()
        guard PEM_write_bio_PKCS8PrivateKey(target.pointer, pointer, nil, nil, 0, nil, nil) == 1 else {
            throw .fromQueue(doing: "write the private key")
        }
        return target.bytes
    }

    /// The public key.
    public var publicKey: PublicKey {
        EVP_PKEY_up_ref(pointer)
        return PublicKey(owning: pointer)
    }
}

/// The state of OpenSSL's passphrase callback.
private struct PassphraseQuestion {
    let passphrase: Passphrase?
    var isAsked = false
}

/// Answers OpenSSL's `pem_password_cb`.
///
/// - Returns: the passphrase's length, or -1 if there is none. 0 would be an empty passphrase.
private func answerPassphrase(
    _ room: UnsafeMutablePointer<CChar>?, _ size: Int32, _: Int32, _ question: UnsafeMutableRawPointer?
) -> Int32 {
    // The address given with the callback. It is valid during the call that received it.
    guard let question = question?.assumingMemoryBound(to: PassphraseQuestion.self) else { return -1 }
    question.pointee.isAsked = true
    guard let room, let bytes = question.pointee.passphrase?.bytes, bytes.count <= Int(size) else { return -1 }
    for (index, byte) in bytes.enumerated() { room[index] = CChar(bitPattern: byte) }
    return Int32(bytes.count)
}

/// The passphrase of a private key in a file. Neither logs nor debug output contain it.
public struct Passphrase: Sendable {
    let bytes: [UInt8]

    /// Length limit in bytes. OpenSSL supports 1,024.
    public static let longest = 512

    /// Parses the content of a passphrase file. It is handled as bytes, as the key was encrypted with bytes.
    ///
    /// - Parameter text: One line. Its line end is not part of the passphrase.
    public init(_ text: [UInt8]) throws(PassphraseFault) {
        var bytes = text[...]
        if bytes.last == UInt8(ascii: "\n") {
            bytes.removeLast()
            if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        }
        guard !bytes.isEmpty else { throw .empty }
        guard bytes.count <= Self.longest else { throw .tooLong }
        // OpenSSL's tools read the first line and silently ignore the others.
        guard !bytes.contains(where: { $0 == UInt8(ascii: "\n") || $0 == 0 }) else { throw .severalLines }
        self.bytes = Array(bytes)
    }
}

extension Passphrase: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "(passphrase)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// The reason why a text is not a passphrase.
public enum PassphraseFault: Error, Equatable, Sendable {
    case empty
    case tooLong
    /// More than one line, or NUL.
    case severalLines
}

extension PassphraseFault: CustomStringConvertible {
    /// A message for people.
    public var description: String {
        switch self {
        case .empty: "the passphrase is empty"
        case .tooLong: "the passphrase is longer than \(Passphrase.longest) bytes"
        case .severalLines: "the passphrase is not one line of text"
        }
    }
}
