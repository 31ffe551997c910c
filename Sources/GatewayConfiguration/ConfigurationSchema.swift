/// The JSON Schema (2020-12) of the conf file, for editors.
///
/// It comes from the tables that the reader uses, so an editor completes exactly the settings that the gateway accepts.
/// Relations between settings, files and certificates are left to `attestgate check`.
public enum ConfigurationSchema {
    /// Returns the schema.
    ///
    /// - Parameter isPart: whether the schema is for an included file, in which required settings may be missing.
    public static func schema(ofPart isPart: Bool = false) -> SchemaValue {
        let top = Configuration.section
        var members = members(of: top)
        let required = members.removeValue(forKey: "required")
        if !isPart, let required {
            // An included file may contain the required settings.
            members["if"] = .object([
                "not": .object(["required": .list([.text(Inclusion.key)])])
            ])
            members["then"] = .object(["required": required])
        }
        members["$schema"] = "https://json-schema.org/draft/2020-12/schema"
        members["title"] = .text(
            isPart ? "A part of an AttestGate configuration file" : "An AttestGate configuration file")
        members["$defs"] = .object(
            Dictionary(
                uniqueKeysWithValues: Configuration.sections.filter { $0.path != top.path }.map {
                    ($0.path, .object(Self.members(of: $0)))
                }))
        return .object(members)
    }

    private static func members(of section: Section) -> [String: SchemaValue] {
        var members: [String: SchemaValue] = [
            "type": "object", "additionalProperties": .flag(false),
            "properties": .object(
                Dictionary(uniqueKeysWithValues: section.settings.map { ($0.name, value(of: $0)) })),
        ]
        let required = section.settings.filter { $0.absence == .refused }.map { SchemaValue.text($0.name) }
        if !required.isEmpty { members["required"] = .list(required) }
        return members
    }

    private static func value(of setting: SettingDeclaration) -> SchemaValue {
        var members = members(of: setting.shape)
        let unit = setting.unit.map { " (\($0))" } ?? ""
        members["description"] = .text("\(setting.summary)\nExpected: \(setting.type)\(unit).")
        if case .means(let text) = setting.absence, let standard = standard(text, setting.shape) {
            members["default"] = standard
        }
        return .object(members)
    }

    private static func members(of shape: Shape) -> [String: SchemaValue] {
        switch shape {
        case .integer(let range):
            var members: [String: SchemaValue] = ["type": "integer", "minimum": .integer(range.lowerBound)]
            if range.upperBound != .max { members["maximum"] = .integer(range.upperBound) }
            return members
        case .text(let pattern):
            var members: [String: SchemaValue] = ["type": "string", "minLength": .integer(1)]
            if let pattern { members["pattern"] = .text(pattern) }
            return members
        case .version: return ["type": .list(["string", "number"])]
        case .choice(let names): return ["enum": .list(names.map { .text($0) })]
        case .list(let element, let minimum, let maximum, let isDistinct):
            var members: [String: SchemaValue] = ["type": "array", "items": .object(members(of: element))]
            if minimum > 0 { members["minItems"] = .integer(minimum) }
            if maximum != .max { members["maxItems"] = .integer(maximum) }
            if isDistinct { members["uniqueItems"] = .flag(true) }
            return members
        case .section(let section): return ["$ref": .text("#/$defs/\(section.path)")]
        case .named(let section, let pattern, let minimum):
            return [
                "type": "object", "minProperties": .integer(minimum), "additionalProperties": .flag(false),
                "patternProperties": .object([pattern: .object(members(of: .section(section)))]),
            ]
        case .either(let shapes): return ["anyOf": .list(shapes.map { .object(members(of: $0)) })]
        }
    }

    /// Returns a default as JSON, from its notation in the conf file.
    private static func standard(_ text: String, _ shape: Shape) -> SchemaValue? {
        let reading = Reading(
            source: SourceText(file: "", text: text), files: .unquestioned, top: Configuration.section)
        return Document.standard(text, at: Place(line: 1, column: 1), reading).map { value(of: $0, shape) }
    }

    private static func value(of item: Item, _ shape: Shape) -> SchemaValue {
        switch item.content {
        case .scalar(let scalar):
            guard shape.admitsNumber, scalar.isPlain, let number = Decimal.parse(scalar.text[...]) else {
                return .text(scalar.text)
            }
            return .integer(number)
        case .sequence(let items):
            guard case .list(let element, _, _, _) = shape else { preconditionFailure("a list for what is none") }
            return .list(items.map { value(of: $0, element) })
        case .mapping(let entries):
            precondition(entries.isEmpty, "sections that are missing have no settings of their own")
            return .object([:])
        case .refused: preconditionFailure("a default that cannot be read")
        }
    }
}

/// A JSON value.
public indirect enum SchemaValue: Equatable, Sendable, Encodable {
    case text(String)
    case integer(Int)
    case flag(Bool)
    case list([SchemaValue])
    case object([String: SchemaValue])

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .text(let text): try container.encode(text)
        case .integer(let number): try container.encode(number)
        case .flag(let flag): try container.encode(flag)
        case .list(let values): try container.encode(values)
        case .object(let members): try container.encode(members)
        }
    }
}

extension SchemaValue: ExpressibleByStringLiteral {
    public init(stringLiteral text: String) { self = .text(text) }
}
