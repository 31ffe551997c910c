/// The line a diagnostic speaks of, cut to a window when it is very long, and the underline that belongs below it.
public struct Excerpt: Equatable, Sendable {
    /// Fit to be printed: what would move a terminal's cursor is replaced, tabs stay.
    public let text: String
    /// Spaces and tabs up to the place, then `^~~~`.
    let underline: String

    /// Lines longer than this are cut: nobody reads a caret in column 90 000.
    private static let window = 160
    /// How much of a cut line is shown before the place.
    private static let lead = 60
    private static let ellipsis = "..."

    /// - Parameter line: the whole line, without its end. The place may lie just behind its last scalar.
    init(line whole: Substring.UnicodeScalarView, at place: Place) {
        let line = Self.withoutPassphrase(whole)
        let isLong = line.index(line.startIndex, offsetBy: Self.window, limitedBy: line.endIndex) != nil
        let skipped = isLong ? max(0, place.column - 1 - Self.lead) : 0
        let visible = Array(line.dropFirst(skipped).prefix(Self.window)).map(Printable.scalar)
        let offset = min(place.column - 1 - skipped, visible.count)
        let marked = visible[offset...].prefix(place.length)

        let before = skipped > 0 ? Self.ellipsis : ""
        let after = isLong && visible.count == Self.window ? Self.ellipsis : ""
        text = before + String(String.UnicodeScalarView(visible)) + after
        underline =
            String(repeating: " ", count: before.count) + Self.blank(visible[..<offset]) + "^"
            + String(repeating: "~", count: max(0, marked.reduce(0) { $0 + DisplayWidth.of($1) } - 1))
    }

    /// Diagnostics end up in logs. If the conf file contains a passphrase or a token, where only the path of one
    /// belongs, the secret must not appear there too.
    private static func withoutPassphrase(_ line: Substring.UnicodeScalarView) -> Substring.UnicodeScalarView {
        let text = Substring(line).lowercased()
        let names = ["passphrase", "password", "token"]
        guard names.contains(where: text.contains) else { return line }
        // Keys are ASCII, but not all that may stand before them: so each is looked for in the line itself.
        var rest = line
        while let colon = rest.firstIndex(of: ":") {
            let before = Substring(line[..<colon]).lowercased()
            let key = before.split(whereSeparator: { " \t{,[-\"'".contains($0) }).last ?? ""
            if names.contains(where: key.contains), !key.hasSuffix("_file") {
                var cut = line[...colon]
                cut.append(contentsOf: " \(ellipsis)".unicodeScalars)
                return cut
            }
            rest = line[line.index(after: colon)...]
        }
        return line
    }

    /// White space exactly as wide as the text above it. A tab stays a tab: only the terminal knows how wide it is.
    private static func blank(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        scalars.reduce(into: "") { blank, scalar in
            blank += scalar == "\t" ? "\t" : String(repeating: " ", count: DisplayWidth.of(scalar))
        }
    }
}
