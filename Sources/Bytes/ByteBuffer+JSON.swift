/// Writing JSON text (RFC 8259) without building strings.
extension ByteBuffer {
    /// Appends `text` as a JSON string, quotes included.
    public mutating func appendJSON(_ text: String) {
        var text = text
        text.withUTF8 { appendJSON($0) { $0 < 0x20 || $0 == 0x22 || $0 == 0x5c || $0 == 0x7f } }
    }

    /// Appends bytes of any kind as a JSON string of ASCII alone, quotes included. What is beyond ASCII is taken for Latin-1
    /// (`\u00e4`), which any byte is: the text stays well-formed whatever somebody sent, and no terminal is driven by it.
    public mutating func appendJSON(bytes: Span<UInt8>) {
        bytes.withUnsafeBufferPointer {
            appendJSON($0) { $0 < 0x20 || $0 == 0x22 || $0 == 0x5c || $0 >= 0x7f }
        }
    }

    private mutating func appendJSON(_ bytes: UnsafeBufferPointer<UInt8>, escaping needsEscape: (UInt8) -> Bool) {
        append("\"")
        // What needs no escape is copied in runs.
        var start = 0
        for (index, byte) in bytes.enumerated() where needsEscape(byte) {
            append(UnsafeBufferPointer(rebasing: bytes[start..<index]).span)
            appendEscape(byte)
            start = index + 1
        }
        append(UnsafeBufferPointer(rebasing: bytes[start...]).span)
        append("\"")
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
