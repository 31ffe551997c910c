/// Lower-case hexadecimal text of bytes, for fingerprints in logs and diagnostics.
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

    private static func digit(_ nibble: UInt8) -> Unicode.Scalar {
        Unicode.Scalar(nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10)
    }
}
