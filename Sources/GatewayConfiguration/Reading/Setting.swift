/// A key of the conf file, as a row of a table. The table serves to read files, to suggest keys and to check
/// `conf/attestgate.yaml`.
public struct Setting: Equatable, Sendable {
    /// The treatment of a missing key.
    public enum Absence: Equatable, Sendable {
        /// The conf file is refused.
        case refused
        /// The setting does not apply.
        case allowed
        /// This default applies.
        case means(String)
    }

    public let name: String
    /// The required value in words: "a duration from 100ms to 5m".
    public let type: String
    /// The required value for editors.
    public let shape: Shape
    /// The unit that is counted, or the beginning and end of a time.
    public let unit: String?
    public let absence: Absence
    /// The purpose of the setting in one sentence.
    public let summary: String
}

/// A mapping of the conf file with the settings that may occur in it.
public struct Section: Equatable, Sendable {
    /// The path from the top: `listeners.tls`. Empty for the top itself.
    public let path: String
    public let settings: [Setting]
    /// Former names of keys, each with its present name.
    var former: [String: String] = [:]

    /// Returns the section and all within it, each path once, and each before those within it.
    func withInner() -> [Section] {
        var found = [self]
        for section in settings.flatMap(\.shape.sections) {
            found += section.withInner().filter { inner in !found.contains { $0.path == inner.path } }
        }
        return found
    }

    var names: [String] { settings.map(\.name) }

    /// Returns the key of this section that an unknown key probably means.
    func meant(by key: String) -> String? {
        if let now = former[key] { return now }
        // For an operator who writes a secret where only its path belongs.
        if names.contains(key + "_file") { return key + "_file" }
        return Spelling.nearest(to: key, among: names) ?? ForeignNames.meant(by: key, among: names)
    }

    /// Returns the sections that have the key, in words that follow its name. Empty if there is none or more than
    /// three.
    func sections(with key: String) -> String {
        let paths = withInner().filter { $0.names.contains(key) }.map {
            $0.path.isEmpty ? "the top of the file" : "`\($0.path)`"
        }
        guard (1...3).contains(paths.count) else { return "" }
        return " here: it belongs to \(paths.joined(separator: " or "))"
    }
}

/// A setting together with the kind of its value.
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

/// The form of a value in the file, as far as it is known without reading. The schema for editors uses it.
public indirect enum Shape: Equatable, Sendable {
    /// A plain decimal number.
    case integer(ClosedRange<Int>)
    /// Text that matches `pattern` if there is one: a regular expression that JSON Schema supports.
    case text(pattern: String?)
    /// One of these names.
    case choice([String])
    case list(of: Shape, minimum: Int, maximum: Int, isDistinct: Bool)
    case section(Section)
    /// A mapping of names that match `pattern` to sections.
    case named(Section, pattern: String)
    /// Numbers separated by full stops. To editors, `1.2` is a number and `1.2.3` is text.
    case version
    case either([Shape])

    /// The sections directly within the shape.
    var sections: [Section] {
        switch self {
        case .integer, .text, .choice, .version: []
        case .section(let section), .named(let section, _): [section]
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
