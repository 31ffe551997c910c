/// The SHA-256 of a P-256 public key's 65-byte uncompressed point (X9.63): Apple's `keyId`, and this project's
/// fingerprint for every P-256 key, `keypair_mTLS` included.
///
/// Compared as 32 bytes, never as text: base64 has several spellings of one value.
public struct KeyID: Hashable, Sendable {
    private let words: InlineWords

    private struct InlineWords: Hashable, Sendable {
        var first: UInt64 = 0
        var second: UInt64 = 0
        var third: UInt64 = 0
        var fourth: UInt64 = 0
    }

    /// - Parameter digest: exactly 32 bytes; anything else is no key id.
    public init?(digest: Span<UInt8>) {
        guard digest.count == 32 else { return nil }
        func word(_ at: Int) -> UInt64 {
            var value: UInt64 = 0
            for index in at..<(at + 8) { value = value << 8 | UInt64(digest[index]) }
            return value
        }
        words = InlineWords(first: word(0), second: word(8), third: word(16), fourth: word(24))
    }

    /// The first eight bytes, as a number: enough to spread devices by, never to tell them apart.
    public var prefix: UInt64 { words.first }

    /// The 32 bytes.
    public var bytes: [UInt8] {
        [words.first, words.second, words.third, words.fourth].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> (56 - 8 * UInt64($0))) }
        }
    }
}

extension KeyID: CustomStringConvertible {
    /// Lower-case hexadecimal, for people; never used to compare.
    public var description: String { Hexadecimal.encode(bytes) }
}
