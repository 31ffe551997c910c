/// Tables as text for people.
enum Columns {
    /// Columns as wide as their widest cell; the last one as it is. Widths are in scalars.
    static func aligned(_ rows: [[String]]) -> [String] {
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in rows.map { $0[column].unicodeScalars.count }.max() ?? 0 }
        return rows.map { row in
            row.enumerated().map { column, cell in
                column == columns - 1 ? cell : pad(cell, to: widths[column])
            }.joined(separator: "  ")
        }
    }

    private static func pad(_ cell: String, to width: Int) -> String {
        cell + String(repeating: " ", count: width - cell.unicodeScalars.count)
    }
}
