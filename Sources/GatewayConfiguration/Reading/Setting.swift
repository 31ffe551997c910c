/// What one key of the conf file is: the row of a table from which files are read, keys suggested and
/// `conf/attestgate.yaml` checked.
public struct Setting: Equatable, Sendable {
    /// What happens when the key is missing.
    public enum Absence: Equatable, Sendable {
        /// The conf file is refused.
        case refused
        /// The setting does not apply.
        case allowed
        /// As if this had been written.
        case means(String)
    }

    public let name: String
    /// What the value must be: "a duration from 100ms to 5m".
    public let type: String
    /// The same for editors.
    public let shape: Shape
    /// What is counted, or from where to where the time runs.
    public let unit: String?
    public let absence: Absence
    /// What it is for, in a sentence.
    public let summary: String
}

/// One mapping of the conf file and all keys that may stand in it.
public struct Section: Equatable, Sendable {
    /// The way there from the top: `listeners.tls`. Empty for the top itself.
    public let path: String
    public let settings: [Setting]
    /// Names that keys had in earlier versions, and what they are called now.
    var former: [String: String] = [:]

    /// Itself and all within it. One that stands at several places, as `tls` does, has one path.
    func withInner() -> [Section] {
        var found = [self]
        for section in settings.flatMap(\.shape.sections) {
            found += section.withInner().filter { inner in !found.contains { $0.path == inner.path } }
        }
        return found
    }

    var names: [String] { settings.map(\.name) }

    /// The key of this section that was probably meant by an unknown one.
    func meant(by key: String) -> String? {
        if let now = former[key] { return now }
        // For an operator who writes a secret where only its path belongs.
        if names.contains(key + "_file") { return key + "_file" }
        return Spelling.nearest(to: key, among: names) ?? ForeignNames.meant(by: key, among: names)
    }

    /// Where a key belongs that stands in the wrong section, to be read behind its name; nothing if that is nowhere or anywhere.
    func sections(with key: String) -> String {
        let paths = withInner().filter { $0.names.contains(key) }.map {
            $0.path.isEmpty ? "the top of the file" : "`\($0.path)`"
        }
        guard (1...3).contains(paths.count) else { return "" }
        return " here: it belongs to \(paths.joined(separator: " or "))"
    }
}

/// A row of a settings table together with the type its value is read as.
struct Key<Value: Sendable>: Sendable {
    let setting: Setting
    let kind: Kind<Value>

    init(
        _ name: String, _ kind: Kind<Value>, unit: String? = nil, whenMissing absence: Setting.Absence,
        _ summary: String
    ) {
        setting = Setting(
            name: name, type: kind.expected, shape: kind.shape, unit: unit, absence: absence, summary: summary)
        self.kind = kind
    }
}

/// What a value looks like in the file, as far as that shows without reading it. The schema for editors has this form.
public indirect enum Shape: Equatable, Sendable {
    /// A plain decimal number.
    case integer(ClosedRange<Int>)
    /// Text; what fits `pattern`, a regular expression that JSON Schema and its readers understand, if there is one.
    case text(pattern: String?)
    /// One of these names.
    case choice([String])
    case list(of: Shape, minimum: Int, maximum: Int, isDistinct: Bool)
    case section(Section)
    /// A mapping of names, each of which fits `pattern`, to sections.
    case named(Section, pattern: String)
    /// Numbers with full stops between them: `1.2` is one number to editors, `1.2.3` is text.
    case version
    case either([Shape])

    /// The sections directly below it.
    var sections: [Section] {
        switch self {
        case .integer, .text, .choice, .version: []
        case .section(let section), .named(let section, _): [section]
        case .list(let element, _, _, _): element.sections
        case .either(let shapes): shapes.flatMap(\.sections)
        }
    }

    /// Whether a plain number can be it. Editors tell `60` and `'60'` apart, the conf file mostly does not.
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
