/// Why bytes are not the CBOR this module reads.
public enum CBORFault: Error, Equatable, Sendable, CaseIterable {
    /// The bytes end inside an item, or an item claims more than there is.
    case truncated
    /// Bytes follow the one item that was expected.
    case trailingBytes
    /// Additional information 28 to 30, or 31 where it means nothing (RFC 8949 section 3).
    case reservedHead
    /// An indefinite length, or the break that would end one (RFC 8949 section 3.2).
    case indefiniteLength
    /// An integer or a length written in more bytes than it needs (RFC 8949 section 4.2.1).
    case notShortest
    /// A tag, a floating-point number, `undefined` or an unassigned simple value: nothing this format has.
    case unsupportedType
    /// A well-formed item, but not of the kind that stands here.
    case unexpectedType
    /// An integer that does not fit in 64 bits with its sign.
    case integerTooLarge
    /// Text that is not UTF-8 (RFC 8949 section 3.1).
    case textNotUTF8
    /// A map with the same key twice (RFC 8949 section 5.6).
    case duplicateKey
    /// A map key that is neither text nor an integer.
    case unsupportedKey
    /// A map with more entries than any of Apple's, see `CBORMap.capacity`.
    case tooManyEntries
    /// Maps and arrays in each other, deeper than `CBORReader.depthLimit`.
    case tooDeep
}

extension CBORFault {
    /// For the log, and for the developer of the client.
    public var reason: StaticString {
        switch self {
        case .truncated: "the CBOR ends inside an item"
        case .trailingBytes: "bytes follow the CBOR item"
        case .reservedHead: "a CBOR head uses reserved additional information"
        case .indefiniteLength: "a CBOR item has an indefinite length"
        case .notShortest: "a CBOR integer or length is not in its shortest form"
        case .unsupportedType: "a CBOR tag, floating-point number or simple value is not allowed"
        case .unexpectedType: "a CBOR item has an unexpected type"
        case .integerTooLarge: "a CBOR integer does not fit in 64 bits"
        case .textNotUTF8: "a CBOR text is not UTF-8"
        case .duplicateKey: "a CBOR map has a duplicate key"
        case .unsupportedKey: "a CBOR map key is neither text nor an integer"
        case .tooManyEntries: "a CBOR map has too many entries"
        case .tooDeep: "CBOR maps and arrays are nested too deeply"
        }
    }
}
