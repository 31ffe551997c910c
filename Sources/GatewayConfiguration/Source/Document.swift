internal import Yams

/// The conversion of YAML into items, and the only user of the YAML parser.
///
/// Items have no aliases, no tags, no merge keys and no duplicate keys. So every parser reads the same meaning.
struct Document {
    private let reading: Reading
    /// The place of all items if the text is a default instead of a file.
    private let fixedPlace: Place?
    /// The text to parse.
    private let source: SourceText
    /// The original names of masked keys, by their position.
    private var masked: [Position: String] = [:]

    private struct Position: Hashable {
        let line: Int
        let column: Int

        init(_ mark: Mark) {
            line = mark.line
            column = mark.column
        }
    }

    /// The maximum number of masked keys. Each costs parsing the file again.
    private static let mostMasks = 16

    /// Parses the conf file or an included file. Returns nil after a refusal.
    static func root(_ reading: Reading, of source: SourceText) -> Item? {
        var document = Document(reading: reading, fixedPlace: nil, source: source)
        return document.compose()
    }

    /// Parses a default in the notation of the conf file, as if it stood at `place`.
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
    /// Parses the text and converts it.
    ///
    /// The parser stops at the first mapping with a duplicate key, and names the first of the two. That key is masked
    /// by an unused scalar and the text is parsed again, so that the tree has both keys and everything else.
    private mutating func compose() -> Item? {
        var source = source
        while true {
            do {
                // Nodes hold their anchors weakly, so the parser must outlive the conversion.
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
        // The whole text of an included file may be commented out.
        if source.number > 0 { return Item(content: .mapping([]), place: source.place(line: 1, column: 1)) }
        reading.refuse(source.place(line: 1, column: 1), "the file is empty", expected: "settings")
        return nil
    }

    /// Masks a key. Returns nil where masking does not help: for an alias or a key without text.
    private mutating func mask(_ key: String, at mark: Mark, in source: SourceText) -> SourceText? {
        let position = Position(mark)
        guard masked[position] == nil, masked.count < Self.mostMasks, !key.isEmpty else { return nil }
        // A scalar of the private use area; the count distinguishes three equal keys.
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

/// A node of the conf file before its interpretation: the YAML content and its place.
struct Item {
    enum Content {
        case scalar(Scalar)
        case sequence([Item])
        case mapping([Entry])
        /// A value that has been reported already. Readers stay silent about it.
        case refused
    }

    struct Scalar {
        let text: String
        /// Whether the text is neither quoted nor a block. Only a plain scalar can be a number.
        let isPlain: Bool
    }

    struct Entry {
        let key: String
        let keyPlace: Place
        let value: Item
    }

    let content: Content
    let place: Place

    /// Whether the value is `key:` followed by nothing.
    var isNothing: Bool {
        if case .scalar(let scalar) = content { scalar.isPlain && scalar.text.isEmpty } else { false }
    }

    /// The kind of the item, in words that follow "found".
    var summary: String {
        switch content {
        case .scalar(let scalar): isNothing ? "nothing" : Printable.quoted(scalar.text)
        case .sequence: "a list"
        case .mapping: "a mapping"
        case .refused: "something refused"
        }
    }

    /// The text of a scalar that is not empty.
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

    /// Returns the place of a key's value, or of the whole item if the key is missing.
    func place(of key: String) -> Place { self[key]?.place ?? place }
}

extension Item {
    /// Returns the item for a value that has been refused. Its key does not count as missing.
    static func refused(at place: Place) -> Item { Item(content: .refused, place: place) }
}
