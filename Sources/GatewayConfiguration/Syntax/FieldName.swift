/// Names of request fields that are to be removed, in lower case.
enum FieldName {
    static let expected = "the name of a request field that the message can do without"

    /// Without these a message has no end, no host or another meaning.
    private static let needed: Set<String> = [
        "connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade",
    ]

    static func parse(_ text: String) throws(Complaint) -> String {
        guard (1...256).contains(text.utf8.count), text.utf8.allSatisfy(isTokenCharacter) else {
            throw Complaint("\(Printable.quoted(text)) is not the name of a field")
        }
        guard !text.contains("_"), !text.contains(".") else {
            throw Complaint("\(Printable.quoted(text)) need not be removed: names with `_` or `.` are refused anyway")
        }
        guard !needed.contains(text.lowercased()) else {
            throw Complaint("\(Printable.quoted(text)) belongs to the message itself and cannot be removed")
        }
        return text.lowercased()
    }

    /// RFC 9110 section 5.6.2 tchar.
    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        default: Name.isCharacter(byte) || "!#$%&'*+.^_`|~".utf8.contains(byte)
        }
    }
}
