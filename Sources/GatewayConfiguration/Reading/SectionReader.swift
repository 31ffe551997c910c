/// Reads the keys of one mapping, and refuses those its table does not have.
struct SectionReader {
    private let item: Item
    private let reading: Reading
    /// What was probably meant by keys that are unknown.
    private let meant: Set<String>

    /// Nothing when the item is no mapping.
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
        // Looking for what was meant takes its time, and nobody reads more.
        let unknown = entries.filter { !section.names.contains($0.key) }
        for (index, entry) in unknown.enumerated() {
            let suggestion = index < Reading.mostDiagnostics ? section.meant(by: entry.key) : nil
            if let suggestion { meant.insert(suggestion) }
            if let colon = entry.key.firstIndex(of: ":"), entry.value.isNothing {
                // In braces `key:value` is one word.
                let key = String(entry.key[..<colon])
                meant.insert(key)
                reading.refuse(
                    entry.keyPlace, "the space is missing after the colon of \(Printable.quoted(key))",
                    expected: "`key: value`")
                continue
            }
            let isLost = suggestion == nil && index < Reading.mostDiagnostics
            let elsewhere = isLost ? Section.others(with: entry.key) : ""
            reading.refuse(
                entry.keyPlace, "unknown key \(Printable.quoted(entry.key))\(elsewhere)",
                expected: "one of: \(Self.list(section.names))", suggestion: suggestion)
        }
        self.meant = meant
        self.item = item
        self.reading = reading
    }

    /// The value, or its default. Nothing when it was refused; then that has been reported.
    func read<Value>(_ key: Key<Value>) -> Value? {
        let setting = key.setting
        if let entry = entry(of: key) { return read(entry, key) }
        switch setting.absence {
        case .means(let text):
            return Document.standard(text, at: item.place, reading).flatMap { key.kind.read($0, reading) }
        // That it is misspelt was said; that it is missing, too, would only distract.
        case .refused where meant.contains(setting.name): return nil
        case .refused:
            reading.refuse(
                item.place, "`\(setting.name)` is missing", expected: "`\(setting.name)`: \(setting.type)")
            return nil
        case .allowed: return nil
        }
    }

    /// A number that is part of another one. Its default is smaller if the whole is: an operator who lowers the whole
    /// need not think of all its parts.
    func read(_ key: Key<Int>, within whole: Int?) -> Int? {
        let value = read(key)
        guard let whole, !has(key) else { return value }
        return value.map { min($0, whole) }
    }

    func has<Value>(_ key: Key<Value>) -> Bool { entry(of: key) != nil }

    /// Where the value stands, or the section if the key is missing.
    func place<Value>(of key: Key<Value>) -> Place { item.place(of: key.setting.name) }

    private func entry<Value>(of key: Key<Value>) -> Item.Entry? {
        item.entries.first { $0.key == key.setting.name }
    }

    private func read<Value>(_ entry: Item.Entry, _ key: Key<Value>) -> Value? {
        guard !entry.value.isNothing else {
            reading.refuse(entry.keyPlace, "`\(entry.key)` has no value", expected: key.kind.expected)
            return nil
        }
        return key.kind.read(entry.value, reading)
    }

    private static func list(_ names: [String]) -> String { names.joined(separator: ", ") }
}
