/// A value of JSON.
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
