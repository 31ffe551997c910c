/// Names of environment variables, as POSIX has them (XBD section 8.1).
enum VariableName {
    static let expected =
        "the name of an environment variable: capital letters, digits and _, not beginning with a digit"

    /// As a regular expression.
    static let pattern = "^[A-Z_][A-Z0-9_]*$"

    static func parse(_ text: String) throws(InvalidValue) -> String {
        guard isName(text) else {
            let isShell = text.hasPrefix("$") && isName(String(text.dropFirst()))
            // Not quoted: it may be what the variable was to hold.
            throw InvalidValue(
                "this is not the name of a variable",
                suggestion: isShell ? String(text.dropFirst()) : nil)
        }
        return text
    }

    private static func isName(_ text: String) -> Bool {
        guard (1...255).contains(text.utf8.count), let first = text.utf8.first else { return false }
        let isDigit: (UInt8) -> Bool = { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
        return !isDigit(first)
            && text.utf8.allSatisfy {
                UInt8(ascii: "A")...UInt8(ascii: "Z") ~= $0 || isDigit($0) || $0 == UInt8(ascii: "_")
            }
    }
}
