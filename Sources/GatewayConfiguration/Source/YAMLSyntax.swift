internal import Yams

/// The translation of the YAML parser's errors into messages for operators.
enum YAMLSyntax {
    static let aliasMessage = "anchors and aliases are not supported"
    static let aliasExpected = "each value where it applies; put text that begins with `*` or `&` in quotes"

    static func report(_ error: any Error, in source: SourceText, _ reading: Reading) {
        switch error as? YamlError {
        case .scanner(let context, let problem, let mark, _), .parser(let context, let problem, let mark, _),
            .composer(let context, let problem, let mark, _):
            report(problem, context, source.place(line: mark.line, column: mark.column), reading)
        case .reader(let problem, _, _, _):
            reading.refuse(source.place(line: 1, column: 1), "this is not YAML: \(problem)")
        default:
            reading.refuse(source.place(line: 1, column: 1), "this is not YAML: \(error)")
        }
    }

    private static func report(_ problem: String, _ context: YamlError.Context?, _ place: Place, _ reading: Reading) {
        let source = reading.source(of: place)
        let doing = context?.text ?? ""
        let beginning = context.map { source.place(line: $0.mark.line, column: $0.mark.column) }
        if problem.contains("another document") {
            reading.refuse(place, "a second document begins here", expected: "one document in the file")
        } else if problem.contains("undefined alias") || doing.contains("scanning an a") {
            let line = source.line(place.line)
            let meant: String? =
                line.contains("*:")
                ? "0.0.0.0 to listen on every address, not `*`"
                : line.contains("*.") ? "the full name of each host: patterns are not supported" : nil
            reading.refuse(beginning ?? place, aliasMessage, expected: meant ?? aliasExpected)
        } else {
            let mistake = YAMLMistake(problem, doing, at: place, since: beginning, in: source)
            reading.refuse(mistake.place, "this is not YAML: \(mistake.message)", expected: mistake.expected)
        }
    }
}

/// A mistake in the syntax of YAML. The parser reports the rule of its grammar that failed, and the place.
private struct YAMLMistake {
    let place: Place
    /// The message, in words that follow "this is not YAML: ".
    let message: String
    let expected: String?

    /// Identifies the mistake behind an error of the parser.
    ///
    /// - Parameters:
    ///   - problem: the parser's message.
    ///   - doing: the parser's context. Empty if it has none.
    ///   - place: the place of the error.
    ///   - beginning: the place where the context began.
    ///   - source: the text.
    init(_ problem: String, _ doing: String, at place: Place, since beginning: Place?, in source: SourceText) {
        let found = Finder(problem: problem, doing: doing, place: place, beginning: beginning, source: source)
        self =
            found.conflict ?? found.tab ?? found.unclosed ?? found.scalar ?? found.list ?? found.indentation
            ?? YAMLMistake(place, problem + (doing.isEmpty ? "" : " (\(doing))"), nil)
    }

    fileprivate init(_ place: Place, _ message: String, _ expected: String?) {
        self.place = place
        self.message = message
        self.expected = expected
    }
}

/// The search for common mistakes, the most distinctive first.
private struct Finder {
    let problem: String
    let doing: String
    let place: Place
    let beginning: Place?
    let source: SourceText

    private var line: String { source.line(place.line) }

    /// The text before the place, on its line.
    private var before: String { String(line.unicodeScalars.prefix(place.column - 1)) }

    /// The markers of a merge conflict in git.
    var conflict: YAMLMistake? {
        let marks = ["<<<<<<< ", "=======", ">>>>>>> "]
        let near = [place.line - 1, place.line, place.line + 1, beginning?.line ?? place.line]
        guard let number = near.first(where: { number in marks.contains { source.line(number).hasPrefix($0) } }) else {
            return nil
        }
        return YAMLMistake(
            source.place(line: number, column: 1), "the file contains the markers of a merge conflict",
            "one of the two versions, without the markers")
    }

    var tab: YAMLMistake? {
        guard source.scalar(at: place) == "\t" || problem.contains("tab character") else { return nil }
        return YAMLMistake(place, "the line begins with a tab", "spaces: YAML does not allow tabs as indentation")
    }

    /// A quote or bracket without an end. The parser reports it far below; the message names the opening one.
    var unclosed: YAMLMistake? {
        guard let beginning, doing.contains("flow") || doing.contains("quoted") else { return nil }
        let opening = source.scalar(at: beginning).map { "`\($0)`" } ?? "what begins here"
        if doing.contains("quoted") {
            guard problem.contains("escape") else {
                return YAMLMistake(
                    beginning, "the quote \(opening) is never closed",
                    "the closing quote")
            }
            return YAMLMistake(
                place, "a backslash in double quotes starts an escape sequence",
                "single quotes around the text, in which a backslash is literal")
        }
        guard beginning.line == place.line else {
            return YAMLMistake(
                beginning, "\(opening) is not closed by line \(place.line)", "the end of what begins here")
        }
        let nearby = line + source.line(place.line - 1)
        if nearby.contains("["), nearby.contains("::") {
            return YAMLMistake(
                place, "brackets without quotes are a list", "an IPv6 address in quotes, for example \"[::1]:8443\"")
        }
        if problem.contains("node content") {
            return YAMLMistake(
                place, "a value is missing between two commas or after a bracket", "a value, or no comma")
        }
        return YAMLMistake(
            place, "\(opening) has no comma after a value",
            "`,` between two entries, and the closing bracket after the last one")
    }

    /// A value that needs quotes.
    var scalar: YAMLMistake? {
        if problem.contains("cannot start any token"), let first = source.scalar(at: place) {
            return YAMLMistake(place, "a value cannot begin with `\(first)`", "quotes around the value")
        }
        if doing.contains("directive") {
            return YAMLMistake(place, "a line cannot begin with `%`", "a setting, or `#` before a comment")
        }
        if problem.contains("document start") {
            return YAMLMistake(
                place, "the list or mapping at the top of the file has already ended",
                "only settings, each with a colon: `listeners:`, not `[listeners]`")
        }
        if doing.contains("block scalar") {
            return YAMLMistake(
                place, "`|` and `>` start text of several lines, which no setting accepts", "quotes around the text")
        }
        guard problem.contains("did not find expected key"), let last = before.last(where: { $0 != " " }) else {
            return nil
        }
        if last == "\"" || last == "'" {
            return YAMLMistake(
                place, "text follows the closing quote",
                "nothing after it; put text with an apostrophe in double quotes")
        }
        if let here = source.scalar(at: place), here == "]" || here == "}" {
            return YAMLMistake(place, "there is one `\(here)` too many", "as many closing as opening brackets")
        }
        return nil
    }

    /// Dashes at a wrong place, or missing dashes.
    var list: YAMLMistake? {
        for number in [place.line, place.line - 1] {
            let text = Self.text(of: source.line(number))
            guard text.hasPrefix("-"), let next = text.dropFirst().first, next.isLetter else { continue }
            return noColon(source.place(line: number, column: source.line(number).prefix { $0 == " " }.count + 1))
        }
        if problem.contains("block sequence entries are not allowed") {
            return YAMLMistake(
                place, "a list cannot begin on the line of its key",
                "each entry on its own line, indented further, or `[` and `]` around all of them on this line")
        }
        if Indentation(source).expected(of: place.line) != nil { return nil }
        if problem.contains("did not find expected '-' indicator") {
            return YAMLMistake(
                place, "the line is aligned with the dashes of a list but is not an entry",
                "it aligned with the first key of its entry, two columns further right")
        }
        if problem.contains("did not find expected key"), source.scalar(at: place) == "-" {
            return YAMLMistake(
                place, "a list entry is among keys",
                "`- ` before the first of these keys too, or no `- ` here")
        }
        return nil
    }

    /// A line whose indentation fits no section, or that has two meanings.
    var indentation: YAMLMistake? {
        if problem.contains("could not find expected ':'"), let beginning { return noColon(beginning) }
        guard
            problem.contains("did not find expected key") || problem.contains("mapping values are not allowed")
                || problem.contains("did not find expected '-' indicator")
        else { return nil }
        if problem.contains("mapping values"), let number = textAbove { return noColon(number) }
        if let columns = Indentation(source).expected(of: place.line) {
            return YAMLMistake(place, "the indentation matches no line above", columns)
        }
        guard before.contains(": ") else { return nil }
        return YAMLMistake(
            place, "a value contains a colon followed by a space or by nothing", "quotes around the whole value")
    }

    /// The place of the line above if it is plain text: the intended key then spans two lines.
    private var textAbove: Place? {
        var number = place.line - 1
        while number >= 1, Self.text(of: source.line(number)).isEmpty { number -= 1 }
        guard number >= 1 else { return nil }
        let text = Self.text(of: source.line(number))
        guard !text.contains(": "), !text.hasSuffix(":"), !text.hasPrefix("- "), text != "-" else { return nil }
        let column = source.line(number).prefix { $0 == " " }.count + 1
        return source.place(line: number, column: column, length: text.unicodeScalars.count)
    }

    private static func text(of line: String) -> Substring {
        var text = line[...].drop { $0 == " " }
        if text.hasPrefix("#") { return "" }
        if let comment = text.firstRange(of: " #") { text = text[..<comment.lowerBound] }
        while text.last == " " || text.last == "\r" { text.removeLast() }
        return text
    }

    private func noColon(_ place: Place) -> YAMLMistake {
        let text = Self.text(of: source.line(place.line))
        if text.hasPrefix("-") {
            return YAMLMistake(place, "the space after the dash is missing", "`- ` before the first key of an entry")
        }
        if text.unicodeScalars.contains("\u{A0}") {
            return YAMLMistake(
                place, "a no-break space (U+00A0) is in place of a space", "an ordinary space after the colon")
        }
        if text.contains("="), !text.contains(":") {
            return YAMLMistake(
                place, "a setting is written with `:`, not `=`", "a colon and a space after the key: `key: value`")
        }
        return YAMLMistake(
            place, "there is no key here",
            "a colon and a space after the key: `key: value`; before a comment `#`")
    }
}

/// The columns at which the lines of a YAML file begin, for messages about indentation.
private struct Indentation {
    private let source: SourceText

    init(_ source: SourceText) {
        self.source = source
    }

    /// Returns the columns at which a line could begin: those of lines above whose section is still open.
    ///
    /// - Returns: nil if the line begins at one of them, or is indented below a line that opens a section.
    func expected(of number: Int) -> String? {
        guard let own = starts(of: number).first else { return nil }
        var open: [(column: Int, line: Int)] = []
        var line = number - 1
        var opensSection = false
        while line >= 1, open.last?.column ?? .max > 1 {
            let columns = starts(of: line)
            if open.isEmpty { opensSection = columns.isEmpty ? false : isOpening(line) }
            for column in columns.reversed() where column < open.last?.column ?? .max { open.append((column, line)) }
            line -= 1
        }
        guard let deepest = open.first, !open.contains(where: { $0.column == own }) else { return nil }
        guard own < deepest.column || !opensSection else { return nil }
        let nearest = open.sorted { abs($0.column - own) < abs($1.column - own) }.prefix(2)
        return "the line to begin in column "
            + nearest.map { "\($0.column), as line \($0.line) does" }.joined(separator: ", or in column ")
    }

    /// Returns the columns of a line's leading dashes and of the text behind them. Empty for a line without content.
    private func starts(of number: Int) -> [Int] {
        var columns: [Int] = []
        var column = 1
        var rest = source.line(number)[...]
        while true {
            let blanks = rest.prefix { $0 == " " }
            rest = rest.dropFirst(blanks.count)
            column += blanks.count
            guard let first = rest.first, first != "#" else { return columns }
            columns.append(column)
            guard rest.hasPrefix("- ") else { return columns }
            rest = rest.dropFirst()
            column += 1
        }
    }

    private func isOpening(_ number: Int) -> Bool {
        var text = source.line(number)[...]
        if let comment = text.firstRange(of: " #") { text = text[..<comment.lowerBound] }
        while text.last == " " { text.removeLast() }
        return text.hasSuffix(":") || text.hasSuffix("-")
    }
}
