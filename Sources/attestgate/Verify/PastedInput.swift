/// What somebody pasted: the bytes in it, and what is odd about how they were written.
struct PastedInput {
    let bytes: [UInt8]
    /// What another reader might stumble over, or what went wrong; empty if all is as it should be.
    private(set) var notes: [String] = []

    /// - Parameter binary: what the first byte is if the file holds the thing itself.
    init(_ content: [UInt8], binaryBeginsWith binary: [UInt8]) {
        guard let first = content.first else {
            bytes = []
            notes = ["The input is empty."]
            return
        }
        // No text in ASCII begins with a byte of CBOR's maps. DER's SEQUENCE is the digit 0, which base64 has, too.
        guard let text = String(validating: content, as: UTF8.self), first < 0x80, !Self.isDER(content, binary) else {
            bytes = content
            if !binary.contains(first) { notes = ["The input is neither base64 nor the expected binary form."] }
            return
        }
        (bytes, notes) = Self.decode(text)
    }

    private static func isDER(_ content: [UInt8], _ binary: [UInt8]) -> Bool {
        content.count > 1 && binary.contains(content[0]) && content[1] >= 0x80
    }

    private static func decode(_ pasted: String) -> (bytes: [UInt8], notes: [String]) {
        var notes: [String] = []
        var text = pasted.trimmed
        if text.hasPrefix("{") || text.hasPrefix("[") {
            notes.append("The input is JSON: paste only the member's value, without quotes.")
        }
        if text.count > 1, let quote = text.first, quote == "\"" || quote == "'", text.last == quote {
            text = String(text.dropFirst().dropLast())
        }
        if text.contains("\\/") || text.contains("\\n") {
            text = text.replacing("\\/", with: "/").replacing("\\n", with: "")
            notes.append("The input has JSON escapes (\\/ or \\n), which were decoded.")
        }
        if text.contains("%2B") || text.contains("%2F") || text.contains("%3D") {
            text = text.replacing("%2B", with: "+").replacing("%2F", with: "/").replacing("%3D", with: "=")
            notes.append("The input is percent-encoded, which was decoded.")
        }
        if let bytes = hexadecimal(text) {
            notes.append("The input is hexadecimal; apps send base64.")
            return (bytes, notes)
        }
        if let spaced = withPluses(text) {
            notes.append("The input has spaces in place of +: a form decoder changed them.")
            return (spaced, notes)
        }
        if let decoded = Base64Text(text) {
            if decoded.isURLAlphabet {
                notes.append("The input is base64url (- and _); a decoder for base64 (+ and /) cannot read it.")
            }
            return (decoded.bytes, notes)
        }
        // A paste that lost its end still shows what it was.
        let whole = String(text.filter { !$0.isWhitespace && $0 != "=" })
        if whole.utf8.count % 4 == 1, let decoded = Base64Text(String(whole.dropLast())) {
            notes.append("The base64 has an impossible length: it was truncated, or a character is missing.")
            return (decoded.bytes, notes)
        }
        if notes.isEmpty { notes.append("The input is neither base64 nor CBOR.") }
        return (Array(pasted.utf8), notes)
    }

    /// Reads spaces as the + that they were, unless they only wrap the text into lines of one length.
    private static func withPluses(_ text: String) -> [UInt8]? {
        let pieces = text.split(separator: " ", omittingEmptySubsequences: false)
        guard pieces.count > 1, !text.contains(where: \.isNewline) else { return nil }
        guard !pieces.dropLast().allSatisfy({ $0.count == pieces[0].count }) else { return nil }
        let restored = pieces.joined(separator: "+")
        return Base64Text(restored)?.bytes
    }

    private static func hexadecimal(_ text: String) -> [UInt8]? {
        let digits = text.utf8.compactMap {
            UInt8(ascii: "0") <= $0 ? Character(Unicode.Scalar($0)).hexDigitValue : nil
        }
        guard digits.count == text.utf8.count, digits.count.isMultiple(of: 2), digits.count > 64 else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}

extension String {
    /// Without white space at its ends.
    var trimmed: String {
        let start = drop { $0.isWhitespace }
        return String(start.reversed().drop { $0.isWhitespace }.reversed())
    }
}
