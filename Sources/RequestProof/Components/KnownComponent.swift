/// The components whose coverage is a rule of the protocol. Found by name without a table: their lengths differ.
enum KnownComponent: UInt8, CaseIterable, Sendable {
    // In the order in which a missing one is named.
    case method, authority, path, query
    case contentDigest, authorization, contentType, contentEncoding

    var name: [UInt8] { Self.names[Int(rawValue)] }

    private static let names = [
        "@method", "@authority", "@path", "@query",
        "content-digest", "authorization", "content-type", "content-encoding",
    ].map { Array($0.utf8) }

    /// - Parameter name: any name; nil for every other.
    static func find(_ name: Span<UInt8>) -> KnownComponent? {
        let candidate: KnownComponent
        switch name.count {
        case 5: candidate = .path
        case 6: candidate = .query
        case 7: candidate = .method
        case 10: candidate = .authority
        case 12: candidate = .contentType
        case 13: candidate = .authorization
        case 14: candidate = .contentDigest
        case 16: candidate = .contentEncoding
        default: return nil
        }
        return name.isSame(as: candidate.name) ? candidate : nil
    }

    var component: Component {
        switch self {
        case .method: .method
        case .authority: .authority
        case .path: .path
        case .query: .query
        case .contentDigest, .authorization, .contentType, .contentEncoding: .field(FieldComponent(known: self))
        }
    }
}

/// A set of known components, in one byte.
struct KnownComponents: OptionSet, Hashable, Sendable {
    let rawValue: UInt8

    init(rawValue: UInt8) { self.rawValue = rawValue }
    init(_ component: KnownComponent) { rawValue = 1 << component.rawValue }

    static let target: KnownComponents = [
        KnownComponents(.method), KnownComponents(.authority), KnownComponents(.path), KnownComponents(.query),
    ]

    /// The first in order, nil if the set is empty.
    var first: KnownComponent? { KnownComponent(rawValue: UInt8(rawValue.trailingZeroBitCount)) }
}
