/// What is checked before the YAML parser sees a single byte. The parser builds its tree by recursion and reports
/// bytes it cannot read without a line: neither may be left to it.
enum SourceGuard {
    /// A conf file of a thousand routes has 200 KiB.
    static let largestFile = 1 << 20
    /// The schema is five levels deep.
    static let deepestNesting = 64

    /// The bytes as text, or what speaks against it.
    static func text(of bytes: [UInt8], file: String, number: Int = 0) throws(ConfigurationError) -> SourceText {
        guard bytes.count <= largestFile else {
            throw refusal(file: file, message: "the file is larger than \(SizeText.format(largestFile))")
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else {
            let source = SourceText(file: file, text: validPrefix(of: bytes), number: number)
            throw refusal(source, at: end(of: source.text), message: "this is not UTF-8", expected: "text in UTF-8")
        }
        let hasByteOrderMark = decoded.unicodeScalars.first == "\u{FEFF}"
        let text = String(decoded.unicodeScalars.dropFirst(hasByteOrderMark ? 1 : 0))
        let source = SourceText(file: file, text: text, number: number)
        if let (place, scalar) = firstUnreadable(in: source.text) {
            let name = "U+" + hexadecimal(scalar.value)
            throw refusal(source, at: place, message: "the control character \(name) is not allowed in YAML")
        }
        if let place = firstTooDeep(in: source.text) {
            throw refusal(
                source, at: place, message: "this is nested more than \(deepestNesting) levels deep",
                expected: "fewer levels of nesting")
        }
        return source
    }

    /// The first scalar outside YAML's printable set (YAML 1.1 section 5.1).
    private static func firstUnreadable(in text: String) -> (Place, Unicode.Scalar)? {
        var cursor = Cursor()
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x09, 0x0A, 0x0D, 0x20...0x7E, 0x85, 0xA0...0xD7FF, 0xE000...0xFEFE, 0xFF00...0xFFFD,
                0x10000...0x10FFFF:
                cursor.pass(scalar)
            default: return (cursor.place, scalar)
            }
        }
        return nil
    }

    /// Counts open brackets and the indentation of lines. It errs towards refusing, since it knows no quotes: text
    /// with 64 unmatched brackets is taken for nesting. What it misses meets the parser's own bound of 1000 levels.
    private static func firstTooDeep(in text: String) -> Place? {
        var cursor = Cursor()
        var brackets = 0
        var isComment = false
        var isIndentation = true
        for scalar in text.unicodeScalars {
            if cursor.column == 1 {
                isIndentation = true
                isComment = false
            }
            switch scalar {
            case "#" where isIndentation: isComment = true
            case "[", "{": brackets += isComment ? 0 : 1
            case "]", "}": brackets = isComment ? brackets : max(0, brackets - 1)
            default: break
            }
            if scalar != " " && scalar != "-" && scalar != "?" && scalar != "\t" {
                // Every level of a block takes at least one column, and two nodes may share it.
                if isIndentation && !isComment && cursor.column > 2 * deepestNesting { return cursor.place }
                isIndentation = false
            }
            if brackets > deepestNesting { return cursor.place }
            cursor.pass(scalar)
        }
        return nil
    }

    private static func validPrefix(of bytes: [UInt8]) -> String {
        var text = ""
        var decoder = UTF8()
        var iterator = bytes.makeIterator()
        while case .scalarValue(let scalar) = decoder.decode(&iterator) { text.unicodeScalars.append(scalar) }
        return text
    }

    private static func end(of text: String) -> Place {
        var cursor = Cursor()
        for scalar in text.unicodeScalars { cursor.pass(scalar) }
        return cursor.place
    }

    private static func hexadecimal(_ value: UInt32) -> String {
        let digits = String(value, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }

    private static func refusal(file: String, message: String) -> ConfigurationError {
        ConfigurationError(
            Diagnostic(
                severity: .error, file: file, place: nil, message: message, expected: nil, suggestion: nil,
                excerpt: nil))
    }

    private static func refusal(
        _ source: SourceText, at place: Place, message: String, expected: String? = nil
    ) -> ConfigurationError {
        ConfigurationError(
            Diagnostic(
                severity: .error, file: source.file,
                place: source.place(line: place.line, column: place.column), message: message, expected: expected,
                suggestion: nil, excerpt: source.excerpt(at: place)))
    }
}

extension SourceGuard {
    /// Counts lines and columns as the parser does.
    private struct Cursor {
        private var line = 1
        private(set) var column = 1
        private var last: Unicode.Scalar = " "

        var place: Place { Place(line: line, column: column) }

        mutating func pass(_ scalar: Unicode.Scalar) {
            switch scalar {
            case "\n" where last == "\r": break
            case "\n", "\r", "\u{85}", "\u{2028}", "\u{2029}":
                line += 1
                column = 1
            default: column += 1
            }
            last = scalar
        }
    }
}
