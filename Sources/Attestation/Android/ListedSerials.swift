extension AttestationStatusList {
    /// The serials as certificates' serials are compared and stored: in lower-case hexadecimal, without leading zeros. An
    /// entry of digits only may be of either notation and has both values.
    public var hexadecimalSerials: Set<String> {
        var all: Set<String> = []
        for serial in serials {
            if let hexadecimal = Self.trimmed(serial) { all.insert(hexadecimal) }
            if let converted = Self.hexadecimal(ofDecimal: serial) { all.insert(converted) }
        }
        return all
    }

    /// The maximum of digits: 20 octets (RFC 5280 section 4.1.2.2).
    private static let digitLimit = 40

    /// Returns a hexadecimal number without leading zeros. Nil if it is no number, or longer than any serial.
    private static func trimmed(_ text: String) -> String? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }) else {
            return nil
        }
        let digits = text.drop { $0 == "0" }
        guard digits.utf8.count <= digitLimit else { return nil }
        return digits.isEmpty ? "0" : String(digits)
    }

    /// Converts a decimal number. Nil if it is none, or longer than any serial.
    private static func hexadecimal(ofDecimal text: String) -> String? {
        let decimal = text.utf8.drop { $0 == 0x30 }
        guard !text.isEmpty, decimal.count <= 49, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        // The number as bytes, the last one first.
        var bytes: [UInt8] = []
        for digit in decimal {
            var carry = Int(digit - 0x30)
            for index in bytes.indices {
                carry += Int(bytes[index]) * 10
                bytes[index] = UInt8(carry & 0xff)
                carry >>= 8
            }
            if carry > 0 { bytes.append(UInt8(carry)) }
        }
        let digits = Array("0123456789abcdef".utf8)
        var characters: [UInt8] = []
        for byte in bytes.reversed() { characters += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
        return trimmed(characters.isEmpty ? "0" : String(decoding: characters, as: UTF8.self))
    }
}
