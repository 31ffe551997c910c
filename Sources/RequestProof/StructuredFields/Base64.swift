/// Base64 with the standard alphabet, canonical only (RFC 4648 sections 3.5 and 4).
///
/// Padding is required, and its unused bits are zero. RFC 8941 section 4.2.7 permits parsers to be lenient, but a proof
/// must not have a second spelling.
package enum Base64 {
    /// Decodes `text` and appends the bytes.
    ///
    /// - Returns: false if the text is not strict base64. `bytes` is then unchanged.
    package static func decode(_ text: Span<UInt8>, appendingTo bytes: inout [UInt8]) -> Bool {
        guard text.count % 4 == 0 else { return false }
        guard text.count > 0 else { return true }
        let before = bytes.count
        let table = values
        // The last four characters may have padding and are decoded separately.
        let last = text.count - 4
        bytes.append(contentsOf: repeatElement(0, count: last / 4 * 3))
        guard decode(text.extracting(..<last), table.span, into: &bytes, at: before),
            decodeLast(text.extracting(last...), table, appendingTo: &bytes)
        else {
            bytes.removeLast(bytes.count - before)
            return false
        }
        return true
    }

    /// Decodes groups of four characters without padding into existing memory.
    private static func decode(
        _ text: Span<UInt8>, _ table: Span<UInt8>, into bytes: inout [UInt8], at start: Int
    ) -> Bool {
        var room = bytes.mutableSpan
        // The compiler removes bounds checks of the table after this check.
        guard table.count == 256 else { return false }
        var place = start
        var position = 0
        while position < text.count {
            let four = text.extracting(position..<(position + 4))
            let (a, b) = (table[Int(four[0])], table[Int(four[1])])
            let (c, d) = (table[Int(four[2])], table[Int(four[3])])
            guard a | b | c | d < 64 else { return false }
            room[place] = a << 2 | b >> 4
            room[place + 1] = b << 4 | c >> 2
            room[place + 2] = c << 6 | d
            place += 3
            position += 4
        }
        return true
    }

    private static func decodeLast(
        _ text: Span<UInt8>, _ table: [UInt8], appendingTo bytes: inout [UInt8]
    ) -> Bool {
        let (a, b) = (table[Int(text[0])], table[Int(text[1])])
        guard a | b < 64 else { return false }
        if text[3] != FieldByte.equals {
            let (c, d) = (table[Int(text[2])], table[Int(text[3])])
            guard c | d < 64 else { return false }
            bytes.append(a << 2 | b >> 4)
            bytes.append(b << 4 | c >> 2)
            bytes.append(c << 6 | d)
            return true
        }
        if text[2] == FieldByte.equals {
            guard b & 0x0f == 0 else { return false }
            bytes.append(a << 2 | b >> 4)
            return true
        }
        let c = table[Int(text[2])]
        guard c < 64, c & 0x03 == 0 else { return false }
        bytes.append(a << 2 | b >> 4)
        bytes.append(b << 4 | c >> 2)
        return true
    }

    package static func encode(_ bytes: Span<UInt8>, appendingTo text: inout [UInt8]) {
        var position = 0
        while position < bytes.count {
            let remaining = bytes.count - position
            let a = bytes[position]
            let b = remaining > 1 ? bytes[position + 1] : 0
            let c = remaining > 2 ? bytes[position + 2] : 0
            text.append(alphabet[Int(a >> 2)])
            text.append(alphabet[Int((a & 0x03) << 4 | b >> 4)])
            text.append(remaining > 1 ? alphabet[Int((b & 0x0f) << 2 | c >> 6)] : FieldByte.equals)
            text.append(remaining > 2 ? alphabet[Int(c & 0x3f)] : FieldByte.equals)
            position += 3
        }
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The value of each of the 256 possible bytes. It is 255 for those outside the alphabet.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 255, count: 256)
        for (value, character) in alphabet.enumerated() { values[Int(character)] = UInt8(value) }
        return values
    }()
}
