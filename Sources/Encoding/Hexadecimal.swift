/// Hexadecimal for fingerprints in logs and diagnostics, and for small files.
public enum Hexadecimal {
    /// Returns two lower-case digits for each byte.
    public static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count * 2)
        append(bytes, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends two lower-case digits for each byte.
    package static func append(_ bytes: [UInt8], to text: inout [UInt8]) {
        for byte in bytes {
            text.append(digit(byte >> 4))
            text.append(digit(byte & 15))
        }
    }

    /// Returns a number in lower case.
    ///
    /// - Parameter digits: The minimum number of digits. Missing ones are zeros.
    package static func encode(_ number: some UnsignedInteger, digits minimum: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: max(0, minimum - digits.count)) + digits
    }

    /// Decodes a text.
    ///
    /// - Returns: nil unless the text consists of pairs of lower-case digits.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = value(lowercase: digits[index]), let low = value(lowercase: digits[index + 1]) else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    /// Returns the value of a digit in either case, or nil for other bytes.
    @inlinable
    package static func value(_ digit: UInt8) -> UInt8? {
        if digit &- 0x30 < 10 { return digit &- 0x30 }
        let letter = (digit | 0x20) &- 0x61
        return letter < 6 ? letter + 10 : nil
    }

    /// Returns the value of a decimal digit or a lower-case letter, or nil for other bytes.
    @inlinable
    package static func value(lowercase digit: UInt8) -> UInt8? {
        digit < 0x41 || digit > 0x46 ? value(digit) : nil
    }

    private static func digit(_ nibble: UInt8) -> UInt8 {
        nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10
    }
}
