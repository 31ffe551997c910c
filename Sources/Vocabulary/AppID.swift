/// The id of an app as Apple signs it: ten characters of team id or older prefix, a full stop, the bundle id, as in
/// `ABCDE12345.org.example.app`. The RP id of an attestation is the SHA-256 of this text.
///
/// Bounded printable ASCII, so that it can stand in logs, headers and files as it is. Compared byte by byte: case counts.
public struct AppID: Hashable, Sendable {
    private let text: String

    /// What the bundle id may have in bytes; Apple's own limit.
    public static let bundleLimit = 155
    private static let prefixLength = 10

    /// - Parameter text: `PREFIX.bundle`; the prefix ten upper-case letters and digits, the bundle id labels of letters,
    ///   digits, `-` and `_`, separated by single full stops. Anything else is no app id.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count > Self.prefixLength + 1, bytes.count <= Self.prefixLength + 1 + Self.bundleLimit,
            bytes[Self.prefixLength] == UInt8(ascii: "."),
            bytes[..<Self.prefixLength].allSatisfy({ Self.isDigit($0) || Self.isUpper($0) })
        else { return nil }
        let labels = bytes[(Self.prefixLength + 1)...]
            .split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard labels.allSatisfy({ !$0.isEmpty && $0.allSatisfy(Self.isBundleByte) }) else { return nil }
        self.text = text
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
    private static func isUpper(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") }
    private static func isBundleByte(_ byte: UInt8) -> Bool {
        isDigit(byte) || isUpper(byte) || (byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z"))
            || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }
}

extension AppID: CustomStringConvertible {
    public var description: String { text }
}
