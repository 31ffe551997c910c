/// The assembly of a conf file from the files that it includes, directly and indirectly.
struct Inclusion {
    /// A value of `include`, before the search for files.
    struct Pattern: Equatable, Sendable {
        let text: String
        let place: Place

        var isGlob: Bool { text.contains { "*?[".contains($0) } }
    }

    /// The maximum depth. A loop of links would have no end.
    static let deepest = 8
    static let mostFiles = 256
    /// The maximum size of all files together: four times the limit of one.
    private static let mostBytes = 4 * SourceGuard.largestFile

    /// The setting that names the files.
    static let key = "include"

    private let reading: Reading
    /// The files from the conf file to the one being read: their identities and paths.
    private var chain: [(identity: String, path: String)] = []
    /// The place where each file was first included.
    private var places: [String: Place] = [:]
    private var bytes = 0
    private var isWhole = true

    /// Reads everything as one mapping. Returns nil if a file cannot be read or is no mapping.
    static func root(_ reading: Reading) -> Item? {
        var inclusion = Inclusion(reading: reading)
        let path = reading.source.file
        let root = inclusion.item(of: reading.source, reading.library.identity(path) ?? path)
        return inclusion.isWhole ? root : nil
    }

    private init(reading: Reading) {
        self.reading = reading
    }

    private mutating func item(of source: SourceText, _ identity: String) -> Item? {
        guard let item = Document.root(reading, of: source) else { return nil }
        guard case .mapping(let entries) = item.content else {
            guard source.number > 0 else { return item }
            // The text is never quoted: a file included by mistake may be a password.
            let found = if case .sequence = item.content { "a list" } else { "text" }
            reading.refuse(item.place, "found \(found)", expected: "settings, as in a conf file")
            return nil
        }
        guard let include = entries.first(where: { $0.key == Self.key }) else { return item }
        guard !include.value.isNothing else {
            return refuse(include.keyPlace, "`\(include.key)` has no value", expected: Self.kind.expected)
        }
        guard let patterns = Self.kind.read(include.value, reading) else {
            isWhole = false
            return nil
        }
        chain.append((identity, source.file))
        var merge = SettingsMerge(entries.filter { $0.key != Self.key }, reading)
        for pattern in patterns {
            for path in files(for: pattern) {
                guard let part = read(path, for: pattern) else {
                    isWhole = false
                    continue
                }
                merge.add(part.entries)
            }
        }
        chain.removeLast()
        if !merge.isGood { isWhole = false }
        return Item(content: .mapping(merge.entries), place: item.place)
    }

    private mutating func files(for pattern: Pattern) -> [String] {
        let path = reading.resolve(path: pattern.text, at: pattern.place)
        guard pattern.isGlob else { return [path] }
        switch reading.library.matches(path) {
        case .success(let paths):
            // A directory may be empty, which must not prevent a start. The warning still reveals a misspelt pattern.
            if paths.isEmpty { reading.warn(pattern.place, "no file matches \(Printable.quoted(path))") }
            return paths
        case .failure(let reason):
            _ = refuse(pattern.place, "\(Printable.quoted(path)) cannot be searched: \(reason.text)")
            return []
        }
    }

    private mutating func read(_ path: String, for pattern: Pattern) -> Item? {
        let identity = reading.library.identity(path) ?? path
        if let start = chain.firstIndex(where: { $0.identity == identity }) {
            let loop = chain[start...].map(\.path) + [path]
            return refuse(
                pattern.place, "\(Printable.quoted(path)) includes itself: \(loop.joined(separator: " -> "))",
                expected: pattern.isGlob ? "a pattern that does not match this file" : "another file")
        }
        if let other = places[identity] {
            return refuse(
                pattern.place,
                "\(Printable.quoted(path)) is already included, \(reading.line(of: other, from: pattern.place))",
                expected: "each file once")
        }
        places[identity] = pattern.place
        guard chain.count <= Self.deepest else {
            return refuse(pattern.place, "files include each other more than \(Self.deepest) levels deep")
        }
        guard places.count <= Self.mostFiles else {
            return refuse(pattern.place, "more than \(Self.mostFiles) files are included")
        }
        switch reading.library.read(path, SourceGuard.largestFile + 1) {
        case .success(let text):
            bytes += text.count
            guard bytes <= Self.mostBytes else {
                return refuse(
                    pattern.place, "the files that are included have more than \(SizeText.format(Self.mostBytes))")
            }
            return reading.include(text, file: path).flatMap { item(of: $0, identity) }
        case .failure(let reason):
            return refuse(
                pattern.place, "the file \(Printable.quoted(path)) cannot be included: \(reason.text)",
                expected: "the path of a file relative to this one's directory, or a pattern such as conf.d/*.yaml")
        }
    }

    private mutating func refuse(_ place: Place, _ message: String, expected: String? = nil) -> Item? {
        reading.refuse(place, message, expected: expected)
        isWhole = false
        return nil
    }
}

extension Inclusion {
    static var kind: Kind<[Pattern]> {
        let expected = "the path of a file or a pattern of paths, such as conf.d/*.yaml, or a list of them"
        let one = Kind<Pattern>(expected: "a path or a pattern", shape: .text(pattern: nil)) {
            item, reading in
            guard let text = item.text, !text.isEmpty else {
                reading.refuse(item.place, "found \(item.summary)", expected: expected)
                return nil
            }
            return Pattern(text: text, place: item.place)
        }
        let several = Kind.list(of: one, minimum: 1) { _, _ in }
        return Kind(expected: expected, shape: .either([one.shape, several.shape])) { item, reading in
            if case .sequence = item.content { return several.read(item, reading) }
            return one.read(item, reading).map { [$0] }
        }
    }
}

/// Merges the settings of included files with those of the including file.
///
/// Operators divide lists and upstreams by service or team, so these are joined. Any other setting may occur in one
/// file only: of two values, the reader of either file would believe the wrong one.
private struct SettingsMerge {
    private(set) var entries: [Item.Entry]
    private(set) var isGood = true
    private let reading: Reading

    init(_ entries: [Item.Entry], _ reading: Reading) {
        self.entries = entries
        self.reading = reading
    }

    mutating func add(_ others: [Item.Entry]) {
        for entry in others {
            guard let index = entries.firstIndex(where: { $0.key == entry.key }) else {
                entries.append(entry)
                continue
            }
            if let value = joined(entries[index], entry) {
                entries[index] = Item.Entry(key: entry.key, keyPlace: entries[index].keyPlace, value: value)
            } else {
                isGood = false
            }
        }
    }

    /// Joins two values. Reports and returns nil if they cannot be joined.
    private func joined(_ first: Item.Entry, _ second: Item.Entry) -> Item? {
        switch reading.top.settings.first(where: { $0.name == second.key })?.shape {
        case .list(_, _, _, _): return joinedLists(first, second)
        case .named: return joinedNames(first, second)
        case .integer, .text, .choice, .version, .section, .either, nil:
            reading.refuse(
                second.keyPlace,
                "\(Printable.quoted(second.key)) is already set \(reading.line(of: first.keyPlace, from: second.keyPlace))",
                expected: "it in only one of the merged files")
            return nil
        }
    }

    private func joinedLists(_ first: Item.Entry, _ second: Item.Entry) -> Item? {
        var elements: [Item] = []
        for entry in [first, second] {
            guard case .sequence(let own) = entry.value.content else { return refuse(entry, expected: "a list") }
            elements += own
        }
        return Item(content: .sequence(elements), place: first.value.place)
    }

    private func joinedNames(_ first: Item.Entry, _ second: Item.Entry) -> Item? {
        var named: [Item.Entry] = []
        var isGood = true
        for entry in [first, second] {
            guard case .mapping(let own) = entry.value.content else { return refuse(entry, expected: "a mapping") }
            for name in own {
                guard let other = named.first(where: { $0.key == name.key }) else {
                    named.append(name)
                    continue
                }
                reading.refuse(
                    name.keyPlace,
                    "\(Printable.quoted(name.key)) is already in `\(second.key)` "
                        + reading.line(of: other.keyPlace, from: name.keyPlace),
                    expected: "another name")
                isGood = false
            }
        }
        return isGood ? Item(content: .mapping(named), place: first.value.place) : nil
    }

    private func refuse(_ entry: Item.Entry, expected: String) -> Item? {
        if case .refused = entry.value.content { return nil }
        reading.refuse(
            entry.value.isNothing ? entry.keyPlace : entry.value.place,
            entry.value.isNothing ? "`\(entry.key)` has no value" : "found \(entry.value.summary)", expected: expected)
        return nil
    }
}
