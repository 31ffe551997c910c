internal import Vocabulary

/// The reader of one kind of value.
struct Kind<Value: Sendable>: Sendable {
    /// The accepted values, in words that follow "expected".
    let expected: String
    /// The accepted values for editors, which know less.
    let shape: Shape
    /// The value of a missing key. Nil unless the value is optional, and then an optional of nil.
    let missing: Value?
    private let readItem: @Sendable (Item, Reading) -> Value?

    init(
        expected: String, shape: Shape, missing: Value? = nil, read: @escaping @Sendable (Item, Reading) -> Value?
    ) {
        self.expected = expected
        self.shape = shape
        self.missing = missing
        readItem = read
    }

    /// The kind of a setting that may be missing.
    var optional: Kind<Value?> {
        Kind<Value?>(expected: expected, shape: shape, missing: .some(nil)) { item, reading in
            read(item, reading).map(Optional.some)
        }
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
}

extension Kind where Value: ConfigurationSection {
    /// A mapping with the settings of the section.
    static var section: Kind { .section(Value.section) }

    /// Creates a kind of mapping with the settings of a section that has another path than the type's own.
    static func section(_ section: Section) -> Kind {
        Kind(expected: "a mapping", shape: .section(section)) { Value.read($0, in: section, $1) }
    }
}

extension Kind {
    /// Creates a mapping of names to sections.
    ///
    /// - Parameter what: one of them, with its article: "an upstream".
    static func named<Element: ConfigurationSection>(
        _ what: String, minimum: Int = 0
    ) -> Kind where Value == [String: Element] {
        let expected = minimum > 0 ? "a mapping of at least one name to \(what)" : "a mapping of names, each to \(what)"
        let shape = Shape.named(Element.section, pattern: ConfiguredName.pattern, minimum: minimum)
        return Kind(expected: expected, shape: shape) { item, reading in
            guard case .mapping(let entries) = item.content else {
                reading.refuse(item.place, "found \(item.summary)", expected: expected)
                return nil
            }
            guard entries.count >= minimum else {
                reading.refuse(item.place, "the mapping is empty", expected: expected)
                return nil
            }
            var values: [String: Element] = [:]
            for entry in entries {
                do throws(InvalidValue) {
                    let name = try ConfiguredName.parse(entry.key)
                    values[name] = read(entry, what, reading)
                } catch {
                    reading.refuse(
                        entry.keyPlace, error.message, expected: ConfiguredName.expected, suggestion: error.suggestion)
                }
            }
            return values.count == entries.count ? values : nil
        }
    }

    private static func read<Element: ConfigurationSection>(
        _ entry: Item.Entry, _ what: String, _ reading: Reading
    ) -> Element? {
        guard !entry.value.isNothing else {
            let noun = what.split(separator: " ", maxSplits: 1).last ?? ""
            reading.refuse(
                entry.keyPlace, "the \(noun) \(Printable.quoted(entry.key)) has no settings",
                expected: "a mapping with: \(Element.section.names.joined(separator: ", "))")
            return nil
        }
        return Element.read(entry.value, reading)
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
                let isNone = minimum == 0 && ["none", "off", "false"].contains(item.text)
                reading.refuse(
                    item.place, isDashed ? "the space after the dash is missing" : "found \(item.summary)",
                    expected: expected,
                    suggestion: isNone
                        ? "[]" : item.text.map { "[\($0)]" } ?? (isDashed ? "- \(first.dropFirst())" : nil))
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

extension Kind where Value == RateConfiguration {
    static var rate: Kind { .text(RateText.expected, matching: "^[0-9]+/[sm]( burst [0-9]+)?$", RateText.parse) }
}

extension Kind where Value == String {
    /// Creates a kind for a readable file that is not empty. The path is resolved; the contents are not checked here.
    static func file(_ what: String) -> Kind {
        path(what) { path, reading in reading.objection(toFile: path) }
    }

    /// Creates a kind for a file with a secret, which only its owner may read or write.
    static func secretFile(_ what: String) -> Kind {
        path(what + ", mode 0600") { path, reading in
            reading.objection(toFile: path) ?? reading.objection(toSecretIn: path)
        }
    }

    /// Creates a kind for a secret file with the private key of a certificate.
    static func keyFile(_ what: String) -> Kind {
        let file = secretFile(what)
        return Kind(expected: file.expected, shape: file.shape) { item, reading in
            guard let path = file.read(item, reading) else { return nil }
            reading.mention(.privateKey(path), at: item.place)
            return path
        }
    }

    /// Creates a kind for a file that need not exist, in a directory that must. The path is resolved.
    ///
    /// A variable that a deployment forgot to replace makes no file: each gateway would have a secret of its own.
    static func fileToMake(_ what: String) -> Kind {
        path(what) { path, reading in
            if let objection = reading.objection(toMaking: path) { return objection }
            let isVariable = path.utf8.reversed().prefix { $0 != UInt8(ascii: "/") }.contains(UInt8(ascii: "$"))
            return isVariable && !reading.exists(path) ? "it does not exist, and none of this name is created" : nil
        }
    }

    private static func path(
        _ what: String, _ objection: @escaping @Sendable (String, Reading) -> String?
    ) -> Kind {
        Kind(expected: what, shape: .text(pattern: nil)) { item, reading in
            guard let text = item.text else {
                reading.refuse(item.place, "found \(item.summary)", expected: what)
                return nil
            }
            guard !text.isEmpty else {
                reading.refuse(item.place, "the path is empty", expected: what)
                return nil
            }
            let path = reading.resolve(path: text, at: item.place)
            reading.mention(.file(path), at: item.place)
            if let objection = objection(path, reading) {
                // A shell would have replaced them.
                let isShell = text.contains("$") || text.hasPrefix("~")
                let hint = isShell ? "; `$` and `~` are not expanded" : ""
                reading.refuse(
                    item.place, "the file \(Printable.quoted(path)) cannot be used: \(objection)\(hint)", expected: what
                )
                return nil
            }
            return path
        }
    }
}

/// The form of a value in the file, as far as it is known without reading. The schema for editors uses it.
indirect enum Shape: Sendable {
    /// A plain decimal number.
    case integer(ClosedRange<Int>)
    /// Text that matches `pattern` if there is one: a regular expression that JSON Schema supports.
    case text(pattern: String?)
    /// One of these names.
    case choice([String])
    case list(of: Shape, minimum: Int, maximum: Int, isDistinct: Bool)
    case section(Section)
    /// A mapping of at least `minimum` names that match `pattern` to sections.
    case named(Section, pattern: String, minimum: Int)
    /// Numbers separated by full stops. To editors, `1.2` is a number and `1.2.3` is text.
    case version
    case either([Shape])

    /// The sections directly within the shape.
    var sections: [Section] {
        switch self {
        case .integer, .text, .choice, .version: []
        case .section(let section), .named(let section, _, _): [section]
        case .list(let element, _, _, _): element.sections
        case .either(let shapes): shapes.flatMap(\.sections)
        }
    }

    /// Whether a plain number is accepted. Editors distinguish `60` and `'60'`; the conf file mostly does not.
    var admitsNumber: Bool {
        switch self {
        case .integer, .version: true
        case .text, .choice, .list, .section, .named: false
        case .either(let shapes): shapes.contains(where: \.admitsNumber)
        }
    }

    /// Text that may look like a number, as some ids do.
    static let textOrNumber = Shape.either([.text(pattern: nil), .integer(0...Int.max)])
}
