/// The canonical spelling of routes' paths, which requests must use too. A route with another spelling would never
/// match its requests, or match others.
enum PathPrefix {
    static let expected = "a path: `/`, or one that begins with `/`, does not end with `/`, and is in normal form"
    /// A regular expression that every path matches.
    static let pattern = "^/([^/]+(/[^/]+)*)?$"
    private static let longest = 1024

    static func parse(_ text: String) throws(InvalidValue) -> String {
        guard text.hasPrefix("/") else {
            if let first = text.unicodeScalars.first, "“”„‘’«»".unicodeScalars.contains(first) {
                throw InvalidValue("`\(first)` is not a YAML quote but part of the path", suggestion: unquoted(text))
            }
            if text.hasPrefix("~") || text.hasPrefix("^") || text.contains(" ") {
                throw InvalidValue(
                    "\(Printable.quoted(text)) is a pattern, which routes do not support: a path matches all paths below it"
                )
            }
            throw InvalidValue("\(Printable.quoted(text)) does not begin with `/`", suggestion: "/" + text)
        }
        guard text.utf8.count <= longest else { throw InvalidValue("the path is longer than \(longest) bytes") }
        if text == "/" { return text }
        guard !text.hasSuffix("/") else {
            let trimmed = String(text.reversed().drop { $0 == "/" }.reversed())
            throw InvalidValue("\(Printable.quoted(text)) ends with `/`", suggestion: trimmed.isEmpty ? "/" : trimmed)
        }
        for segment in text.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            try check(segment)
        }
        return text
    }

    private static func unquoted(_ text: String) -> String? {
        let path = text.filter { !"“”„‘’«»".contains($0) }
        return (try? parse(path)) == nil ? nil : path
    }

    private static func check(_ segment: Substring) throws(InvalidValue) {
        guard !segment.isEmpty else { throw InvalidValue("the path has an empty segment: `//`") }
        guard segment != ".", segment != ".." else { throw InvalidValue("the path has the dot segment `\(segment)`") }
        var bytes = segment.utf8[...]
        while let byte = bytes.popFirst() {
            if byte == UInt8(ascii: "%") {
                try checkEncoded(bytes.prefix(2))
                bytes = bytes.dropFirst(2)
            } else if !isCharacter(byte) {
                throw InvalidValue("the path has \(name(of: byte, in: segment)), which is not allowed")
            }
        }
    }

    /// Refuses an encoded byte that has another spelling (RFC 3986 section 2.3: the unreserved ones). Also refuses
    /// those that could change the segments when decoded: slash, backslash, NUL and the percent sign.
    private static func checkEncoded(_ digits: Substring.UTF8View) throws(InvalidValue) {
        let text = String(Substring(digits))
        guard text.utf8.count == 2, let octet = UInt8(text, radix: 16), !text.hasPrefix("+") else {
            throw InvalidValue("`%` is not followed by two hexadecimal digits")
        }
        guard text == text.uppercased() else {
            throw InvalidValue("`%\(text)` is not in upper case")
        }
        guard !isUnreserved(octet) else {
            throw InvalidValue("`%\(text)` encodes `\(Unicode.Scalar(octet))`, which must not be encoded")
        }
        guard ![0, UInt8(ascii: "/"), UInt8(ascii: "\\"), UInt8(ascii: "%")].contains(octet) else {
            throw InvalidValue("services read `%\(text)` in several ways, so a route cannot contain it")
        }
    }

    /// Returns whether the byte is a `pchar` (RFC 3986 section 3.3) other than the percent sign and `;`. Servers treat
    /// parameters behind `;` differently.
    private static func isCharacter(_ byte: UInt8) -> Bool {
        isUnreserved(byte) || "!$&'()*+,=:@".utf8.contains(byte)
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-._~".utf8.contains(byte)
        }
    }

    private static func name(of byte: UInt8, in segment: Substring) -> String {
        byte < 0x80 ? "`\(Unicode.Scalar(byte))`" : "a non-ASCII character"
    }
}
