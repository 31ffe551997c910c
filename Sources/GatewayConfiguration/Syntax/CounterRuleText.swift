/// Rules for counters as the conf file writes them: `strict`, `window 64`.
enum CounterRuleText {
    /// As many values as the registry remembers of each device.
    private static let windows = 1...1024

    static let expected = "`strict`, or `window N` with N from \(windows.lowerBound) to \(windows.upperBound)"

    /// As a regular expression.
    static let pattern = "^(strict|window [1-9][0-9]{0,3})$"

    static func parse(_ text: String) throws(InvalidValue) -> AppConfiguration.CounterRule {
        if text == "strict" { return .strict }
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 2, words[0] == "window", let window = Decimal.parse(words[1]) else {
            throw InvalidValue(
                "\(Printable.quoted(text)) is not a counter rule",
                suggestion: Spelling.nearest(to: text, among: ["strict"]))
        }
        guard windows.contains(window) else { throw InvalidValue("\(Printable.quoted(text)) is out of range") }
        return .window(window)
    }
}
