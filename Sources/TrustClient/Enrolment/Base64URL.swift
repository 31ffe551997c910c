internal import RequestProof

/// Base64url without padding (RFC 4648 section 5), as JOSE has it (RFC 7515 section 2).
enum Base64URL {
    static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        Base64.encode(bytes.span, appendingTo: &text)
        let padding = UInt8(ascii: "=")
        let digits = text.prefix { $0 != padding }.map { digit in
            switch digit {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: digit
            }
        }
        return String(decoding: digits, as: UTF8.self)
    }

    /// - Returns: nil if it is not in the one spelling of some bytes.
    static func decode(_ text: String) -> [UInt8]? {
        var digits: [UInt8] = []
        for digit in text.utf8 {
            switch digit {
            case UInt8(ascii: "-"): digits.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): digits.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): return nil
            default: digits.append(digit)
            }
        }
        digits += [UInt8](repeating: UInt8(ascii: "="), count: (4 - digits.count % 4) % 4)
        var bytes: [UInt8] = []
        guard Base64.decode(digits.span, appendingTo: &bytes), encode(bytes) == text else { return nil }
        return bytes
    }
}
