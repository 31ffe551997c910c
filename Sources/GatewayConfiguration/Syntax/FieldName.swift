/// Names of request fields, in lower case: those to be removed, and those that a proof must cover.
enum FieldName {
    static let expected = "the name of a request field that is not part of the message framing"
    static let expectedComponent = "the name of a request field in lower case that is not part of the message framing"

    /// Without these a message has no end, no host or another meaning.
    private static let needed: Set<String> = [
        "connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade",
    ]

    /// These carry the proof (RFC 9421 section 4), which cannot cover itself.
    private static let proof: Set<String> = ["signature", "signature-input"]

    /// A field to be removed.
    static func parse(_ text: String) throws(InvalidValue) -> String {
        try check(text, else: "does not need to be removed")
        guard !needed.contains(text.lowercased()) else {
            throw InvalidValue("\(Printable.quoted(text)) is part of the message framing and cannot be removed")
        }
        return text.lowercased()
    }

    /// A field to be covered by a proof. Components are written in lower case (RFC 9421 section 2.1).
    static func parseComponent(_ text: String) throws(InvalidValue) -> String {
        try check(text, else: "cannot be covered")
        guard text == text.lowercased() else {
            throw InvalidValue("\(Printable.quoted(text)) is not in lower case", suggestion: text.lowercased())
        }
        guard !needed.contains(text) else {
            throw InvalidValue("\(Printable.quoted(text)) is part of the message framing and cannot be required")
        }
        guard !proof.contains(text) else {
            throw InvalidValue("\(Printable.quoted(text)) carries the proof, which cannot cover itself")
        }
        return text
    }

    private static func check(_ text: String, else consequence: String) throws(InvalidValue) {
        guard (1...256).contains(text.utf8.count), text.utf8.allSatisfy(isTokenCharacter) else {
            throw InvalidValue("\(Printable.quoted(text)) is not the name of a field")
        }
        guard !text.contains("_"), !text.contains(".") else {
            throw InvalidValue("\(Printable.quoted(text)) \(consequence): names with `_` or `.` are always refused")
        }
    }

    /// RFC 9110 section 5.6.2 tchar.
    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        default: Name.isCharacter(byte) || "!#$%&'*+.^_`|~".utf8.contains(byte)
        }
    }
}
