/// One error or doubtful setting in a conf file, described so that an operator can correct it without other help.
public struct Diagnostic: Equatable, Sendable {
    public enum Severity: String, Sendable {
        /// The conf file is refused.
        case error
        /// The conf file is taken, and means perhaps not what was intended.
        case warning
    }

    public let severity: Severity
    /// The path of the conf file, as it was given.
    public let file: String
    /// Nothing when it concerns the file as a whole: it cannot be read, say.
    public let place: Place?
    public let message: String
    /// What would have been taken, to be read after "expected".
    public let expected: String?
    /// What was probably meant: the nearest known key, name or value.
    public let suggestion: String?
    /// The text of the line.
    public let excerpt: Excerpt?

    public var line: Int? { place?.line }
    public var column: Int? { place?.column }
}

extension Diagnostic: CustomStringConvertible {
    /// As compilers say it:
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
