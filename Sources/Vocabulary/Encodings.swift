/// Lower-case hexadecimal, for fingerprints in logs and diagnostics, and for small files.
public enum Hexadecimal {
    public static func encode(_ bytes: [UInt8]) -> String {
        var text = ""
        text.reserveCapacity(bytes.count * 2)
        for byte in bytes {
            text.unicodeScalars.append(digit(byte >> 4))
            text.unicodeScalars.append(digit(byte & 15))
        }
        return text
    }

    /// Decodes a text.
    ///
    /// - Returns: nil unless the text consists of pairs of lower-case digits.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = value(digits[index]), let low = value(digits[index + 1]) else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    private static func digit(_ nibble: UInt8) -> Unicode.Scalar {
        Unicode.Scalar(nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10)
    }
}

/// Days of the Gregorian calendar, counted from 1970-01-01.
public enum GregorianDays {
    /// Returns the number of days from 1970-01-01 to a date.
    ///
    /// - Parameters:
    ///   - year: 0 or later.
    ///   - month: 1 to 12.
    ///   - day: From 1. Days after the month's last count into the next month.
    public static func count(to year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        // Years begin on 1 March, so that the leap day is the last of its year.
        let year = month > 2 ? year : year - 1
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return 365 * year + year / 4 - year / 100 + year / 400 + dayOfYear - 719_468
    }
}
