/// How often requests may come.
public struct RateConfiguration: Equatable, Sendable {
    public let requests: Int
    public let period: Period
    /// How many may come at once, after a pause.
    public let burst: Int

    public enum Period: String, CaseIterable, Sendable {
        case second = "s"
        case minute = "m"
    }
}

/// Rates as the conf file writes them: `100/s`, `60/m`, `100/s burst 200`. Without a burst as many may come at once as the
/// number says.
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

    /// A number alone, or a period that is spelt otherwise.
    private static func suggestion(_ parts: [Substring], _ words: [Substring]) -> String? {
        guard words.count == 1, let number = Decimal.parse(parts[0]) else { return nil }
        guard parts.count == 2 else { return parts.count == 1 ? "\(number)/s" : nil }
        return RateConfiguration.Period.allCases.first { parts[1].lowercased().hasPrefix($0.rawValue) }
            .map { "\(number)/\($0.rawValue)" }
    }
}

extension Kind where Value == RateConfiguration {
    static var rate: Kind { .text(RateText.expected, matching: "^[0-9]+/[sm]( burst [0-9]+)?$", RateText.parse) }
}
