/// Base64 with padding (RFC 4648 section 4).
///
/// Padding is required, and the unused bits before it are zero (section 3.5). RFC 8941 section 4.2.7 permits parsers to
/// be lenient, but a proof must not have a second spelling.
package enum Base64 {
    /// Decodes `text` and appends the bytes.
    ///
    /// - Parameter isCanonical: Whether unused bits must be zero.
    /// - Returns: false if the text is not such base64. `bytes` is then unchanged.
    package static func decode(
        _ text: Span<UInt8>, appendingTo bytes: inout [UInt8], isCanonical: Bool = true
    ) -> Bool {
        guard text.count % 4 == 0 else { return false }
        guard text.count > 0 else { return true }
        var digits = text.count
        for _ in 0..<2 where text[digits - 1] == Base64Alphabet.padding { digits -= 1 }
        let start = bytes.count
        bytes.append(addingCapacity: digits * 3 / 4) { $0.append(repeating: 0, count: digits * 3 / 4) }
        var room = bytes.mutableSpan
        let isDecoded = Base64Alphabet.standard.decode(
            text.extracting(..<digits), into: &room, at: start, isCanonical: isCanonical)
        if isDecoded { return true }
        bytes.removeLast(bytes.count - start)
        return false
    }

    /// Returns the decoded bytes, or nil if `text` is not base64 with padding.
    ///
    /// - Parameter isCanonical: Whether unused bits must be zero.
    package static func decode(_ text: some Sequence<UInt8>, isCanonical: Bool = true) -> [UInt8]? {
        let characters = Array(text)
        var bytes: [UInt8] = []
        return decode(characters.span, appendingTo: &bytes, isCanonical: isCanonical) ? bytes : nil
    }

    /// Returns the decoded bytes, or nil if `text` is not base64 with padding.
    ///
    /// - Parameter isCanonical: Whether unused bits must be zero.
    package static func decode(_ text: String, isCanonical: Bool = true) -> [UInt8]? {
        decode(text.utf8, isCanonical: isCanonical)
    }

    /// Appends the encoding of `bytes`.
    package static func encode(_ bytes: Span<UInt8>, appendingTo text: inout [UInt8]) {
        let start = text.count
        text.append(contentsOf: repeatElement(Base64Alphabet.padding, count: (bytes.count + 2) / 3 * 4))
        var room = text.mutableSpan
        Base64Alphabet.standard.encode(bytes, into: &room, at: start)
    }

    /// Returns the encoding of `bytes`.
    package static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        encode(bytes.span, appendingTo: &text)
        return String(decoding: text, as: UTF8.self)
    }
}

/// Base64url without padding (RFC 4648 section 5), canonical only, as in JOSE (RFC 7515 section 2).
///
/// Padding, white space, `+` and `/` are refused.
package enum Base64URL {
    /// Returns the number of characters that encode `count` bytes.
    package static func length(ofBytes count: Int) -> Int { (count * 4 + 2) / 3 }

    /// Decodes `text` into `bytes`, whose size determines the required length of `text`.
    ///
    /// - Returns: false if the length is wrong or the text is not canonical.
    package static func decode(_ text: Span<UInt8>, into bytes: inout MutableSpan<UInt8>) -> Bool {
        guard text.count == length(ofBytes: bytes.count) else { return false }
        return Base64Alphabet.url.decode(text, into: &bytes, at: 0, isCanonical: true)
    }

    /// Returns the decoded bytes, or nil if `text` is not canonical base64url.
    package static func decode(_ text: Span<UInt8>) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: text.count * 3 / 4)
        var room = bytes.mutableSpan
        return decode(text, into: &room) ? bytes : nil
    }

    /// Returns the decoded bytes, or nil if `text` is not canonical base64url.
    package static func decode(_ text: String) -> [UInt8]? {
        let characters = Array(text.utf8)
        return decode(characters.span)
    }

    /// Writes the encoding of `bytes` into `text`, whose size must be `length(ofBytes:)`.
    package static func encode(_ bytes: Span<UInt8>, into text: inout MutableSpan<UInt8>) {
        Base64Alphabet.url.encode(bytes, into: &text, at: 0)
    }

    /// Returns the encoding of `bytes`.
    package static func encode(_ bytes: Span<UInt8>) -> String {
        var text = [UInt8](repeating: 0, count: length(ofBytes: bytes.count))
        var room = text.mutableSpan
        encode(bytes, into: &room)
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns the encoding of `bytes`.
    package static func encode(_ bytes: [UInt8]) -> String { encode(bytes.span) }
}

/// The digits of one of the two alphabets.
private struct Base64Alphabet: Sendable {
    static let standard = Base64Alphabet("+/")
    static let url = Base64Alphabet("-_")
    static let padding = UInt8(ascii: "=")

    private let digits: [UInt8]
    /// The value of each of the 256 possible bytes. It is 255 for those that are no digits.
    private var values = [UInt8](repeating: 255, count: 256)

    private init(_ last: String) {
        digits = Array(("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + last).utf8)
        for (value, digit) in digits.enumerated() { values[Int(digit)] = UInt8(value) }
    }

    /// Decodes digits without padding.
    ///
    /// - Parameters:
    ///   - bytes: Room for the decoded bytes from `start` on: three for four digits.
    ///   - isCanonical: Whether unused bits must be zero.
    /// - Returns: false if a byte is no digit, the number of digits is impossible, or unused bits are wrong.
    func decode(
        _ text: Span<UInt8>, into bytes: inout MutableSpan<UInt8>, at start: Int, isCanonical: Bool
    ) -> Bool {
        let table = values.span
        // The compiler removes bounds checks of the table after this check.
        guard table.count == 256 else { return false }
        var place = start
        var position = 0
        while position + 4 <= text.count {
            let four = text.extracting(position..<(position + 4))
            let (a, b) = (table[Int(four[0])], table[Int(four[1])])
            let (c, d) = (table[Int(four[2])], table[Int(four[3])])
            guard a | b | c | d < 64 else { return false }
            bytes[place] = a << 2 | b >> 4
            bytes[place + 1] = b << 4 | c >> 2
            bytes[place + 2] = c << 6 | d
            place += 3
            position += 4
        }
        guard position < text.count else { return true }
        guard position + 1 < text.count else { return false }
        let (a, b) = (table[Int(text[position])], table[Int(text[position + 1])])
        let c = position + 2 < text.count ? table[Int(text[position + 2])] : 0
        guard a | b | c < 64 else { return false }
        bytes[place] = a << 2 | b >> 4
        guard position + 2 < text.count else { return !isCanonical || b & 0x0f == 0 }
        bytes[place + 1] = b << 4 | c >> 2
        return !isCanonical || c & 0x03 == 0
    }

    /// Writes the digits of `bytes`.
    ///
    /// - Parameter text: Room for the digits from `start` on. Bytes behind them are unchanged.
    func encode(_ bytes: Span<UInt8>, into text: inout MutableSpan<UInt8>, at start: Int) {
        let digits = digits.span
        guard digits.count == 64 else { return }
        var place = start
        var position = 0
        while position + 3 <= bytes.count {
            let (a, b, c) = (bytes[position], bytes[position + 1], bytes[position + 2])
            text[place] = digits[Int(a >> 2)]
            text[place + 1] = digits[Int((a & 0x03) << 4 | b >> 4)]
            text[place + 2] = digits[Int((b & 0x0f) << 2 | c >> 6)]
            text[place + 3] = digits[Int(c & 0x3f)]
            place += 4
            position += 3
        }
        guard position < bytes.count else { return }
        let a = bytes[position]
        let b = position + 1 < bytes.count ? bytes[position + 1] : 0
        text[place] = digits[Int(a >> 2)]
        text[place + 1] = digits[Int((a & 0x03) << 4 | b >> 4)]
        if position + 1 < bytes.count { text[place + 2] = digits[Int((b & 0x0f) << 2)] }
    }
}
