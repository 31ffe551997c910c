/// Durations as the conf file writes them: `500ms`, `10s`, `5m`, `1h`, `30d`. A number alone is refused: half of the world
/// would take it for seconds and the other half for milliseconds.
enum DurationText {
    private static let units: [(name: String, milliseconds: Int)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]

    static func parse(_ text: String) throws(Complaint) -> Duration {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text[digits.endIndex...]
        guard let number = Decimal.parse(digits) else {
            throw Complaint("\(Printable.quoted(text)) is not a duration")
        }
        guard !unit.isEmpty else { throw Complaint("\(Printable.quoted(text)) has no unit", suggestion: "\(text)s") }
        guard let factor = units.first(where: { $0.name == unit })?.milliseconds else {
            throw Complaint(
                "\(Printable.quoted(String(unit))) is not a unit of time", suggestion: suggestion(number, unit))
        }
        let (milliseconds, isTooLong) = number.multipliedReportingOverflow(by: factor)
        guard !isTooLong else { throw Complaint("\(Printable.quoted(text)) is out of range") }
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

    private static func suggestion(_ number: Int, _ unit: Substring) -> String? {
        let word = unit.lowercased().filter { $0 != " " }
        let meant = ["ms", "milli", "s", "m", "h", "d"].first {
            $0.count > 1 ? word.hasPrefix($0) : word.first == $0.first
        }
        return meant.map { "\(number)\($0 == "milli" ? "ms" : $0)" }
    }
}
