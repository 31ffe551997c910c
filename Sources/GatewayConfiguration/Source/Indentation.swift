/// Where the lines of a YAML file begin, for diagnostics that say where a line should begin.
struct Indentation {
    private let source: SourceText

    init(_ source: SourceText) {
        self.source = source
    }

    /// What a line's beginning should have been: that of a line above whose section is still open.
    ///
    /// - Returns: nothing if it is one of these, or stands deeper than a line that opens a section.
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

    /// The columns of the dashes that a line begins with, and of what comes behind; none of a line that says nothing.
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
