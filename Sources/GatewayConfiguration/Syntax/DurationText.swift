/// Durations as the conf file writes them: `500ms`, `10s`, `5m`, `1h`, `30d`. A number alone is refused: half of the world
/// would take it for seconds and the other half for milliseconds.
enum DurationText {
    private static let units: [(name: String, milliseconds: Int)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]

    /// As a regular expression.
    static let pattern = "^(0|[1-9][0-9]*)(ms|s|m|h|d)$"

    static func parse(_ text: String) throws(InvalidValue) -> Duration {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text[digits.endIndex...]
        guard let number = Decimal.parse(digits) else {
            throw InvalidValue("\(Printable.quoted(text)) is not a duration")
        }
        guard !unit.isEmpty else { throw InvalidValue("\(Printable.quoted(text)) has no unit", suggestion: "\(text)s") }
        if unit.first == "." || unit.first == "," {
            throw InvalidValue("\(Printable.quoted(text)) is not a whole number", suggestion: inSmallerUnit(text))
        }
        if let sum = sum(text) {
            throw InvalidValue("\(Printable.quoted(text)) has several units", suggestion: format(.milliseconds(sum)))
        }
        guard let factor = units.first(where: { $0.name == unit })?.milliseconds else {
            throw InvalidValue(
                "\(Printable.quoted(String(unit))) is not a unit of time", suggestion: suggestion(number, unit))
        }
        let (milliseconds, isTooLong) = number.multipliedReportingOverflow(by: factor)
        guard !isTooLong else { throw InvalidValue("\(Printable.quoted(text)) is out of range") }
        return .milliseconds(milliseconds)
    }

    static func format(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let milliseconds = Int(seconds) * 1000 + Int(attoseconds / 1_000_000_000_000_000)
        guard milliseconds > 0 else { return "0s" }
        for unit in units where milliseconds >= unit.milliseconds && milliseconds % unit.milliseconds == 0 {
            return "\(milliseconds / unit.milliseconds)\(unit.name)"
        }
        return "\(milliseconds)ms"
    }

    /// `1.5s` is 1500ms: in the largest unit in which it is a whole number.
    private static func inSmallerUnit(_ text: String) -> String? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == "." || $0 == ",") }
        guard let number = Double(digits.replacing(",", with: ".")), number < 1_000_000,
            let factor = units.first(where: { $0.name == text[digits.endIndex...] })?.milliseconds
        else { return nil }
        let milliseconds = number * Double(factor)
        return milliseconds.rounded() == milliseconds ? format(.milliseconds(Int(milliseconds))) : nil
    }

    /// Of `1m30s` and its like, in milliseconds; nil if it is nothing like that.
    private static func sum(_ text: String) -> Int? {
        var rest = text[...]
        var parts = 0
        var sum = 0
        while !rest.isEmpty {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            let unit = rest[digits.endIndex...].prefix { $0.isLetter }
            guard digits.count < 10, let number = Decimal.parse(digits),
                let factor = units.first(where: { $0.name == unit })?.milliseconds
            else { return nil }
            sum += number * factor
            parts += 1
            rest = rest[unit.endIndex...]
        }
        return parts > 1 ? sum : nil
    }

    private static func suggestion(_ number: Int, _ unit: Substring) -> String? {
        let word = unit.lowercased().filter { $0 != " " }
        let meant = ["ms", "milli", "s", "m", "h", "d"].first {
            $0.count > 1 ? word.hasPrefix($0) : word.first == $0.first
        }
        return meant.map { "\(number)\($0 == "milli" ? "ms" : $0)" }
    }
}
