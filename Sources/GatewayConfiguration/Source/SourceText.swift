/// The text of a conf file, with its lines, so that a diagnostic can show them.
struct SourceText {
    /// The path as it was given.
    let file: String
    /// Without a byte order mark.
    let text: String
    private let lines: [Substring.UnicodeScalarView]

    init(file: String, text: String) {
        self.file = file
        self.text = text
        lines = Self.split(text)
    }

    /// Nothing when the place lies behind the last line, as the end of the file does.
    func excerpt(at place: Place) -> Excerpt? {
        guard lines.indices.contains(place.line - 1) else { return nil }
        return Excerpt(line: lines[place.line - 1], at: place)
    }

    /// The scalar at a place, if there is one.
    func scalar(at place: Place) -> Unicode.Scalar? {
        guard lines.indices.contains(place.line - 1) else { return nil }
        return lines[place.line - 1].dropFirst(place.column - 1).first
    }

    func line(_ number: Int) -> String {
        lines.indices.contains(number - 1) ? String(lines[number - 1]) : ""
    }

    /// The same text with one scalar replaced; nothing when no scalar stands there. All places stay as they are.
    func replacing(at place: Place, by scalar: Unicode.Scalar) -> SourceText? {
        guard lines.indices.contains(place.line - 1) else { return nil }
        let rest = lines[place.line - 1].dropFirst(place.column - 1)
        guard rest.first != nil else { return nil }
        var scalars = text.unicodeScalars
        scalars.replaceSubrange(rest.startIndex..<rest.index(after: rest.startIndex), with: [scalar])
        return SourceText(file: file, text: String(scalars))
    }

    /// Lines end where YAML 1.1 says they do (section 5.4): at LF, CR, CR LF, NEL, LS and PS. Swift's own idea of a
    /// new line also holds VT and FF, and would count differently from the parser.
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
