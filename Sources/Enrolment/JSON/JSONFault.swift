/// Why bytes are not the JSON this module reads.
public enum JSONFault: Error, Equatable, Sendable, CaseIterable {
    case tooLong
    /// The text is not UTF-8 (RFC 8259 section 8.1).
    case notUTF8
    /// Not the grammar of RFC 8259; a byte order mark or an escaped half of a surrogate pair among it.
    case malformed
    /// Bytes follow the value.
    case trailingBytes
    /// An object has the same name twice, however it is spelled.
    case duplicateName
    /// Objects and arrays in each other, deeper than `JSONReader.depthLimit`.
    case tooDeep
    /// An object or array has more in it than `JSONReader.countLimit`.
    case tooMany
    /// JSON, but no object.
    case notAnObject
}

extension JSONFault {
    /// For the log, and for the developer of the client.
    public var reason: StaticString {
        switch self {
        case .tooLong: "the JSON text is too long"
        case .notUTF8: "the JSON text is not UTF-8"
        case .malformed: "the text is not JSON"
        case .trailingBytes: "bytes follow the JSON value"
        case .duplicateName: "a JSON object has the same name twice"
        case .tooDeep: "the JSON value is nested too deeply"
        case .tooMany: "a JSON object or array has too many members"
        case .notAnObject: "the JSON value is not an object"
        }
    }
}
