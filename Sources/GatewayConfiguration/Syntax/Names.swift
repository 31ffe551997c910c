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
        let bytes = decode(text)
        guard let bytes, let id = KeyID(digest: bytes.span) else {
            throw InvalidValue("\(Printable.quoted(text)) is not a key id")
        }
        return id
    }

    /// Decodes base64 (RFC 4648 section 4) in canonical form: with padding, unused bits zero.
    private static func decode(_ text: String) -> [UInt8]? {
        let characters = Array(text.utf8)
        guard characters.count == 44, characters.last == UInt8(ascii: "=") else { return nil }
        var bytes: [UInt8] = []
        var held: UInt32 = 0
        for (index, character) in characters.dropLast().enumerated() {
            guard let value = alphabet.firstIndex(of: character) else { return nil }
            held = held << 6 | UInt32(value)
            guard index % 4 == 3 else { continue }
            for shift in [16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: held >> UInt32(shift))) }
            held = 0
        }
        guard held & 0b11 == 0 else { return nil }
        return bytes + [UInt8(truncatingIfNeeded: held >> 10), UInt8(truncatingIfNeeded: held >> 2)]
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
}
