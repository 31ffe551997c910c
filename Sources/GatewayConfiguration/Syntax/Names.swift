internal import Encoding
internal import Vocabulary

/// Names of upstreams and routes. They become metric labels and log fields, so they need no quoting.
enum ConfiguredName {
    static let expected = "a name of 1 to 63 of the characters a-z, 0-9 and -"

    /// A regular expression that every name matches.
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

/// Names of environment variables (POSIX XBD, section 8.1).
enum VariableName {
    static let expected =
        "the name of an environment variable: capital letters, digits and _, not beginning with a digit"

    /// A regular expression that every name matches.
    static let pattern = "^[A-Z_][A-Z0-9_]*$"

    static func parse(_ text: String) throws(InvalidValue) -> String {
        guard isName(text) else {
            let isShell = text.hasPrefix("$") && isName(String(text.dropFirst()))
            // The text is not quoted: it may be the secret itself.
            throw InvalidValue(
                "this is not the name of a variable",
                suggestion: isShell ? String(text.dropFirst()) : nil)
        }
        return text
    }

    private static func isName(_ text: String) -> Bool {
        guard (1...255).contains(text.utf8.count), let first = text.utf8.first else { return false }
        let isDigit: (UInt8) -> Bool = { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
        return !isDigit(first)
            && text.utf8.allSatisfy {
                UInt8(ascii: "A")...UInt8(ascii: "Z") ~= $0 || isDigit($0) || $0 == UInt8(ascii: "_")
            }
    }
}

/// The notation of key ids.
enum KeyIDText {
    static let expected = "a key id: base64 of 32 bytes, 44 characters"

    /// A regular expression that every key id matches.
    static let pattern = "^[A-Za-z0-9+/]{43}=$"

    static func parse(_ text: String) throws(InvalidValue) -> KeyID {
        guard text.utf8.count == 44, let bytes = Base64.decode(text), let id = KeyID(digest: bytes.span) else {
            throw InvalidValue("\(Printable.quoted(text)) is not a key id")
        }
        return id
    }
}
