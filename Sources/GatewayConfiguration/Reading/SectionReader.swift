/// Reads the keys of one mapping, and refuses those its table does not have.
struct SectionReader {
    private let item: Item
    private let reading: Reading

    /// Nothing when the item is no mapping.
    init?(_ item: Item, _ section: Section, _ reading: Reading) {
        guard case .mapping(let entries) = item.content else {
            reading.refuse(item.place, "found \(item.summary)", expected: "a mapping with: \(Self.list(section.names))")
            return nil
        }
        for entry in entries where !section.names.contains(entry.key) {
            reading.refuse(
                entry.keyPlace, "unknown key \(Printable.quoted(entry.key))",
                expected: "one of: \(Self.list(section.names))",
                suggestion: section.former[entry.key] ?? Spelling.nearest(to: entry.key, among: section.names))
        }
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
        case .refused:
            reading.refuse(
                item.place, "`\(setting.name)` is missing", expected: "`\(setting.name)`: \(setting.type)")
            return nil
        case .allowed: return nil
        }
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
