/// Writing JSON text (RFC 8259) without building strings.
extension ByteBuffer {
    /// Appends `text` as a JSON string, quotes included.
    public mutating func appendJSON(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            append("\"")
            // What needs no escape is copied in runs.
            var start = 0
            for (index, byte) in bytes.enumerated() where byte < 0x20 || byte == 0x22 || byte == 0x5c || byte == 0x7f {
                append(UnsafeBufferPointer(rebasing: bytes[start..<index]).span)
                appendEscape(byte)
                start = index + 1
            }
            append(UnsafeBufferPointer(rebasing: bytes[start...]).span)
            append("\"")
        }
    }

    private mutating func appendEscape(_ byte: UInt8) {
        switch byte {
        case 0x22: append("\\\"")
        case 0x5c: append("\\\\")
        default:
            append("\\u")
            append(hex: UInt64(byte), digits: 4)
        }
    }
}
