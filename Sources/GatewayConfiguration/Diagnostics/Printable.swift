/// Text from a conf file, made fit for a terminal and for one line of a log.
enum Printable {
    /// A value in a message is cut after this many scalars.
    private static let longest = 80

    /// In backquotes, as diagnostics name keys and values.
    static func quoted(_ value: String) -> String {
        let head = value.unicodeScalars.prefix(longest)
        let rest = head.endIndex == value.unicodeScalars.endIndex ? "" : "..."
        return "`\(text(String(head)))\(rest)`"
    }

    static func text(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map(scalar)))
    }

    /// Controls could move the cursor or hide text, and so could the marks that turn the direction of writing
    /// (CVE-2021-42574): each becomes the replacement character. The tab is harmless.
    static func scalar(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        if scalar == "\t" { return scalar }
        switch scalar.value {
        case 0..<0x20, 0x7F...0x9F, 0x2028...0x202E, 0x2066...0x2069, 0x200E, 0x200F, 0xFEFF: return "\u{FFFD}"
        default: return scalar
        }
    }
}
