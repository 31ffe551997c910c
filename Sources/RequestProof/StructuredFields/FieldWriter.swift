internal import Encoding

/// The canonical serialization of each structured type (RFC 8941 section 4.1), appended to an array of bytes.
enum FieldWriter {
    /// Appends an integer (RFC 8941 section 4.1.4).
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

    /// Appends a string (RFC 8941 section 4.1.6).
    ///
    /// - Parameter content: The text between the quotes, including escapes. Only the two characters that need an escape
    ///   have one, so the escaped form of a string is unique.
    static func append(escapedString content: Span<UInt8>, to bytes: inout [UInt8]) {
        bytes.append(addingCapacity: content.count + 2) { room in
            room.append(FieldByte.quote)
            room.append(content)
            room.append(FieldByte.quote)
        }
    }

    /// Appends a byte sequence (RFC 8941 section 4.1.8).
    static func append(byteSequence value: Span<UInt8>, to bytes: inout [UInt8]) {
        bytes.append(FieldByte.colon)
        Base64.encode(value, appendingTo: &bytes)
        bytes.append(FieldByte.colon)
    }

    /// Appends `;key`: a parameter that is true, or whose value the caller appends after a `=` (RFC 8941 section
    /// 4.1.1.2).
    static func append(parameter key: [UInt8], to bytes: inout [UInt8]) {
        bytes.append(FieldByte.semicolon)
        bytes.append(key.span)
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

/// The canonical serialization of a whole dictionary (RFC 8941 sections 4.2 and 4.1).
///
/// Tests and fuzzing compare the parsers of this module with it. Members that occur twice are kept, because no parser
/// here accepts the last one.
package enum CanonicalForm {
    /// Parses and serializes a dictionary.
    ///
    /// - Throws: if the bytes are not a dictionary or contain a byte sequence that is not strict base64.
    package static func dictionary(_ field: Span<UInt8>) throws(Malformation) -> [UInt8] {
        var parser = try FieldParser(field)
        var bytes: [UInt8] = []
        while let key = try parser.nextMember() {
            if !bytes.isEmpty { bytes += [FieldByte.comma, FieldByte.space] }
            bytes.append(field.extracting(key))
            switch try parser.memberValue() {
            case .flag: break
            // A member that is true is written without its value, as a parameter is (RFC 8941 section 4.1.2).
            case .item(.boolean(true)): break
            case .item(let item):
                bytes.append(FieldByte.equals)
                try append(item, of: field, to: &bytes)
            case .innerList:
                bytes += [FieldByte.equals, FieldByte.open]
                var isFirst = true
                while let item = try parser.nextInnerItem() {
                    if !isFirst { bytes.append(FieldByte.space) }
                    isFirst = false
                    try append(item, of: field, to: &bytes)
                    try appendParameters(&parser, of: field, to: &bytes)
                }
                bytes.append(FieldByte.close)
            }
            try appendParameters(&parser, of: field, to: &bytes)
        }
        return bytes
    }

    private static func appendParameters(
        _ parser: inout FieldParser, of field: Span<UInt8>, to bytes: inout [UInt8]
    ) throws(Malformation) {
        while let (key, value) = try parser.nextParameter() {
            bytes.append(FieldByte.semicolon)
            bytes.append(field.extracting(key))
            if value == .boolean(true) { continue }
            bytes.append(FieldByte.equals)
            try append(value, of: field, to: &bytes)
        }
    }

    private static func append(
        _ item: BareItem, of field: Span<UInt8>, to bytes: inout [UInt8]
    ) throws(Malformation) {
        switch item {
        case .integer(let value): FieldWriter.append(integer: value, to: &bytes)
        case .decimal(let range): append(decimal: field.extracting(range), to: &bytes)
        case .string(let range): FieldWriter.append(escapedString: field.extracting(range), to: &bytes)
        case .token(let range): bytes.append(field.extracting(range))
        case .boolean(let value): bytes += [UInt8(ascii: "?"), UInt8(ascii: value ? "1" : "0")]
        case .byteSequence(let range):
            var value: [UInt8] = []
            guard Base64.decode(field.extracting(range), appendingTo: &value) else { throw .base64 }
            FieldWriter.append(byteSequence: value.span, to: &bytes)
        }
    }

    /// Appends a decimal (RFC 8941 section 4.1.5): without needless zeros, with a digit on either side, and no negative
    /// zero.
    private static func append(decimal: Span<UInt8>, to bytes: inout [UInt8]) {
        var start = 0
        var end = decimal.count
        var isZero = true
        for index in decimal.indices where (0x31...0x39).contains(decimal[index]) { isZero = false }
        if decimal[0] == FieldByte.minus {
            start = 1
            if !isZero { bytes.append(FieldByte.minus) }
        }
        while decimal[start] == 0x30, decimal[start + 1] != FieldByte.dot { start += 1 }
        while decimal[end - 1] == 0x30, decimal[end - 2] != FieldByte.dot { end -= 1 }
        bytes.append(decimal.extracting(start..<end))
    }
}
