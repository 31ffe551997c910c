/// Names of upstreams and routes. They become metric labels and log fields, so they need no quoting anywhere.
enum Name {
    static let expected = "a name of 1 to 63 of the characters a-z, 0-9 and -"

    /// As a regular expression.
    static let pattern = "^[a-z0-9-]{1,63}$"

    static func parse(_ text: String) throws(InvalidValue) -> String {
        guard isName(text) else {
            let lower = text.lowercased()
            let isCase = lower != text && isName(lower)
            throw InvalidValue("\(Printable.quoted(text)) is not a name", suggestion: isCase ? lower : nil)
        }
        return text
    }

    static func isName(_ text: String) -> Bool {
        (1...63).contains(text.utf8.count) && text.utf8.allSatisfy(isCharacter)
    }

    static func isCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"): true
        default: false
        }
    }
}
