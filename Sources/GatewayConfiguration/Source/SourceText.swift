/// The text of a conf file or of an included file, divided into lines for diagnostics.
struct SourceText {
    /// The path as it was given.
    let file: String
    /// The number of the file, in the order of reading.
    let number: Int
    /// The text without a byte order mark.
    let text: String
    private let lines: [Substring.UnicodeScalarView]
    /// Whether no line of an included file begins with a setting. It may be a key or a password, so nothing of it is
    /// shown.
    let isForeign: Bool

    /// Divides text into lines.
    ///
    /// - Parameter settings: the names of settings, of which an included file must have one at the beginning of a line.
    init(file: String, text: String, number: Int = 0, settings: [String] = []) {
        self.file = file
        self.number = number
        self.text = text
        let lines = Self.split(text)
        self.lines = lines
        isForeign = number > 0 && !lines.contains { Self.beginsWithSetting($0, settings) }
    }

    private init(replacing text: String, in source: SourceText) {
        file = source.file
        number = source.number
        self.text = text
        lines = Self.split(text)
        isForeign = source.isForeign
    }

    func place(line: Int, column: Int, length: Int = 1) -> Place {
        Place(line: line, column: column, length: length, source: number)
    }

    /// The directory of the file with a slash at the end. Empty for the current directory.
    var directory: String { file.lastIndex(of: "/").map { String(file[...$0]) } ?? "" }

    /// Returns the excerpt at a place, or nil behind the last line.
    func excerpt(at place: Place) -> Excerpt? {
        guard !isForeign, lines.indices.contains(place.line - 1) else { return nil }
        return Excerpt(line: lines[place.line - 1], at: place)
    }

    private static func beginsWithSetting(_ line: Substring.UnicodeScalarView, _ settings: [String]) -> Bool {
        guard let colon = line.firstIndex(of: ":") else { return false }
        return settings.contains(String(line[..<colon]))
    }

    /// Returns the scalar at a place, if there is one.
    func scalar(at place: Place) -> Unicode.Scalar? {
        guard lines.indices.contains(place.line - 1) else { return nil }
        return lines[place.line - 1].dropFirst(place.column - 1).first
    }

    func line(_ number: Int) -> String {
        lines.indices.contains(number - 1) ? String(lines[number - 1]) : ""
    }

    /// Returns the text with one scalar replaced, or nil if no scalar is there. All places stay the same.
    func replacing(at place: Place, by scalar: Unicode.Scalar) -> SourceText? {
        guard lines.indices.contains(place.line - 1) else { return nil }
        let rest = lines[place.line - 1].dropFirst(place.column - 1)
        guard rest.first != nil else { return nil }
        var scalars = text.unicodeScalars
        scalars.replaceSubrange(rest.startIndex..<rest.index(after: rest.startIndex), with: [scalar])
        return SourceText(replacing: String(scalars), in: self)
    }

    /// Divides text into lines at LF, CR, CR LF, NEL, LS and PS (YAML 1.1, section 5.4). Swift's own definition also
    /// has VT and FF, and would count differently from the parser.
    private static func split(_ text: String) -> [Substring.UnicodeScalarView] {
        let scalars = text[...].unicodeScalars
        var lines: [Substring.UnicodeScalarView] = []
        var start = scalars.startIndex
        var index = start
        while index < scalars.endIndex {
            let scalar = scalars[index]
            let next = scalars.index(after: index)
            switch scalar {
            case "\r" where next < scalars.endIndex && scalars[next] == "\n":
                lines.append(scalars[start..<index])
                index = scalars.index(after: next)
                start = index
            case "\n", "\r", "\u{85}", "\u{2028}", "\u{2029}":
                lines.append(scalars[start..<index])
                index = next
                start = index
            default:
                index = next
            }
        }
        if start < scalars.endIndex { lines.append(scalars[start...]) }
        return lines
    }
}

/// The checks before the YAML parser sees the text. The parser recurses to build its tree, and reports unreadable bytes
/// without a line.
enum SourceGuard {
    /// The maximum size of a file in bytes. A conf file of a thousand routes has 200 KiB.
    static let largestFile = 1 << 20
    /// The maximum depth. The schema has five levels.
    static let deepestNesting = 64

    /// Returns the bytes as text.
    ///
    /// - Throws: a ``ConfigurationError`` if the text is too large, is not UTF-8, or has control characters or too many
    ///   levels.
    static func text(
        of bytes: [UInt8], file: String, number: Int = 0, settings: [String] = []
    ) throws(ConfigurationError) -> SourceText {
        guard bytes.count <= largestFile else {
            throw refusal(file: file, message: "the file is larger than \(SizeText.format(largestFile))")
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else {
            let source = SourceText(file: file, text: validPrefix(of: bytes), number: number, settings: settings)
            throw refusal(source, at: end(of: source.text), message: "this is not UTF-8", expected: "text in UTF-8")
        }
        let hasByteOrderMark = decoded.unicodeScalars.first == "\u{FEFF}"
        let text = String(decoded.unicodeScalars.dropFirst(hasByteOrderMark ? 1 : 0))
        let source = SourceText(file: file, text: text, number: number, settings: settings)
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

    /// Returns the first scalar outside of YAML's printable set (YAML 1.1, section 5.1).
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

    /// Returns the first place with too many open brackets or too much indentation.
    ///
    /// The count ignores quotes, so it may refuse text with 64 unmatched brackets. The parser's own limit of 1000
    /// levels catches what it misses.
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
    /// A counter of lines and columns that agrees with the parser.
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
