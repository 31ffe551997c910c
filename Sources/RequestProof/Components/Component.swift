/// A part of a request that a proof covers (RFC 9421 section 2): one of four derived components, or a field.
///
/// Other derived components are refused: `@target-uri`, `@scheme` and `@request-target` say nothing that these four do
/// not, and whatever has two names can be checked under the wrong one.
public enum Component: Hashable, Sendable {
    /// RFC 9421 section 2.2.1.
    case method
    /// RFC 9421 section 2.2.3.
    case authority
    /// RFC 9421 section 2.2.6.
    case path
    /// RFC 9421 section 2.2.7.
    case query
    /// All values of a field together (RFC 9421 section 2.1).
    case field(FieldComponent)

    /// The name as it stands in a signature base, without quotes.
    public var name: [UInt8] {
        switch self {
        case .method: KnownComponent.method.name
        case .authority: KnownComponent.authority.name
        case .path: KnownComponent.path.name
        case .query: KnownComponent.query.name
        case .field(let field): field.name
        }
    }
}

extension Component: CustomStringConvertible {
    public var description: String { String(decoding: name, as: UTF8.self) }
}

/// The name of a field as a component: a token (RFC 9110 section 5.1) in lower case.
public struct FieldComponent: Hashable, Sendable {
    /// The name in lower case, 1 to 256 bytes.
    public let name: [UInt8]

    static let lengthLimit = 256

    /// - Parameter name: a field name in any case; nil if it is none.
    public init?(_ name: String) {
        self.init(Array(name.utf8).span)
    }

    public init?(_ name: Span<UInt8>) {
        var lowercase: [UInt8] = []
        for index in name.indices { lowercase.append(FieldByte.lowercased(name[index])) }
        guard Self.isName(lowercase.span) else { return nil }
        self.name = lowercase
    }

    init(known: KnownComponent) {
        name = known.name
    }

    /// Whether the bytes are a field name in lower case. Upper case is a second spelling (RFC 9421 section 2.1).
    static func isName(_ name: Span<UInt8>) -> Bool {
        guard name.count > 0, name.count <= lengthLimit else { return false }
        for index in name.indices {
            let byte = name[index]
            guard FieldByte.isTokenCharacter(byte), !(0x41...0x5a).contains(byte) else { return false }
        }
        return true
    }
}

extension FieldComponent: CustomStringConvertible {
    /// The name, in lower case.
    public var description: String { String(decoding: name, as: UTF8.self) }
}
