internal import Vocabulary

/// A section of the conf file. Its properties with ``Setting`` are its settings, in the order of the reference.
protocol ConfigurationSection: Sendable {
    static var section: Section { get }

    init()

    /// Returns whether a key of the file has an effect beside the settings before it. Reports if it has none; its value
    /// is then not read.
    func hasEffect(_ key: String, at place: Place, _ reading: Reading) -> Bool

    /// Applies the rules between the settings, some of which may have been refused.
    ///
    /// - Returns: whether the section is usable as far as these rules say.
    func check(_ item: Item, _ reading: Reading) -> Bool
}

extension ConfigurationSection {
    func hasEffect(_ key: String, at place: Place, _ reading: Reading) -> Bool { true }

    func check(_ item: Item, _ reading: Reading) -> Bool { true }

    /// Whether no setting was refused.
    var isComplete: Bool { !settings.contains { $0.setting.isRefused } }

    /// The place at which the section begins, or its first value.
    var beginning: Place { settings.map(\.setting.place).min() ?? Place(line: 1, column: 1) }

    /// The settings with the names of their properties.
    fileprivate var settings: [(property: String, setting: any AnySetting)] {
        Mirror(reflecting: self).children.flatMap { child -> [(property: String, setting: any AnySetting)] in
            // The settings of another section, among those of this one.
            if let embedded = child.value as? any ConfigurationSection { return embedded.settings }
            guard let label = child.label, let setting = child.value as? any AnySetting else { return [] }
            // The storage of a wrapped property has an underscore.
            return [(String(label.dropFirst()), setting)]
        }
    }

    /// Reads a mapping. Every setting is read, whatever is refused, so that all diagnostics are reported.
    ///
    /// - Parameter section: the section, if the same settings stand at several places of the file.
    /// - Returns: nil after a refusal.
    static func read(_ item: Item, in section: Section = Self.section, _ reading: Reading) -> Self? {
        guard let reader = SectionReader(item, section, reading) else { return nil }
        let values = Self()
        let settings = values.settings
        for (declaration, value) in zip(section.settings, settings) {
            let place = item[declaration.name]?.place
            let hasEffect = place.map { values.hasEffect(declaration.name, at: $0, reading) } ?? true
            value.setting.read(declaration, from: reader, hasEffect: hasEffect)
        }
        // Rules run on incomplete sections, too.
        let isUsable = values.check(item, reading)
        return isUsable && !settings.contains { $0.setting.isRefused } ? values : nil
    }

    /// Returns the reason why a reload cannot apply another section, beginning with the key. Nil if it can.
    func obstacle(to next: Self, _ role: Role) -> String? {
        for ((old, new), declaration) in zip(zip(settings, next.settings), Self.section.settings)
        where declaration.isUsed(role) {
            if let reason = old.setting.obstacle(to: new.setting, role) { return "\(declaration.name): \(reason)" }
        }
        return nil
    }

    func obstacle(toAny next: Any, _ role: Role) -> String? { (next as? Self).flatMap { obstacle(to: $0, role) } }
}

/// A mapping of the conf file with the settings that may occur in it.
struct Section: Sendable {
    /// The path from the top: `listeners.tls`. Empty for the top itself.
    let path: String
    let settings: [SettingDeclaration]
    /// Former names of keys, or those of other programs, each with its present name.
    private let former: [String: String]

    /// Creates the section whose settings a type declares.
    init<Values: ConfigurationSection>(_ path: String, of type: Values.Type, former: [String: String] = [:]) {
        self.path = path
        settings = type.init().settings.map { $0.setting.declaration(property: Self.key(of: $0.property)) }
        self.former = former
    }

    private init(_ path: String, _ section: Section) {
        self.path = path
        settings = section.settings
        former = section.former
    }

    /// Returns the section with the same settings at another place of the file.
    func at(_ path: String) -> Section { Section(path, self) }

    /// Returns a property's name in snake case: `minimumTTL` is `minimum_ttl`.
    static func key(of property: String) -> String {
        var key = ""
        var last: Character = "_"
        for character in property {
            if character.isUppercase, !last.isUppercase { key.append("_") }
            key.append(contentsOf: character.lowercased())
            last = character
        }
        return key
    }

    /// Returns the section and all within it, each path once, and each before those within it.
    func withInner() -> [Section] {
        var found = [self]
        for section in settings.flatMap(\.shape.sections) {
            found += section.withInner().filter { inner in !found.contains { $0.path == inner.path } }
        }
        return found
    }

    var names: [String] { settings.map(\.name) }

    /// Returns the required value of a setting in words.
    func expectedValue(of key: String) -> String { settings.first { $0.name == key }?.type ?? "" }

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

/// A mapping whose keys are known, for the settings to read their values from.
struct SectionReader {
    let item: Item
    let reading: Reading
    /// The known keys nearest to unknown ones.
    private let meant: Set<String>

    /// Refuses keys that the section does not have. Reports and returns nil if the item is no mapping.
    init?(_ item: Item, _ section: Section, _ reading: Reading) {
        guard case .mapping(let entries) = item.content else {
            if section.path.isEmpty, item.text != nil {
                reading.refuse(
                    item.place,
                    "no line of the file is a setting; settings of other programs are not accepted",
                    expected: "`key: value`, beginning with one of: \(Self.list(section.names))")
                return nil
            }
            reading.refuse(item.place, "found \(item.summary)", expected: "a mapping with: \(Self.list(section.names))")
            return nil
        }
        var meant: Set<String> = []
        // The search for suggestions takes time, and nobody reads more of them.
        let unknown = entries.filter { entry in !section.settings.contains { $0.name == entry.key } }
        for (index, entry) in unknown.enumerated() {
            let suggestion = index < Reading.mostDiagnostics ? section.meant(by: entry.key) : nil
            if let suggestion { meant.insert(suggestion) }
            if let colon = entry.key.firstIndex(of: ":"), entry.value.isNothing {
                // In braces, `key:value` is one word.
                let key = String(entry.key[..<colon])
                meant.insert(key)
                reading.refuse(
                    entry.keyPlace, "the space is missing after the colon of \(Printable.quoted(key))",
                    expected: "`key: value`")
                continue
            }
            let isLost = suggestion == nil && index < Reading.mostDiagnostics
            let elsewhere = isLost ? reading.top.sections(with: entry.key) : ""
            reading.refuse(
                entry.keyPlace, "unknown key \(Printable.quoted(entry.key))\(elsewhere)",
                expected: "one of: \(Self.list(section.names))", suggestion: suggestion)
        }
        self.meant = meant
        self.item = item
        self.reading = reading
    }

    /// Reads the value of a key or its default. Returns nil after a refusal, which has then been reported.
    ///
    /// - Parameter entry: the key in the file, if it has it.
    func read<Value>(_ entry: Item.Entry?, _ kind: Kind<Value>, _ declaration: SettingDeclaration) -> Value? {
        if let entry {
            guard !entry.value.isNothing else {
                reading.refuse(entry.keyPlace, "`\(entry.key)` has no value", expected: kind.expected)
                return nil
            }
            return kind.read(entry.value, reading)
        }
        switch declaration.absence {
        case .means(let text):
            return Document.standard(text, at: item.place, reading).flatMap { kind.read($0, reading) }
        case .allowed: return kind.missing
        // The misspelling is reported already; reporting the key as missing too would only distract.
        case .refused where meant.contains(declaration.name): return nil
        case .refused:
            reading.refuse(
                item.place, "`\(declaration.name)` is missing", expected: "`\(declaration.name)`: \(declaration.type)")
            return nil
        }
    }

    private static func list(_ names: [String]) -> String { names.joined(separator: ", ") }
}
