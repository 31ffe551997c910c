/// What somebody did who wrote something that is no YAML: the parser says at which rule of its grammar it gave up, and where.
struct YAMLMistake {
    let place: Place
    /// To be read after "this is not YAML: ".
    let message: String
    let expected: String?

    /// - Parameters:
    ///   - problem: as the parser has it.
    ///   - doing: what the parser was doing; empty if it does not say.
    ///   - beginning: where what it was doing began.
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

/// Goes through the mistakes that people make, those first that nothing else looks like.
private struct Finder {
    let problem: String
    let doing: String
    let place: Place
    let beginning: Place?
    let source: SourceText

    private var line: String { source.line(place.line) }

    /// What stands before the place, on its line.
    private var before: String { String(line.unicodeScalars.prefix(place.column - 1)) }

    /// The marks that git leaves where two people have changed the same lines.
    var conflict: YAMLMistake? {
        let marks = ["<<<<<<< ", "=======", ">>>>>>> "]
        let near = [place.line - 1, place.line, place.line + 1, beginning?.line ?? place.line]
        guard let number = near.first(where: { number in marks.contains { source.line(number).hasPrefix($0) } }) else {
            return nil
        }
        return YAMLMistake(
            source.place(line: number, column: 1), "a conflict of two versions was left in the file",
            "one of the two versions, without the marks of the conflict")
    }

    var tab: YAMLMistake? {
        guard source.scalar(at: place) == "\t" || problem.contains("tab character") else { return nil }
        return YAMLMistake(place, "a tab stands where lines begin", "spaces: YAML is never indented by tabs")
    }

    /// What is never closed is found missing far below; it is the opening one to look at.
    var unclosed: YAMLMistake? {
        guard let beginning, doing.contains("flow") || doing.contains("quoted") else { return nil }
        let opening = source.scalar(at: beginning).map { "`\($0)`" } ?? "what begins here"
        if doing.contains("quoted") {
            guard problem.contains("escape") else {
                return YAMLMistake(
                    beginning, "the quote \(opening) is never closed",
                    "the end of what begins here: the same quote once more")
            }
            return YAMLMistake(
                place, "a backslash in double quotes stands for another character",
                "single quotes around the text, in which a backslash is one")
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
                place, "between two commas, or behind a bracket, a value is missing", "a value, or no comma")
        }
        return YAMLMistake(
            place, "\(opening) goes on after a value without a comma",
            "`,` between two entries, and the closing bracket behind the last one")
    }

    /// What no value can be without quotes.
    var scalar: YAMLMistake? {
        if problem.contains("cannot start any token"), let first = source.scalar(at: place) {
            return YAMLMistake(place, "no value begins with `\(first)`", "quotes around the value")
        }
        if doing.contains("directive") {
            return YAMLMistake(place, "no line of a conf file begins with `%`", "a setting, or `#` before a comment")
        }
        if problem.contains("document start") {
            return YAMLMistake(
                place, "what the file begins with has ended on a line above",
                "settings alone, each with a colon: `listeners:`, not `[listeners]`")
        }
        if doing.contains("block scalar") {
            return YAMLMistake(
                place, "`|` and `>` begin text of several lines, which no setting is", "quotes around the text")
        }
        guard problem.contains("did not find expected key"), let last = before.last(where: { $0 != " " }) else {
            return nil
        }
        if last == "\"" || last == "'" {
            return YAMLMistake(
                place, "there is more behind the closing quote",
                "nothing behind it; around text with an apostrophe double quotes")
        }
        if let here = source.scalar(at: place), here == "]" || here == "}" {
            return YAMLMistake(place, "there is one `\(here)` too many", "as many as were opened")
        }
        return nil
    }

    /// Dashes where they mean nothing, and none where they are needed.
    var list: YAMLMistake? {
        for number in [place.line, place.line - 1] {
            let text = Self.text(of: source.line(number))
            guard text.hasPrefix("-"), let next = text.dropFirst().first, next.isLetter else { continue }
            return noColon(source.place(line: number, column: source.line(number).prefix { $0 == " " }.count + 1))
        }
        if problem.contains("block sequence entries are not allowed") {
            return YAMLMistake(
                place, "a list does not begin on the line of its key",
                "each entry on a line of its own, further to the right, or `[` and `]` around all of them on this line")
        }
        if Indentation(source).expected(of: place.line) != nil { return nil }
        if problem.contains("did not find expected '-' indicator") {
            return YAMLMistake(
                place, "the line stands below the dashes of a list, and is none of its entries",
                "it below the first key of its entry, two columns further to the right")
        }
        if problem.contains("did not find expected key"), source.scalar(at: place) == "-" {
            return YAMLMistake(
                place, "an entry of a list stands among keys",
                "`- ` before the first of these keys too, or none here")
        }
        return nil
    }

    /// A line that is part of nothing, or has two meanings.
    var indentation: YAMLMistake? {
        if problem.contains("could not find expected ':'"), let beginning { return noColon(beginning) }
        guard
            problem.contains("did not find expected key") || problem.contains("mapping values are not allowed")
                || problem.contains("did not find expected '-' indicator")
        else { return nil }
        if problem.contains("mapping values"), let number = textAbove { return noColon(number) }
        if let columns = Indentation(source).expected(of: place.line) {
            return YAMLMistake(place, "the line is indented as none above it that it could belong to", columns)
        }
        guard before.contains(": ") else { return nil }
        return YAMLMistake(
            place, "a value has a colon with a blank, or nothing, behind it", "quotes around the whole value")
    }

    /// The line above, if it is nothing but text: what was to be a key goes on over two lines then.
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
            return YAMLMistake(place, "no blank stands behind the dash", "`- ` before the first key of an entry")
        }
        if text.unicodeScalars.contains("\u{A0}") {
            return YAMLMistake(
                place, "a no-break space (U+00A0) stands where a blank should", "an ordinary blank behind the colon")
        }
        if text.contains("="), !text.contains(":") {
            return YAMLMistake(
                place, "a setting is not written with `=`", "a colon and a blank behind the key: `key: value`")
        }
        return YAMLMistake(
            place, "no key ends here",
            "a colon and a blank behind the key: `key: value`; before a comment `#`")
    }
}
