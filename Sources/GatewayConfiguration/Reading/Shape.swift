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
