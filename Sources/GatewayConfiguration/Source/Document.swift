internal import Yams

/// The one place that knows the YAML parser. What comes out has no aliases, no tags, no merge keys and no key twice:
/// one file, one meaning, whichever parser somebody else reads it with.
struct Document {
    private let reading: Reading
    /// Everything composed stands here, when the text is not the conf file's own: a default.
    private let fixedPlace: Place?
    /// What is composed.
    private let source: SourceText
    /// The true names of keys that had to be masked, by where they stand.
    private var masked: [Position: String] = [:]

    private struct Position: Hashable {
        let line: Int
        let column: Int

        init(_ mark: Mark) {
            line = mark.line
            column = mark.column
        }
    }

    /// More repeated keys than this are not looked for: each costs parsing the file once more.
    private static let mostMasks = 16

    /// The root of the conf file, or of one that it includes; nothing when that was refused.
    static func root(_ reading: Reading, of source: SourceText) -> Item? {
        var document = Document(reading: reading, fixedPlace: nil, source: source)
        return document.compose()
    }

    /// A default, as it would be written in the conf file, as if it stood at `place`.
    static func standard(_ text: String, at place: Place, _ reading: Reading) -> Item? {
        let source = SourceText(file: reading.source.file, text: text)
        var document = Document(reading: reading, fixedPlace: place, source: source)
        return document.compose()
    }

    private init(reading: Reading, fixedPlace: Place?, source: SourceText) {
        self.source = source
        self.reading = reading
        self.fixedPlace = fixedPlace
    }
}

// MARK: Composing

extension Document {
    /// The parser gives up at the first mapping with a repeated key, and names the first of the two. So that key is
    /// masked by a scalar nobody uses and the file is parsed again: then the tree has both, and everything else too.
    private mutating func compose() -> Item? {
        var source = source
        while true {
            do {
                // The parser stays alive while the tree is looked at: nodes hold their anchors weakly.
                let parser = try Parser(yaml: source.text, resolver: .basic, encoding: .utf8)
                guard let root = try parser.singleRoot() else { return refuseEmpty() }
                let item = withExtendedLifetime(parser) { convert(root, depth: 0) }
                if let item, item.isNothing { return refuseEmpty() }
                return item
            } catch YamlError.duplicatedKeysInMapping(let keys, let context) {
                guard let next = mask(keys.first ?? "", at: context.mark, in: source) else {
                    reading.refuse(place(context.mark), "a key occurs twice in this mapping")
                    return nil
                }
                source = next
            } catch {
                YAMLSyntax.report(error, in: source, reading)
                return nil
            }
        }
    }

    private func refuseEmpty() -> Item? {
        // What is included may be commented out.
        if source.number > 0 { return Item(content: .mapping([]), place: source.place(line: 1, column: 1)) }
        reading.refuse(source.place(line: 1, column: 1), "the file is empty", expected: "settings")
        return nil
    }

    /// Nothing when masking does not help: a key that is an alias, or has no text.
    private mutating func mask(_ key: String, at mark: Mark, in source: SourceText) -> SourceText? {
        let position = Position(mark)
        guard masked[position] == nil, masked.count < Self.mostMasks, !key.isEmpty else { return nil }
        // The first scalar of the private use area; the count keeps three equal keys apart.
        guard let mask = Unicode.Scalar(0xE000 + UInt32(masked.count)) else { return nil }
        masked[position] = key
        let place = place(mark)
        let isQuoted = source.scalar(at: place).map { $0 == "\"" || $0 == "'" } ?? false
        return source.replacing(at: Place(line: place.line, column: place.column + (isQuoted ? 1 : 0)), by: mask)
    }

    private func place(_ mark: Mark?, length: Int = 1) -> Place {
        source.place(line: mark?.line ?? 1, column: mark?.column ?? 1, length: length)
    }
}

// MARK: Converting

extension Document {
    private func convert(_ node: Node, depth: Int) -> Item? {
        guard depth <= SourceGuard.deepestNesting else {
            reading.refuse(place(of: node), "this is nested more than \(SourceGuard.deepestNesting) levels deep")
            return nil
        }
        guard !refuseIndirection(node) else { return nil }
        switch node {
        case .scalar(let scalar): return convert(scalar, at: place(of: node))
        case .sequence(let sequence):
            let elements = sequence.map { convert($0, depth: depth + 1) ?? .refused(at: place(of: $0)) }
            return Item(content: .sequence(elements), place: place(of: node))
        case .mapping(let mapping):
            let entries = entries(of: mapping, depth: depth)
            return Item(content: .mapping(entries), place: fixedPlace ?? entries.first?.keyPlace ?? place(of: node))
        case .alias:
            reading.refuse(place(of: node), YAMLSyntax.aliasMessage, expected: YAMLSyntax.aliasExpected)
            return nil
        }
    }

    private func convert(_ scalar: Node.Scalar, at place: Place) -> Item? {
        guard !scalar.string.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else {
            reading.refuse(place, "a value must not contain line breaks, tabs or other control characters")
            return nil
        }
        return Item(content: .scalar(.init(text: scalar.string, isPlain: scalar.style == .plain)), place: place)
    }

    private func entries(of mapping: Node.Mapping, depth: Int) -> [Item.Entry] {
        var lines: [String: Int] = [:]
        var entries: [Item.Entry] = []
        for (key, value) in mapping {
            guard !refuseIndirection(key) else { continue }
            guard let scalar = key.scalar else {
                let isTemplate = reading.source(of: place(of: key)).line(place(of: key).line).contains("{{")
                reading.refuse(
                    place(of: key), "a key cannot be a list or a mapping",
                    expected: isTemplate
                        ? "the value: fill in the template (`{{` and `}}`) first" : "a name")
                continue
            }
            let place = place(of: key)
            let name = scalar.mark.flatMap { masked[Position($0)] } ?? scalar.string
            if name == "<<", scalar.style == .plain {
                reading.refuse(place, "merge keys are not supported", expected: "each setting where it applies")
            } else if let line = lines[name] {
                reading.refuse(
                    place, "duplicate key \(Printable.quoted(name)), first set on line \(line)",
                    expected:
                        "it once; if it belongs to another list entry, put `- ` before the first key of that entry")
            } else {
                lines[name] = place.line
                let item = convert(value, depth: depth + 1) ?? .refused(at: self.place(of: value))
                entries.append(Item.Entry(key: name, keyPlace: place, value: item))
            }
        }
        return entries
    }

    private func refuseIndirection(_ node: Node) -> Bool {
        if node.anchor != nil {
            reading.refuse(place(of: node), YAMLSyntax.aliasMessage, expected: YAMLSyntax.aliasExpected)
            return true
        }
        let tag =
            switch node {
            case .scalar(let scalar): scalar.tag
            case .sequence(let sequence): sequence.tag
            case .mapping(let mapping): mapping.tag
            case .alias(let alias): alias.tag
            }
        guard ["", "!", Tag.Name.str.rawValue, Tag.Name.seq.rawValue, Tag.Name.map.rawValue].contains(tag.rawValue)
        else {
            let isInclude = tag.rawValue == "!include"
            reading.refuse(
                place(of: node), "tags are not supported",
                expected: isInclude ? "`include: FILE` at the top of the file" : "the value without \(tag.rawValue)")
            return true
        }
        return false
    }

    private func place(of node: Node) -> Place {
        if let fixedPlace { return fixedPlace }
        guard case .scalar(let scalar) = node else { return place(node.mark) }
        let length = scalar.string.unicodeScalars.count
        switch scalar.style {
        case .plain: return place(scalar.mark, length: length)
        case .singleQuoted, .doubleQuoted: return place(scalar.mark, length: length + 2)
        case .any, .literal, .folded: return place(scalar.mark)
        }
    }
}

/// A piece of the conf file before it has a meaning: what the YAML says, and where.
struct Item {
    enum Content {
        case scalar(Scalar)
        case sequence([Item])
        case mapping([Entry])
        /// Reported already; whatever reads it stays silent.
        case refused
    }

    struct Scalar {
        let text: String
        /// Neither quoted nor a block of text. Only a plain scalar can be a number.
        let isPlain: Bool
    }

    struct Entry {
        let key: String
        let keyPlace: Place
        let value: Item
    }

    let content: Content
    let place: Place

    /// `key:` with nothing behind it.
    var isNothing: Bool {
        if case .scalar(let scalar) = content { scalar.isPlain && scalar.text.isEmpty } else { false }
    }

    /// What it is, for "found ...".
    var summary: String {
        switch content {
        case .scalar(let scalar): isNothing ? "nothing" : Printable.quoted(scalar.text)
        case .sequence: "a list"
        case .mapping: "a mapping"
        case .refused: "something refused"
        }
    }

    /// The text of a scalar that says something.
    var text: String? {
        if case .scalar(let scalar) = content, !isNothing { scalar.text } else { nil }
    }

    var elements: [Item] {
        if case .sequence(let elements) = content { elements } else { [] }
    }

    var entries: [Entry] {
        if case .mapping(let entries) = content { entries } else { [] }
    }

    subscript(key: String) -> Item? {
        entries.first { $0.key == key }?.value
    }

    /// Where the value of a key stands, or the whole if the key is missing.
    func place(of key: String) -> Place { self[key]?.place ?? place }
}

extension Item {
    /// Stands for a value that has been refused already, so that its key does not count as missing.
    static func refused(at place: Place) -> Item { Item(content: .refused, place: place) }
}
