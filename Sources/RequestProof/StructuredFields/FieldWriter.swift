/// The one canonical serialisation of each structured type (RFC 8941 section 4.1), appended to an array of bytes.
enum FieldWriter {
    /// RFC 8941 section 4.1.4.
    static func append(integer value: Int64, to bytes: inout [UInt8]) {
        if value < 0 { bytes.append(FieldByte.minus) }
        var divisor: UInt64 = 1
        let magnitude = value.magnitude
        while magnitude / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            bytes.append(0x30 + UInt8(magnitude / divisor % 10))
            divisor /= 10
        }
    }

    /// RFC 8941 section 4.1.6.
    ///
    /// - Parameter content: what stands between the quotes, escapes included. There is one escape for each of the two
    ///   characters that need it and none for others, so the escaped form of a string is unique.
    static func append(escapedString content: Span<UInt8>, to bytes: inout [UInt8]) {
        let start = bytes.count
        bytes.append(contentsOf: repeatElement(FieldByte.quote, count: content.count + 2))
        bytes.write(content, at: start + 1)
    }

    /// RFC 8941 section 4.1.8.
    static func append(byteSequence value: Span<UInt8>, to bytes: inout [UInt8]) {
        bytes.append(FieldByte.colon)
        Base64.encode(value, appendingTo: &bytes)
        bytes.append(FieldByte.colon)
    }

    /// `;key`: a parameter whose value is true, or whose value the caller appends behind a `=` (RFC 8941 section 4.1.1.2).
    static func append(parameter key: [UInt8], to bytes: inout [UInt8]) {
        bytes.append(FieldByte.semicolon)
        bytes.append(contentsOf: key)
    }

    static func append(parameter key: [UInt8], integer value: Int64, to bytes: inout [UInt8]) {
        append(parameter: key, to: &bytes)
        bytes.append(FieldByte.equals)
        append(integer: value, to: &bytes)
    }

    static func append(parameter key: [UInt8], escapedString content: Span<UInt8>, to bytes: inout [UInt8]) {
        append(parameter: key, to: &bytes)
        bytes.append(FieldByte.equals)
        append(escapedString: content, to: &bytes)
    }

    static func append(parameter key: [UInt8], escapedString content: [UInt8], to bytes: inout [UInt8]) {
        append(parameter: key, escapedString: content.span, to: &bytes)
    }
}
