/// What every field of HTTP/2 has to keep to, in heads and in trailers (RFC 9113 section 8.2), and the rules for names and values
/// that HTTP/1.1's parser has.
enum StreamField {
    /// - Returns: which field it is, and whether it has an unusual name (`HeaderField.hasUnusualName`).
    static func check(
        _ name: Span<UInt8>, _ value: Span<UInt8>, _ table: FieldNameTable
    ) throws(MessageFault) -> (known: FieldName, isUnusual: Bool) {
        let isUnusual = try check(name: name)
        let known = table.find(name)
        for index in value.indices where !FieldLine.isValue(value[index]) { throw .fieldValueMalformed }
        // Section 8.2.1: nobody takes it away, as HTTP/1.1 does, so what remains would be a second spelling.
        if value.count > 0, FieldLine.isBlank(value[0]) || FieldLine.isBlank(value[value.count - 1]) {
            throw .fieldValueMalformed
        }
        switch known {
        // Section 8.2.2.
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade: throw .fieldOfConnection
        case .te: guard admitsTrailersAlone(value) else { throw .fieldOfConnection }
        default: break
        }
        return (known, isUnusual)
    }

    /// The one TE that HTTP/2 has.
    static func admitsTrailersAlone(_ te: Span<UInt8>) -> Bool { te.equals(trailers.span) }

    /// - Returns: whether it is unusual.
    private static func check(name: Span<UInt8>) throws(MessageFault) -> Bool {
        var isUnusual = false
        guard name.count > 0 else { throw .fieldNameMalformed }
        for index in name.indices {
            let byte = name[index]
            guard ByteClass.isToken(byte) else { throw .fieldNameMalformed }
            guard ByteClass.lowercased(byte) == byte else { throw .fieldNameUpperCase }
            if !ByteClass.isPlainInName(byte) { isUnusual = true }
        }
        return isUnusual
    }

    private static let trailers = Array("trailers".utf8)
}
