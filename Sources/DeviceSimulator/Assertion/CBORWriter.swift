/// Writes the CBOR of attestations and assertions (RFC 8949): lengths definite and in their shortest form.
enum CBORWriter {
    static func bytes(_ bytes: [UInt8]) -> [UInt8] { head(2, bytes.count) + bytes }

    static func text(_ text: String) -> [UInt8] { head(3, text.utf8.count) + text.utf8 }

    /// - Parameter entries: values are encoded already.
    static func map(_ entries: [(String, [UInt8])]) -> [UInt8] {
        head(5, entries.count) + entries.flatMap { text($0.0) + $0.1 }
    }

    /// - Parameter elements: encoded already.
    static func array(_ elements: [[UInt8]]) -> [UInt8] { head(4, elements.count) + elements.flatMap(\.self) }

    /// Lengths here are of kilobytes at most.
    private static func head(_ majorType: UInt8, _ length: Int) -> [UInt8] {
        let major = majorType << 5
        switch length {
        case ..<24: return [major | UInt8(length)]
        case ..<0x100: return [major | 24, UInt8(length)]
        default: return [major | 25, UInt8(length >> 8), UInt8(length & 0xff)]
        }
    }
}
