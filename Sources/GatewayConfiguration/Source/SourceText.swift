/// The text of a conf file, or of one that it includes, with its lines, so that a diagnostic can show them.
struct SourceText {
    /// The path as it was given.
    let file: String
    /// Which of the files it is, by the order they are read.
    let number: Int
    /// Without a byte order mark.
    let text: String
    private let lines: [Substring.UnicodeScalarView]
    /// Was included, perhaps by mistake: no line begins with a setting. It may be a key or a password, so nothing of it is shown.
    let isForeign: Bool

    init(file: String, text: String, number: Int = 0) {
        self.file = file
        self.number = number
        self.text = text
        let lines = Self.split(text)
        self.lines = lines
        isForeign = number > 0 && !lines.contains(where: Self.beginsWithSetting)
    }

    func place(line: Int, column: Int, length: Int = 1) -> Place {
        Place(line: line, column: column, length: length, source: number)
    }

    /// What paths in it begin at: the directory it lies in, with a slash at the end; nothing for the current one.
    var directory: String { file.lastIndex(of: "/").map { String(file[...$0]) } ?? "" }

    /// Nothing when the place lies behind the last line, as the end of the file does.
    func excerpt(at place: Place) -> Excerpt? {
        guard !isForeign, lines.indices.contains(place.line - 1) else { return nil }
        return Excerpt(line: lines[place.line - 1], at: place)
    }

    private static func beginsWithSetting(_ line: Substring.UnicodeScalarView) -> Bool {
        guard let colon = line.firstIndex(of: ":") else { return false }
        let key = String(line[..<colon])
        return Configuration.Keys.section.settings.contains { $0.name == key }
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
        return SourceText(file: file, text: String(scalars), number: number)
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
