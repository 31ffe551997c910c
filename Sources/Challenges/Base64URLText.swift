/// Base64url without padding (RFC 4648 section 5). Only the canonical spelling of each value is accepted.
package enum Base64URLText {
    /// Returns the number of characters that encode `count` bytes.
    static func length(ofBytes count: Int) -> Int { (count * 4 + 2) / 3 }

    /// Writes the encoding of `bytes` into `text`, whose size must be `length(ofBytes:)`.
    static func encode(_ bytes: Span<UInt8>, into text: inout MutableSpan<UInt8>) {
        var pending: UInt32 = 0
        var bits: UInt32 = 0
        var position = 0
        for index in bytes.indices {
            pending = pending << 8 | UInt32(bytes[index])
            bits += 8
            while bits >= 6 {
                bits -= 6
                text[position] = character(UInt8(pending >> bits & 0x3f))
                position += 1
            }
            pending &= 1 << bits - 1
        }
        if bits > 0 { text[position] = character(UInt8(pending << (6 - bits) & 0x3f)) }
    }

    /// Decodes `text` into `bytes`, whose size determines the required length of `text`.
    ///
    /// - Returns: false if the length is wrong, a character is outside the alphabet, or trailing bits are not zero (RFC
    ///   4648 section 3.5). Padding, white space, `+` and `/` are outside the alphabet.
    static func decode(_ text: Span<UInt8>, into bytes: inout MutableSpan<UInt8>) -> Bool {
        guard text.count == length(ofBytes: bytes.count) else { return false }
        let values = values.span
        var pending: UInt32 = 0
        var bits: UInt32 = 0
        var position = 0
        for index in text.indices {
            let value = values[Int(text[index])]
            guard value < 64 else { return false }
            pending = pending << 6 | UInt32(value)
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes[position] = UInt8(pending >> bits)
                position += 1
            }
            pending &= 1 << bits - 1
        }
        return pending == 0
    }

    /// Returns the encoding of `bytes`.
    package static func encode(_ bytes: Span<UInt8>) -> String {
        var text = [UInt8](repeating: 0, count: length(ofBytes: bytes.count))
        var room = text.mutableSpan
        encode(bytes, into: &room)
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns the decoded bytes, or nil if `text` is not a canonical encoding.
    package static func decode(_ text: Span<UInt8>) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: text.count * 3 / 4)
        var room = bytes.mutableSpan
        return decode(text, into: &room) ? bytes : nil
    }

    private static func character(_ value: UInt8) -> UInt8 {
        switch value {
        case 0..<26: UInt8(ascii: "A") + value
        case 26..<52: UInt8(ascii: "a") + value - 26
        case 52..<62: UInt8(ascii: "0") + value - 52
        case 62: UInt8(ascii: "-")
        default: UInt8(ascii: "_")
        }
    }

    /// The value of each of the 256 possible bytes. It is 255 for those outside the alphabet.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 255, count: 256)
        for value: UInt8 in 0..<64 { values[Int(character(value))] = value }
        return values
    }()
}
