import Challenges
import Cryptography
import Vocabulary

/// A library context, and what the tests compute with it.
struct Keys {
    let library: LibraryContext

    init() throws { library = try LibraryContext() }

    func hash(_ bytes: [UInt8]) throws -> [UInt8] { try library.sha256(of: bytes.span).bytes }

    func generate() throws -> P256SigningKey { try P256SigningKey(PrivateKey.generateP256(library), library) }

    func verification(_ key: P256SigningKey) throws -> P256VerificationKey {
        let point = key.point
        return try P256VerificationKey(point: point.span, library)
    }

    func keyID(_ point: [UInt8]) throws -> KeyID? {
        let digest = try hash(point)
        return KeyID(digest: digest.span)
    }

    /// ES256: r and s of 32 bytes each (RFC 7518 section 3.4).
    func sign(_ message: [UInt8], _ key: P256SigningKey) throws -> [UInt8] {
        let der = try key.sign(digest: library.sha256(of: message.span))
        let length = Int(der[3])
        let r = der[4..<(4 + length)]
        let s = der[(6 + length)...]
        return [r, s].flatMap { integer in
            [UInt8](repeating: 0, count: max(0, 32 - integer.count)) + integer.suffix(32)
        }
    }

    /// An assertion's signature, in DER.
    func sign(authenticatorData: [UInt8], clientData: [UInt8], _ key: P256SigningKey) throws -> [UInt8] {
        let nonce = try hash(authenticatorData + hash(clientData))
        return try key.sign(digest: library.sha256(of: nonce.span))
    }
}

func base64URL(_ bytes: [UInt8]) -> String { Base64URLText.encode(bytes.span) }

func base64URL(_ text: String) -> String { base64URL(Array(text.utf8)) }

/// A JSON object, written as the test wants it: members may be missing, wrong, or there twice.
struct Draft {
    /// Values are JSON already.
    var members: [(name: String, value: String)]

    var text: String { "{" + members.map { "\"\($0.name)\":\($0.value)" }.joined(separator: ",") + "}" }

    subscript(_ name: String) -> String? {
        get { members.first { $0.name == name }?.value }
        set {
            if let index = members.firstIndex(where: { $0.name == name }) {
                if let newValue { members[index].value = newValue } else { members.remove(at: index) }
            } else if let newValue {
                members.append((name, newValue))
            }
        }
    }
}

func quoted(_ text: String) -> String { "\"\(text)\"" }

extension Result {
    var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}
