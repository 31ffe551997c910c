/// The notation of durations: `500ms`, `10s`, `5m`, `1h`, `30d`. A number without a unit is refused, since it could
/// mean seconds or milliseconds.
enum DurationText {
    private static let units: [(name: String, milliseconds: Int)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]

    /// A regular expression that every duration matches.
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

    /// Returns a fraction in the largest unit in which it is whole: `1.5s` is 1500ms.
    private static func inSmallerUnit(_ text: String) -> String? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == "." || $0 == ",") }
        guard let number = Double(digits.replacing(",", with: ".")), number < 1_000_000,
            let factor = units.first(where: { $0.name == text[digits.endIndex...] })?.milliseconds
        else { return nil }
        let milliseconds = number * Double(factor)
        return milliseconds.rounded() == milliseconds ? format(.milliseconds(Int(milliseconds))) : nil
    }

    /// Returns the milliseconds of `1m30s` and the like, or nil for other text.
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

/// The notation of sizes: `512`, `16KiB`, `1MiB`, `1GiB`.
enum SizeText {
    private static let units: [(name: String, bytes: Int)] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]

    /// A regular expression that every size matches.
    static let pattern = "^(0|[1-9][0-9]*)([KMG]iB)?$"

    static func parse(_ text: String) throws(InvalidValue) -> Int {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text[digits.endIndex...]
        guard let number = Decimal.parse(digits) else { throw InvalidValue("\(Printable.quoted(text)) is not a size") }
        guard !unit.isEmpty else { return number }
        if unit.first == "." || unit.first == "," {
            throw InvalidValue("\(Printable.quoted(text)) is not a whole number", suggestion: inSmallerUnit(text))
        }
        guard let factor = units.first(where: { $0.name == unit })?.bytes else {
            throw InvalidValue(
                "\(Printable.quoted(String(unit))) is not a unit of size", suggestion: suggestion(number, unit))
        }
        let (size, isTooLarge) = number.multipliedReportingOverflow(by: factor)
        guard !isTooLarge else { throw InvalidValue("\(Printable.quoted(text)) is out of range") }
        return size
    }

    static func format(_ bytes: Int) -> String {
        for unit in units where bytes >= unit.bytes && bytes % unit.bytes == 0 {
            return "\(bytes / unit.bytes)\(unit.name)"
        }
        return String(bytes)
    }

    /// Returns a fraction in the largest unit in which it is whole: `1.5MiB` is 1536KiB.
    private static func inSmallerUnit(_ text: String) -> String? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == "." || $0 == ",") }
        guard let number = Double(digits.replacing(",", with: ".")), number < 1_000_000,
            let letter = text[digits.endIndex...].lowercased().first,
            let factor = units.first(where: { $0.name.lowercased().first == letter })?.bytes
        else { return nil }
        let bytes = number * Double(factor)
        return bytes.rounded() == bytes ? format(Int(bytes)) : nil
    }

    /// Returns the size that was probably meant: 1MiB for `1MB`, `1m`, `1 mb` and `1Mi`, and 512 for `512B`.
    private static func suggestion(_ number: Int, _ unit: Substring) -> String? {
        let letter = unit.lowercased().first { $0 != " " }
        if letter == "b" { return String(number) }
        return units.first { $0.name.lowercased().first == letter }.map { "\(number)\($0.name)" }
    }
}

/// A limit on the rate of requests.
public struct RateConfiguration: Equatable, Sendable {
    public let requests: Int
    public let period: Period
    /// The number of requests that may arrive at once after a pause.
    public let burst: Int

    public enum Period: String, CaseIterable, Sendable {
        case second = "s"
        case minute = "m"
    }
}

/// The notation of rates: `100/s`, `60/m`, `100/s burst 200`. Without a burst, the number itself is the burst.
enum RateText {
    private static let range = 1...1_000_000

    static let expected =
        "a rate `N/s` or `N/m`, optionally followed by `burst N`, each N from \(range.lowerBound) to \(range.upperBound)"

    static func parse(_ text: String) throws(InvalidValue) -> RateConfiguration {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        let parts = words[0].split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let requests = Decimal.parse(parts[0]),
            let period = RateConfiguration.Period(rawValue: String(parts[1]))
        else {
            throw InvalidValue("\(Printable.quoted(text)) is not a rate", suggestion: suggestion(parts, words))
        }
        let burst: Int
        switch words.count {
        case 1: burst = requests
        case 3:
            guard words[1] == "burst", let number = Decimal.parse(words[2]) else { fallthrough }
            burst = number
        default: throw InvalidValue("\(Printable.quoted(text)) is not a rate")
        }
        guard range.contains(requests), range.contains(burst) else {
            throw InvalidValue("\(Printable.quoted(text)) is out of range")
        }
        return RateConfiguration(requests: requests, period: period, burst: burst)
    }

    /// Returns the rate that was probably meant by a number alone, or by another spelling of the period.
    private static func suggestion(_ parts: [Substring], _ words: [Substring]) -> String? {
        guard words.count == 1, let number = Decimal.parse(parts[0]) else { return nil }
        guard parts.count == 2 else { return parts.count == 1 ? "\(number)/s" : nil }
        return RateConfiguration.Period.allCases.first { parts[1].lowercased().hasPrefix($0.rawValue) }
            .map { "\(number)/\($0.rawValue)" }
    }
}

/// Whole numbers in canonical form: only digits, no sign, no leading zero. YAML 1.1 reads `010` as eight and `1_000` as
/// a thousand; both are refused here.
enum Decimal {
    static func parse(_ text: Substring) -> Int? {
        guard !text.isEmpty, text.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }) else { return nil }
        guard text.utf8.count == 1 || !text.hasPrefix("0") else { return nil }
        return Int(text)
    }
}
