internal import Cryptography
internal import Vocabulary

/// Other client data hashes that an app may have passed by mistake: each with what the app did, and whether the server did
/// otherwise.
struct HashVariants {
    struct Variant {
        let hash: [UInt8]
        let explanation: String
    }

    let all: [Variant]

    /// - Parameter name: `challenge` or `client data`.
    init(_ data: ClientData, name: String, _ library: LibraryContext) throws {
        func sha256(_ bytes: [UInt8]) throws -> [UInt8] { try library.sha256(of: bytes.span).bytes }
        func text(_ text: String) -> [UInt8] { Array(text.utf8) }
        let given = data.given
        let what = data.isHash ? "hash" : name
        var variants: [(bytes: [UInt8], what: String)] = []
        if data.isHash {
            variants = [(given, "the hash")]
        } else {
            variants = [(given, "the \(name)")]
            if given.last == 0x0a {
                variants.append((Array(given.dropLast()), "the \(name) without its final line feed"))
            }
            variants.append((given + [0x0a], "the \(name) followed by a line feed"))
        }
        variants += [
            (text(Base64Text.encode(given)), "the base64 text of the \(what)"),
            (text(Base64Text.encodeURL(given)), "the base64url text of the \(what)"),
            (text(Hexadecimal.encode(given)), "the hexadecimal text of the \(what)"),
            (text(Hexadecimal.encode(given).uppercased()), "the upper-case hexadecimal text of the \(what)"),
        ]
        if let pasted = String(validating: given, as: UTF8.self) {
            if let decoded = Base64Text(pasted), !decoded.bytes.isEmpty {
                variants.append((decoded.bytes, "the bytes that the base64 of the \(what) decodes to"))
            }
            variants.append((text(Self.quoted(pasted)), "the \(what) in quotation marks, as in JSON"))
        }
        var all: [Variant] = []
        for (bytes, description) in variants {
            let once = try sha256(bytes)
            let twice = try sha256(once)
            all.append(
                Variant(
                    hash: bytes, explanation: "Not hashed: the app passed \(description) itself, not its SHA-256."))
            all.append(Variant(hash: once, explanation: Self.explainOnce(description, name, isHash: data.isHash)))
            all.append(
                Variant(hash: twice, explanation: "Hashed twice: the app passed SHA-256(SHA-256(\(description)))."))
            let hex = try sha256(text(Hexadecimal.encode(once)))
            all.append(
                Variant(hash: hex, explanation: "The app hashed the hexadecimal text of the SHA-256 of \(description).")
            )
            let base64 = try sha256(text(Base64Text.encode(once)))
            all.append(
                Variant(hash: base64, explanation: "The app hashed the base64 text of the SHA-256 of \(description)."))
        }
        // What was verified with has failed already.
        self.all = all.filter { $0.hash != data.hash }
    }

    private static func explainOnce(_ description: String, _ name: String, isHash: Bool) -> String {
        guard isHash, description == "the hash" else { return "The app passed the SHA-256 of \(description)." }
        return
            "Hashed twice: the app passed the SHA-256 of this hash. Or the given hash is the \(name) itself."
    }

    private static func quoted(_ text: String) -> String { "\"\(text)\"" }
}
