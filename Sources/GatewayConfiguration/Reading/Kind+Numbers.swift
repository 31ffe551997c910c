extension Kind where Value == Int {
    /// A plain decimal number.
    static func integer(_ range: ClosedRange<Int>) -> Kind {
        let expected = "a whole number from \(range.lowerBound) to \(range.upperBound)"
        return Kind(expected: expected, shape: .integer(range)) { item, reading in
            guard case .scalar(let scalar) = item.content, scalar.isPlain,
                let number = Decimal.parse(scalar.text[...])
            else {
                let quoted = if case .scalar(let scalar) = item.content { !scalar.isPlain } else { false }
                reading.refuse(
                    item.place, "found \(quoted ? "text: " : "")\(item.summary)", expected: expected,
                    suggestion: item.text.flatMap(plain).map(String.init))
                return nil
            }
            guard range.contains(number) else {
                reading.refuse(item.place, "\(number) is out of range", expected: expected)
                return nil
            }
            return number
        }
    }

    /// What was meant by `10_000` or `10k`.
    private static func plain(_ text: String) -> Int? {
        let digits = text.filter { !"_,' ".contains($0) }
        guard let last = digits.last?.lowercased(), let factor = ["k": 1_000, "m": 1_000_000][last] else {
            return Decimal.parse(digits[...])
        }
        return Decimal.parse(digits.dropLast()).flatMap { $0 < 1_000_000 ? $0 * factor : nil }
    }

    /// A number of bytes.
    static func size(_ range: ClosedRange<Int>) -> Kind {
        let bounds = "from \(SizeText.format(range.lowerBound)) to \(SizeText.format(range.upperBound))"
        let shape = Shape.either([.text(pattern: SizeText.pattern), .integer(range)])
        return .text("a size \(bounds): a whole number of bytes, or with KiB, MiB or GiB", shape: shape) {
            text throws(InvalidValue) in
            let size = try SizeText.parse(text)
            guard range.contains(size) else { throw InvalidValue("\(Printable.quoted(text)) is out of range") }
            return size
        }
    }
}

extension Kind where Value == Int {
    /// A number of bytes in a second: `500B/s`, `1KiB/s`.
    static func byteRate(_ range: ClosedRange<Int>) -> Kind {
        let bounds = "from \(byteRate(range.lowerBound)) to \(byteRate(range.upperBound))"
        return .text("a rate \(bounds): a whole number with B/s, KiB/s or MiB/s", matching: "^[0-9]+([KMG]i)?B/s$") {
            text throws(InvalidValue) in
            let words = text.split(separator: "/", omittingEmptySubsequences: false)
            guard words.count == 2, words[1] == "s", words[0].last == "B" else {
                throw InvalidValue(
                    "\(Printable.quoted(text)) is not a rate", suggestion: Decimal.parse(text[...]).map(byteRate))
            }
            // A size has no unit for single bytes.
            let isPlain = words[0].dropLast().last.map { $0.isASCII && $0.isNumber } ?? false
            let rate = try SizeText.parse(String(isPlain ? words[0].dropLast() : words[0]))
            guard range.contains(rate) else { throw InvalidValue("\(Printable.quoted(text)) is out of range") }
            return rate
        }
    }

    private static func byteRate(_ rate: Int) -> String {
        let size = SizeText.format(rate)
        return size.hasSuffix("B") ? "\(size)/s" : "\(size)B/s"
    }
}

extension Kind where Value == Duration {
    /// A span of time.
    static func duration(_ range: ClosedRange<Duration>) -> Kind {
        .text("a duration \(bounds(range)): a whole number with ms, s, m, h or d", matching: DurationText.pattern) {
            text throws(InvalidValue) in
            try parse(text, range)
        }
    }

    /// A span of time that is compared with times in seconds, so that a fraction would quietly be lost.
    static func wholeSeconds(_ range: ClosedRange<Duration>) -> Kind {
        .text("a duration \(bounds(range)): a whole number with s, m, h or d", matching: DurationText.pattern) {
            text throws(InvalidValue) in
            let duration = try parse(text, range)
            guard duration.components.attoseconds == 0 else {
                throw InvalidValue("\(Printable.quoted(text)) is not a whole number of seconds")
            }
            return duration
        }
    }

    private static func bounds(_ range: ClosedRange<Duration>) -> String {
        "from \(DurationText.format(range.lowerBound)) to \(DurationText.format(range.upperBound))"
    }

    private static func parse(_ text: String, _ range: ClosedRange<Duration>) throws(InvalidValue) -> Duration {
        let duration = try DurationText.parse(text)
        guard range.contains(duration) else { throw InvalidValue("\(Printable.quoted(text)) is out of range") }
        return duration
    }
}
