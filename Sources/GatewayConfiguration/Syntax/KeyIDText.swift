internal import Vocabulary

/// Key ids as the conf file writes them.
enum KeyIDText {
    static let expected = "a key id: base64 of 32 bytes, 44 characters"

    /// As a regular expression.
    static let pattern = "^[A-Za-z0-9+/]{43}=$"

    static func parse(_ text: String) throws(InvalidValue) -> KeyID {
        let bytes = decode(text)
        guard let bytes, let id = KeyID(digest: bytes.span) else {
            throw InvalidValue("\(Printable.quoted(text)) is not a key id")
        }
        return id
    }

    /// RFC 4648 section 4, in its one spelling: with padding, unused bits zero.
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
