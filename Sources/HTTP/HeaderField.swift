internal import Bytes

/// One header field of a parsed head: where its name and value stand.
public struct HeaderField: Sendable {
    public let nameRange: ByteRange
    /// Without the white space around it.
    public let valueRange: ByteRange
    public let name: FieldName
    /// Whether the name has characters other than letters, digits and `-`. Many servers read those as they read a `-`, so a
    /// client could send a second spelling of a field that is removed.
    public let hasUnusualName: Bool
}

/// Parses the field lines of heads and trailers (RFC 9112 section 5), the strictest reading of each rule.
enum FieldLine {
    enum Outcome {
        case field(HeaderField, next: Int)
        /// The empty line that ends the section.
        case end(next: Int)
        /// The line is not complete yet.
        case incomplete
    }

    static func parse(
        _ bytes: Span<UInt8>, at start: Int, table: FieldNameTable
    ) throws(MessageFault) -> Outcome {
        guard start < bytes.count else { return .incomplete }
        switch bytes[start] {
        case ByteClass.carriageReturn:
            guard start + 1 < bytes.count else { return .incomplete }
            guard bytes[start + 1] == ByteClass.lineFeed else { throw .bareCarriageReturn }
            return .end(next: start + 2)
        case ByteClass.space, ByteClass.tab: throw .obsoleteLineFolding
        default: break
        }

        // The name, up to the colon. Letters and hyphens are gone over in words.
        var position = bytes.firstBesideLetters(from: start)
        var isUnusual = false
        while true {
            guard position < bytes.count else { return .incomplete }
            let byte = bytes[position]
            if byte == ByteClass.colon { break }
            guard ByteClass.isToken(byte) else { throw fault(inName: byte, at: position, start: start) }
            if !ByteClass.isPlainInName(byte) { isUnusual = true }
            position = bytes.firstBesideLetters(from: position + 1)
        }
        guard position > start else { throw .fieldNameMalformed }
        let name = bytes.extracting(start..<position)
        let nameEnd = position

        // The value, without the white space around it.
        position += 1
        while position < bytes.count, isBlank(bytes[position]) { position += 1 }
        let valueStart = position
        position = bytes.firstControl(from: position)
        // The one control that may stand there.
        while position < bytes.count, bytes[position] == ByteClass.tab {
            position = bytes.firstControl(from: position + 1)
        }
        guard position < bytes.count else { return .incomplete }
        guard bytes[position] == ByteClass.carriageReturn else {
            throw bytes[position] == ByteClass.lineFeed ? .bareLineFeed : .fieldValueMalformed
        }
        guard position + 1 < bytes.count else { return .incomplete }
        guard bytes[position + 1] == ByteClass.lineFeed else { throw .bareCarriageReturn }
        var valueEnd = position
        while valueEnd > valueStart, isBlank(bytes[valueEnd - 1]) { valueEnd -= 1 }
        let field = HeaderField(
            nameRange: ByteRange(start, nameEnd), valueRange: ByteRange(valueStart, valueEnd),
            name: table.find(name), hasUnusualName: isUnusual)
        return .field(field, next: position + 2)
    }

    /// VCHAR, obs-text, space and tab: everything but the other controls (RFC 9110 section 5.5).
    static func isValue(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != 0x7f || byte == ByteClass.tab
    }

    static func isBlank(_ byte: UInt8) -> Bool { byte == ByteClass.space || byte == ByteClass.tab }

    private static func fault(inName byte: UInt8, at position: Int, start: Int) -> MessageFault {
        switch byte {
        case ByteClass.space, ByteClass.tab: position > start ? .spaceBeforeColon : .obsoleteLineFolding
        case ByteClass.lineFeed: .bareLineFeed
        default: .fieldNameMalformed
        }
    }
}
