/// What every field of HTTP/2 has to keep to, in heads and in trailers (RFC 9113 section 8.2), and the rules for names and values
/// that HTTP/1.1's parser has.
enum StreamField {
    /// - Returns: which field it is.
    static func check(
        _ name: Span<UInt8>, _ value: Span<UInt8>, _ table: FieldNameTable
    ) throws(MessageFault) -> FieldName {
        let known = table.find(name, hash: try hash(ofName: name))
        for index in value.indices where !FieldLine.isValue(value[index]) { throw .fieldValueMalformed }
        // Section 8.2.1: nobody takes it away, as HTTP/1.1 does, so what remains would be a second spelling.
        if value.count > 0, FieldLine.isBlank(value[0]) || FieldLine.isBlank(value[value.count - 1]) {
            throw .fieldValueMalformed
        }
        switch known {
        // Section 8.2.2.
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade: throw .fieldOfConnection
        case .te: guard value.equals(trailers.span) else { throw .fieldOfConnection }
        default: break
        }
        return known
    }

    private static func hash(ofName name: Span<UInt8>) throws(MessageFault) -> UInt32 {
        guard name.count > 0 else { throw .fieldNameMalformed }
        var hash = FieldNameTable.start
        for index in name.indices {
            let byte = name[index]
            guard ByteClass.isToken(byte) else { throw .fieldNameMalformed }
            guard ByteClass.lowercased(byte) == byte else { throw .fieldNameUpperCase }
            guard byte != UInt8(ascii: "_"), byte != UInt8(ascii: ".") else { throw .fieldNameAmbiguous }
            hash = FieldNameTable.mix(hash, byte)
        }
        return hash
    }

    private static let trailers = Array("trailers".utf8)
}
