/// Where something stands in the conf file, or in one that it includes.
public struct Place: Equatable, Sendable {
    /// Which of these files, in the order they are read: the conf file itself is 0.
    let source: Int
    /// From 1.
    public let line: Int
    /// From 1, counted in Unicode scalars, as YAML counts: a tab is one, and so is an umlaut.
    public let column: Int
    /// How many scalars belong to it, at least 1; what the diagnostic underlines.
    public let length: Int

    init(line: Int, column: Int, length: Int = 1, source: Int = 0) {
        self.source = source
        self.line = max(line, 1)
        self.column = max(column, 1)
        self.length = max(length, 1)
    }
}

extension Place: Comparable {
    public static func < (left: Place, right: Place) -> Bool {
        (left.source, left.line, left.column) < (right.source, right.line, right.column)
    }
}
