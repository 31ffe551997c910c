internal import Encoding

/// The id of an app. Its form tells Apple's apps and Android apps apart.
///
/// | system | form | example |
/// |---|---|---|
/// | Apple's | team id or older prefix of ten characters, a full stop, the bundle id | `ABCDE12345.org.example.app` |
/// | Android | `android:` and the package name | `android:org.example.app` |
///
/// The RP id hash of Apple's attestations is the SHA-256 of this text. Its length is limited and all characters are
/// printable ASCII, so that logs, headers and files can contain it unchanged. Comparison is byte by byte and
/// case-sensitive.
public struct AppID: Hashable, Sendable {
    private let text: String
    /// Whether the app is an Android app.
    public let isAndroid: Bool

    /// Limit of the bundle id in bytes, as Apple defines it.
    public static let bundleLimit = 155
    /// Limit of the package name in bytes, as Android defines it.
    public static let packageLimit = 223
    private static let prefixLength = 10
    private static let androidPrefix = Array("android:".utf8)

    /// Parses an app id.
    ///
    /// - Parameter text: `PREFIX.bundle` or `android:package`. The prefix has ten upper-case letters and digits. The
    ///   bundle id has labels of letters, digits, `-` and `_`, separated by single full stops. The package name has at
    ///   least two such labels, without `-`, each of which begins with a letter.
    /// - Returns: nil for other texts.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        isAndroid = bytes.starts(with: Self.androidPrefix)
        let isValid = isAndroid ? Self.isPackage(bytes[Self.androidPrefix.count...]) : Self.isAppleID(bytes[...])
        guard isValid else { return nil }
        self.text = text
    }

    private static func isAppleID(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard bytes.count > prefixLength + 1, bytes.count <= prefixLength + 1 + bundleLimit,
            bytes[prefixLength] == UInt8(ascii: "."),
            bytes[..<prefixLength].allSatisfy({ isDigit($0) || isUpper($0) })
        else { return false }
        return labels(bytes[(prefixLength + 1)...]).allSatisfy { !$0.isEmpty && $0.allSatisfy(isBundleByte) }
    }

    private static func isPackage(_ bytes: ArraySlice<UInt8>) -> Bool {
        let labels = labels(bytes)
        return bytes.count <= packageLimit && labels.count >= 2
            && labels.allSatisfy { label in
                guard let first = label.first, isUpper(first) || isLower(first) else { return false }
                return label.allSatisfy { isBundleByte($0) && $0 != UInt8(ascii: "-") }
            }
    }

    private static func labels(_ bytes: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
    private static func isUpper(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") }
    private static func isLower(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z") }
    private static func isBundleByte(_ byte: UInt8) -> Bool {
        isDigit(byte) || isUpper(byte) || isLower(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }
}

extension AppID {
    /// The package name. Nil for apps of Apple's platforms.
    public var package: String? { isAndroid ? String(text.dropFirst(Self.androidPrefix.count)) : nil }
}

extension AppID: CustomStringConvertible {
    public var description: String { text }
}

/// The SHA-256 of a P-256 public key's 65-byte uncompressed point (X9.63). It is Apple's `keyId`, and this project's
/// fingerprint of every P-256 key, including `keypair_mTLS`.
///
/// Key ids are compared as 32 bytes, never as text, because base64 has several spellings of one value.
public struct KeyID: Hashable, Sendable {
    private let words: InlineWords

    private struct InlineWords: Hashable, Sendable {
        var first: UInt64 = 0
        var second: UInt64 = 0
        var third: UInt64 = 0
        var fourth: UInt64 = 0
    }

    /// Creates a key id.
    ///
    /// - Parameter digest: Exactly 32 bytes.
    public init?(digest: Span<UInt8>) {
        guard digest.count == 32 else { return nil }
        func word(_ at: Int) -> UInt64 {
            var value: UInt64 = 0
            for index in at..<(at + 8) { value = value << 8 | UInt64(digest[index]) }
            return value
        }
        words = InlineWords(first: word(0), second: word(8), third: word(16), fourth: word(24))
    }

    /// The first eight bytes as a number. It distributes devices, and never identifies them.
    public var prefix: UInt64 { words.first }

    /// Hashes the prefix alone: a digest is evenly distributed, and many keys with one prefix are infeasible to find.
    public func hash(into hasher: inout Hasher) { hasher.combine(words.first) }

    /// The 32 bytes.
    public var bytes: [UInt8] {
        [words.first, words.second, words.third, words.fourth].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> (56 - 8 * UInt64($0))) }
        }
    }
}

extension KeyID: CustomStringConvertible {
    /// The id in lower-case hexadecimal for people. It is never used for comparison.
    public var description: String { Hexadecimal.encode(bytes) }
}
