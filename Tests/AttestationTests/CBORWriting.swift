/// Writes CBOR as the tests need it; arguments in their shortest form.
enum CBORWriting {
    static func head(_ majorType: UInt8, _ argument: UInt64) -> [UInt8] {
        let major = majorType << 5
        switch argument {
        case ..<24: return [major | UInt8(argument)]
        case ..<0x100: return [major | 24] + bigEndian(argument, 1)
        case ..<0x1_0000: return [major | 25] + bigEndian(argument, 2)
        case ..<0x1_0000_0000: return [major | 26] + bigEndian(argument, 4)
        default: return [major | 27] + bigEndian(argument, 8)
        }
    }

    static func bigEndian(_ value: UInt64, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> UInt64(8 * (count - 1 - $0))) }
    }

    static func bytes(_ bytes: [UInt8]) -> [UInt8] { head(2, UInt64(bytes.count)) + bytes }

    static func text(_ text: String) -> [UInt8] { head(3, UInt64(text.utf8.count)) + text.utf8 }

    /// Keys are text, values are already encoded.
    static func map(_ entries: [(String, [UInt8])]) -> [UInt8] {
        head(5, UInt64(entries.count)) + entries.flatMap { text($0.0) + $0.1 }
    }
}
