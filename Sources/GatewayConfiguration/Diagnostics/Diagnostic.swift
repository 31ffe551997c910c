/// An error or a warning about a conf file, with all that an operator needs to correct it.
public struct Diagnostic: Equatable, Sendable {
    public enum Severity: String, Sendable {
        /// The conf file is refused.
        case error
        /// The conf file is accepted, but may not mean what was intended.
        case warning
    }

    public let severity: Severity
    /// The path of the conf file as it was given.
    public let file: String
    /// The place of the mistake. Nil if the diagnostic concerns the file as a whole.
    public let place: Place?
    public let message: String
    /// The accepted values, in words that follow "expected".
    public let expected: String?
    /// The nearest known key, name or value.
    public let suggestion: String?
    /// The text of the line.
    public let excerpt: Excerpt?

    public var line: Int? { place?.line }
    public var column: Int? { place?.column }
}

extension Diagnostic: CustomStringConvertible {
    /// The diagnostic in the form that compilers use:
    ///
    ///     conf/attestgate.yaml:12:5: error: unknown key `upstrem`
    ///        12 |     upstrem: records
    ///           |     ^~~~~~~
    ///       expected one of: name, host, path, methods, require, upstream, content_limit
    ///       did you mean `upstream`?
    public var description: String {
        var lines = [heading]
        if let place, let excerpt {
            let number = String(place.line)
            let margin = String(repeating: " ", count: max(0, 5 - number.count))
            lines.append("\(margin)\(number) | \(excerpt.text)")
            lines.append("\(String(repeating: " ", count: margin.count + number.count)) | \(excerpt.underline)")
        }
        if let expected { lines.append("  expected \(Printable.text(expected))") }
        if let suggestion { lines.append("  did you mean \(Printable.quoted(suggestion))?") }
        return lines.joined(separator: "\n")
    }

    private var heading: String {
        let position = place.map { ":\($0.line):\($0.column)" } ?? ""
        return Printable.text("\(file)\(position): \(severity.rawValue): \(message)")
    }
}

/// The line of a diagnostic and its underline. A very long line is cut to a window.
public struct Excerpt: Equatable, Sendable {
    /// The printable text: characters that move a terminal's cursor are replaced; tabs stay.
    public let text: String
    /// Spaces and tabs up to the place, followed by `^~~~`.
    let underline: String

    /// The maximum length of a line. Longer lines are cut, since nobody reads a caret in column 90,000.
    private static let window = 160
    /// The length of a cut line before the place.
    private static let lead = 60
    private static let ellipsis = "..."

    /// Cuts and underlines a line.
    ///
    /// - Parameters:
    ///   - whole: the line without its end.
    ///   - place: a place on the line, or just behind its last scalar.
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

    /// Removes a secret from a line. Diagnostics are logged, and the conf file may contain a passphrase or a token
    /// where only the path of one belongs.
    private static func withoutPassphrase(_ line: Substring.UnicodeScalarView) -> Substring.UnicodeScalarView {
        let text = Substring(line).lowercased()
        let names = ["passphrase", "password", "token"]
        guard names.contains(where: text.contains) else { return line }
        // Keys are ASCII, but the text before them may not be. So the search runs in the line itself.
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

    /// Returns white space as wide as the scalars. Tabs stay: only the terminal knows their width.
    private static func blank(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        scalars.reduce(into: "") { blank, scalar in
            blank += scalar == "\t" ? "\t" : String(repeating: " ", count: DisplayWidth.of(scalar))
        }
    }
}

/// A place in the conf file or in a file that it includes.
public struct Place: Hashable, Sendable {
    /// The number of the file, in the order of reading. The conf file itself is 0.
    let source: Int
    /// The line, from 1.
    public let line: Int
    /// The column in Unicode scalars, from 1, as YAML counts: a tab is one column, and so is an umlaut.
    public let column: Int
    /// The number of underlined scalars, at least 1.
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

/// The refusal of a conf file, with all diagnostics in the order of the file.
public struct ConfigurationError: Error, Equatable {
    /// At least one error. Warnings are included, so that everything can be corrected together.
    public let diagnostics: [Diagnostic]
    /// The number of further diagnostics that were dropped.
    public let omitted: Int

    init(_ first: Diagnostic) {
        diagnostics = [first]
        omitted = 0
    }

    /// Creates the error, or returns nil if no diagnostic is an error.
    init?(_ diagnostics: [Diagnostic], omitted: Int) {
        guard diagnostics.contains(where: { $0.severity == .error }) else { return nil }
        self.diagnostics = diagnostics
        self.omitted = omitted
    }
}

extension ConfigurationError: CustomStringConvertible {
    /// The diagnostics, separated by empty lines. Errors come first: after "nothing was reloaded", a reader takes the
    /// next line for the reason.
    public var description: String {
        let errors = diagnostics.filter { $0.severity == .error }
        let others = diagnostics.filter { $0.severity != .error }
        var parts = (errors + others).map(\.description)
        if omitted > 0 { parts.append("and \(omitted) more") }
        return parts.joined(separator: "\n\n")
    }
}

/// Text from a conf file, made safe for a terminal and for one line of a log.
enum Printable {
    /// The maximum number of scalars of a value in a message.
    private static let longest = 80

    /// Returns the value in backquotes, as diagnostics name keys and values.
    static func quoted(_ value: String) -> String {
        let head = value.unicodeScalars.prefix(longest)
        let rest = head.endIndex == value.unicodeScalars.endIndex ? "" : "..."
        return "`\(text(String(head)))\(rest)`"
    }

    static func text(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map(scalar)))
    }

    /// Returns the scalar, or the replacement character in place of a control character or of a mark that changes the
    /// direction of writing (CVE-2021-42574). These move the cursor or hide text. The tab is harmless.
    static func scalar(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        if scalar == "\t" { return scalar }
        switch scalar.value {
        case 0..<0x20, 0x7F...0x9F, 0x2028...0x202E, 0x2066...0x2069, 0x200E, 0x200F, 0xFEFF: return "\u{FFFD}"
        default: return scalar
        }
    }
}

/// The number of terminal columns of a scalar: 0 for combining marks, 2 for East Asian wide forms (Unicode Standard
/// Annex 11) and emoji, 1 for the rest.
private enum DisplayWidth {
    static func of(_ scalar: Unicode.Scalar) -> Int {
        if scalar.isASCII { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: return wide.contains { $0.contains(scalar.value) } ? 2 : 1
        }
    }

    /// The blocks of annex 11 that are wide as a whole. Single wide scalars outside of them are ignored.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0x33FF, 0x3400...0x4DBF, 0x4E00...0x9FFF, 0xA000...0xA4CF,
        0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6,
        0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1F9FF, 0x20000...0x2FFFD, 0x30000...0x3FFFD,
    ]
}
