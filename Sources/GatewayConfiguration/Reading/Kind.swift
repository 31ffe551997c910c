/// The reader of one kind of value.
struct Kind<Value: Sendable>: Sendable {
    /// The accepted values, in words that follow "expected".
    let expected: String
    /// The accepted values for editors, which know less.
    let shape: Shape
    private let readItem: @Sendable (Item, Reading) -> Value?

    init(expected: String, shape: Shape, read: @escaping @Sendable (Item, Reading) -> Value?) {
        self.expected = expected
        self.shape = shape
        readItem = read
    }

    /// Reads the value. Returns nil after a refusal, which has then been reported.
    func read(_ item: Item, _ reading: Reading) -> Value? {
        if case .refused = item.content { nil } else { readItem(item, reading) }
    }
}

/// The reason why text is not the required value.
struct InvalidValue: Error {
    let message: String
    let suggestion: String?

    init(_ message: String, suggestion: String? = nil) {
        self.message = message
        self.suggestion = suggestion
    }
}

extension Kind {
    /// Creates a kind of text with a notation of its own, quoted or not.
    ///
    /// - Parameters:
    ///   - expected: the accepted values, in words.
    ///   - pattern: a regular expression for editors that every value matches.
    ///   - parse: the parser of the notation.
    static func text(
        _ expected: String, matching pattern: String? = nil,
        _ parse: @escaping @Sendable (String) throws(InvalidValue) -> Value
    ) -> Kind {
        text(expected, shape: .text(pattern: pattern), parse)
    }

    static func text(
        _ expected: String, shape: Shape, _ parse: @escaping @Sendable (String) throws(InvalidValue) -> Value
    ) -> Kind {
        Kind(expected: expected, shape: shape) { item, reading in
            guard case .scalar = item.content, let text = item.text else {
                reading.refuse(item.place, "found \(item.summary)", expected: expected)
                return nil
            }
            do throws(InvalidValue) {
                return try parse(text)
            } catch {
                reading.refuse(item.place, error.message, expected: expected, suggestion: error.suggestion)
                return nil
            }
        }
    }

    /// Creates a kind of mapping with the keys of the section.
    static func section(_ section: Section, _ read: @escaping @Sendable (Item, Reading) -> Value?) -> Kind {
        Kind(expected: "a mapping", shape: .section(section), read: read)
    }
}

extension Kind where Value: RawRepresentable & CaseIterable & Sendable, Value.RawValue == String {
    /// One of the raw values of an enumeration.
    static var choice: Kind {
        let names = Value.allCases.map(\.rawValue)
        let expected = names.count == 1 ? "`\(names[0])`" : "one of: \(names.joined(separator: ", "))"
        return .text(expected, shape: .choice(names)) { text throws(InvalidValue) in
            guard let value = Value(rawValue: text) else {
                throw InvalidValue(
                    "\(Printable.quoted(text)) is not a known value",
                    suggestion: Spelling.nearest(to: text, among: names))
            }
            return value
        }
    }
}

extension Kind {
    /// Creates a list of `minimum` to `maximum` values. A refused element does not keep the others from being checked.
    ///
    /// - Parameter check: a check of the values together. It gets those that could be read, each with its item.
    static func list<Element: Sendable>(
        of element: Kind<Element>, minimum: Int, maximum: Int = .max, isDistinct: Bool = false,
        check: @escaping @Sendable ([(value: Element, item: Item)], Reading) -> Void
    ) -> Kind where Value == [Element] {
        let least = minimum == 0 ? "a list, each entry" : "a list of at least one, each"
        let most = maximum == .max ? "" : "; at most \(maximum) of them"
        let expected = "\(least) \(element.expected)\(most)"
        let shape = Shape.list(of: element.shape, minimum: minimum, maximum: maximum, isDistinct: isDistinct)
        return Kind(expected: expected, shape: shape) { item, reading in
            guard case .sequence(let items) = item.content else {
                let first = item.entries.first?.key ?? ""
                let isDashed = first.hasPrefix("-")
                reading.refuse(
                    item.place, isDashed ? "the space after the dash is missing" : "found \(item.summary)",
                    expected: expected,
                    suggestion: item.text.map { "[\($0)]" } ?? (isDashed ? "- \(first.dropFirst())" : nil))
                return nil
            }
            guard items.count >= minimum else {
                reading.refuse(item.place, "the list is empty", expected: expected)
                return nil
            }
            guard items.count <= maximum else {
                reading.refuse(item.place, "the list has \(items.count) entries", expected: expected)
                return nil
            }
            let values = items.map { (value: element.read($0, reading), item: $0) }
            let readable = values.compactMap { pair in pair.value.map { (value: $0, item: pair.item) } }
            check(readable, reading)
            return readable.count == items.count ? readable.map(\.value) : nil
        }
    }

    /// Creates a list in which no value occurs twice.
    static func distinct<Element: Hashable & Sendable>(
        _ element: Kind<Element>, minimum: Int, maximum: Int = .max
    ) -> Kind where Value == [Element] {
        .list(of: element, minimum: minimum, maximum: maximum, isDistinct: true) { values, reading in
            var seen: Set<Element> = []
            for (value, item) in values where !seen.insert(value).inserted {
                reading.refuse(item.place, "\(item.summary) is listed twice")
            }
        }
    }
}

extension Kind where Value == Int {
    /// Creates a kind of plain decimal numbers.
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

    /// Returns the number that `10_000` or `10k` means.
    private static func plain(_ text: String) -> Int? {
        let digits = text.filter { !"_,' ".contains($0) }
        guard let last = digits.last?.lowercased(), let factor = ["k": 1_000, "m": 1_000_000][last] else {
            return Decimal.parse(digits[...])
        }
        return Decimal.parse(digits.dropLast()).flatMap { $0 < 1_000_000 ? $0 * factor : nil }
    }

    /// Creates a kind of numbers of bytes.
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
    /// Creates a kind of numbers of bytes per second: `500B/s`, `1KiB/s`.
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
    /// Creates a kind of spans of time.
    static func duration(_ range: ClosedRange<Duration>) -> Kind {
        .text("a duration \(bounds(range)): a whole number with ms, s, m, h or d", matching: DurationText.pattern) {
            text throws(InvalidValue) in
            try parse(text, range)
        }
    }

    /// Creates a kind of spans of whole seconds. They are compared with times in seconds, so a fraction would be lost.
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
