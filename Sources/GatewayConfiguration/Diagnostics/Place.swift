/// Where something stands in the conf file.
public struct Place: Equatable, Sendable {
    /// From 1.
    public let line: Int
    /// From 1, counted in Unicode scalars, as YAML counts: a tab is one, and so is an umlaut.
    public let column: Int
    /// How many scalars belong to it, at least 1; what the diagnostic underlines.
    public let length: Int

    init(line: Int, column: Int, length: Int = 1) {
        self.line = max(line, 1)
        self.column = max(column, 1)
        self.length = max(length, 1)
    }
}

extension Place: Comparable {
    public static func < (left: Place, right: Place) -> Bool {
        (left.line, left.column) < (right.line, right.column)
    }
}
