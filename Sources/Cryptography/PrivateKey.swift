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

    /// Reads a PEM private key: PKCS #8, or the older forms OpenSSL knows.
    ///
    /// - Parameter passphrase: what it is encrypted with; nil if it is not. An unencrypted key with a passphrase is refused:
    ///   somebody believes it protected, and it is not.
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
        // With a callback of ours, always: OpenSSL's own asks on the terminal.
        let key = withUnsafeMutablePointer(to: &asked) { question in
            PEM_read_bio_PrivateKey_ex(source.pointer, nil, answerPassphrase, question, context.pointer, nil)
        }
        guard let key else {
            guard asked.isAsked else { throw Self.unreadable(pem, context) }
            guard passphrase == nil else { throw .fromQueue(doing: "decrypt the private key with this passphrase") }
            ERR_clear_error()
            throw CryptographyError(doing: "read the private key: it is encrypted, and there is no passphrase for it")
        }
        guard asked.isAsked || passphrase == nil else {
            EVP_PKEY_free(key)
            throw CryptographyError(
                doing: "read the private key: there is a passphrase for it, but it is not encrypted")
        }
        return key
    }

    private static func unreadable(_ pem: [UInt8], _ context: LibraryContext) -> CryptographyError {
        guard !FileForm.holdsPrivateKey(pem) else {
            // Read before another call empties the queue.
            let error = CryptographyError.fromQueue(doing: "read the PEM private key")
            let hint = FileForm.cut(pem) + FileForm.mislabelled(pem, context)
            return hint.isEmpty ? error : CryptographyError(doing: error.doing + hint)
        }
        ERR_clear_error()
        let hint = FileForm.hint(pem, context)
        return CryptographyError(doing: "read the private key: no BEGIN PRIVATE KEY in the PEM text\(hint)")
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

/// What OpenSSL asks while it reads a key.
private struct PassphraseQuestion {
    let passphrase: Passphrase?
    var isAsked = false
}

/// `pem_password_cb`. - Returns: the passphrase's length; -1 if there is none, for 0 would be an empty one.
private func answerPassphrase(
    _ room: UnsafeMutablePointer<CChar>?, _ size: Int32, _: Int32, _ question: UnsafeMutableRawPointer?
) -> Int32 {
    // The address given with the callback, good for as long as the call that makes it.
    guard let question = question?.assumingMemoryBound(to: PassphraseQuestion.self) else { return -1 }
    question.pointee.isAsked = true
    guard let room, let bytes = question.pointee.passphrase?.bytes, bytes.count <= Int(size) else { return -1 }
    for (index, byte) in bytes.enumerated() { room[index] = CChar(bitPattern: byte) }
    return Int32(bytes.count)
}

/// What a private key in a file is encrypted with. Shows itself to nobody: not to logs, not to a debugger's print.
public struct Passphrase: Sendable {
    let bytes: [UInt8]

    /// In bytes. OpenSSL has room for 1,024.
    public static let longest = 512

    /// - Parameter text: one line; its end, if there is one, is none of the passphrase. Taken as bytes: the key was
    ///   encrypted with bytes, too.
    public init(_ text: [UInt8]) throws(PassphraseFault) {
        var bytes = text[...]
        if bytes.last == UInt8(ascii: "\n") {
            bytes.removeLast()
            if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        }
        guard !bytes.isEmpty else { throw .empty }
        guard bytes.count <= Self.longest else { throw .tooLong }
        // OpenSSL's tools take the first line and say nothing of the others.
        guard !bytes.contains(where: { $0 == UInt8(ascii: "\n") || $0 == 0 }) else { throw .severalLines }
        self.bytes = Array(bytes)
    }
}

extension Passphrase: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "(passphrase)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// Why something is no passphrase.
public enum PassphraseFault: Error, Equatable, Sendable {
    case empty
    case tooLong
    /// More than one line, or NUL.
    case severalLines
}

extension PassphraseFault: CustomStringConvertible {
    /// For people.
    public var description: String {
        switch self {
        case .empty: "the passphrase is empty"
        case .tooLong: "the passphrase is longer than \(Passphrase.longest) bytes"
        case .severalLines: "the passphrase is not one line of text"
        }
    }
}
