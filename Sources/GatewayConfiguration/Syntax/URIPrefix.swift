/// The beginning of a URI. It is put into JSON as it stands, so it has nothing that would need escaping there.
enum URIPrefix {
    static let expected = "the beginning of a URI, for example https://example.org/denials#"

    static func parse(_ text: String) throws(InvalidValue) -> String {
        guard text.utf8.count <= 1024, let colon = text.firstIndex(of: ":") else {
            throw InvalidValue("\(Printable.quoted(text)) is not the beginning of a URI")
        }
        let scheme = text[..<colon].utf8
        guard let first = scheme.first, isLetter(first),
            scheme.allSatisfy({ isLetter($0) || isDigit($0) || "+-.".utf8.contains($0) })
        else {
            throw InvalidValue("\(Printable.quoted(text)) has no scheme")
        }
        guard text.utf8.allSatisfy({ isLetter($0) || isDigit($0) || "-._~:/?#[]@!$&'()*+,;=%".utf8.contains($0) })
        else {
            throw InvalidValue("\(Printable.quoted(text)) has characters that a URI cannot contain")
        }
        return text
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
    }
}
