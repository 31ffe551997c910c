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
