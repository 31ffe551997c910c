/// Joins the settings of files that are included with those of the file that includes them.
///
/// Lists and upstreams are what operators divide by service or team, so these are joined. Anything else stands in one of the
/// files: of two answers to one question the reader of either file would believe the wrong one.
struct SettingsMerge {
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

    /// Nothing when they cannot be joined; that has been reported.
    private func joined(_ first: Item.Entry, _ second: Item.Entry) -> Item? {
        switch Configuration.Keys.section.settings.first(where: { $0.name == second.key })?.shape {
        case .list(_, _, _, _): return joinedLists(first, second)
        case .named(_, _): return joinedNames(first, second)
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
