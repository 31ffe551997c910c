/// The character classes of structured fields (RFC 8941 section 3) for single bytes.
enum FieldByte {
    static let space: UInt8 = 0x20
    static let tab: UInt8 = 0x09
    static let quote = UInt8(ascii: "\"")
    static let backslash = UInt8(ascii: "\\")
    static let comma = UInt8(ascii: ",")
    static let semicolon = UInt8(ascii: ";")
    static let equals = UInt8(ascii: "=")
    static let colon = UInt8(ascii: ":")
    static let open = UInt8(ascii: "(")
    static let close = UInt8(ascii: ")")
    static let minus = UInt8(ascii: "-")
    static let dot = UInt8(ascii: ".")

    static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }
    static func isLowercase(_ byte: UInt8) -> Bool { byte &- 0x61 < 26 }
    static func isAlphabetic(_ byte: UInt8) -> Bool { (byte | 0x20) &- 0x61 < 26 }
    static func isBlank(_ byte: UInt8) -> Bool { byte == space || byte == tab }

    /// Returns whether a key may start with this byte: lcalpha or "*" (RFC 8941 section 3.1.2).
    static func startsKey(_ byte: UInt8) -> Bool { isLowercase(byte) || byte == UInt8(ascii: "*") }

    /// Returns whether a key may continue with this byte.
    static func continuesKey(_ byte: UInt8) -> Bool {
        startsKey(byte) || isDigit(byte) || byte == UInt8(ascii: "_") || byte == minus || byte == dot
    }

    /// Returns whether the byte is a tchar of RFC 9110 section 5.6.2.
    static func isTokenCharacter(_ byte: UInt8) -> Bool {
        // Bit n of a mask represents the byte n, or n - 64: !#$%&'*+-. 0-9
        let low: UInt64 = 0x03ff_6cfa_0000_0000
        //          A-Z ^_` a-z |~
        let high: UInt64 = 0x57ff_ffff_c7ff_fffe
        if byte < 64 { return low >> UInt64(byte) & 1 == 1 }
        return byte < 128 && high >> UInt64(byte & 63) & 1 == 1
    }

    static func lowercased(_ byte: UInt8) -> UInt8 { byte &- 0x41 < 26 ? byte | 0x20 : byte }
}
