/// A strict reader of small JSON texts, for which each text has one meaning or none.
///
/// It is own code, because anyone can send it input. Foundation's decoder accepts encodings other than UTF-8, silently
/// keeps one of several equal names, and limits neither depth nor count.
package struct JSONReader {
    /// Limit of nested objects and arrays, where the caller sets no other.
    package static let depthLimit = 8
    /// Limit of an object's members and an array's elements, where the caller sets no other.
    package static let countLimit = 64

    private let text: [UInt8]
    private let countLimit: Int
    private let depthLimit: Int
    private var position = 0

    /// Parses a text that is one object.
    ///
    /// - Parameters:
    ///   - longest: Length limit of the text in bytes.
    ///   - most: Limit of an object's members and an array's elements.
    ///   - deepest: Limit of nested objects and arrays.
    package static func object(
        in text: [UInt8], longest: Int, most: Int = countLimit, deepest: Int = depthLimit
    ) throws(JSONFault) -> JSONObject {
        guard text.count <= longest else { throw .tooLong }
        guard text.span.isUTF8 else { throw .notUTF8 }
        var reader = JSONReader(text: text, countLimit: most, depthLimit: deepest)
        reader.skipSpace()
        let value = try reader.value(depth: 0)
        reader.skipSpace()
        guard reader.position == text.count else { throw .trailingBytes }
        guard case .object(let object) = value else { throw .notAnObject }
        return object
    }

    private init(text: [UInt8], countLimit: Int, depthLimit: Int) {
        self.text = text
        self.countLimit = countLimit
        self.depthLimit = depthLimit
    }

    private var next: UInt8? { position < text.count ? text[position] : nil }

    private mutating func skipSpace() {
        while let next, next == 0x20 || next == 0x09 || next == 0x0a || next == 0x0d { position += 1 }
    }

    /// Reads the next byte if it is `byte`.
    ///
    /// - Returns: whether it was read.
    private mutating func skip(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        position += 1
        return true
    }

    private mutating func value(depth: Int) throws(JSONFault) -> JSONValue {
        switch next {
        case UInt8(ascii: "{"): return .object(try object(depth: depth + 1))
        case UInt8(ascii: "["): return .array(try array(depth: depth + 1))
        case UInt8(ascii: "\""): return .text(try string())
        case UInt8(ascii: "t"): return try literal("true", .boolean(true))
        case UInt8(ascii: "f"): return try literal("false", .boolean(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        default: return try number()
        }
    }

    private mutating func literal(_ name: String, _ value: JSONValue) throws(JSONFault) -> JSONValue {
        for byte in name.utf8 {
            guard skip(byte) else { throw .malformed }
        }
        return value
    }

    private mutating func object(depth: Int) throws(JSONFault) -> JSONObject {
        guard depth <= depthLimit else { throw .tooDeep }
        position += 1  // the brace
        var members: [JSONObject.Member] = []
        var names: Set<[UInt8]> = []
        skipSpace()
        if skip(UInt8(ascii: "}")) { return JSONObject(members: members) }
        while true {
            guard members.count < countLimit else { throw .tooMany }
            guard next == UInt8(ascii: "\"") else { throw .malformed }
            let name = try string()
            skipSpace()
            guard skip(UInt8(ascii: ":")) else { throw .malformed }
            skipSpace()
            let value = try value(depth: depth)
            guard names.insert(name).inserted else { throw .duplicateName }
            members.append(JSONObject.Member(name: name, value: value))
            skipSpace()
            if skip(UInt8(ascii: "}")) { return JSONObject(members: members) }
            guard skip(UInt8(ascii: ",")) else { throw .malformed }
            skipSpace()
        }
    }

    private mutating func array(depth: Int) throws(JSONFault) -> [JSONValue] {
        guard depth <= depthLimit else { throw .tooDeep }
        position += 1  // the bracket
        var elements: [JSONValue] = []
        skipSpace()
        if skip(UInt8(ascii: "]")) { return elements }
        while true {
            guard elements.count < countLimit else { throw .tooMany }
            elements.append(try value(depth: depth))
            skipSpace()
            if skip(UInt8(ascii: "]")) { return elements }
            guard skip(UInt8(ascii: ",")) else { throw .malformed }
            skipSpace()
        }
    }

    /// Parses a number (RFC 8259 section 6).
    private mutating func number() throws(JSONFault) -> JSONValue {
        let start = position
        _ = skip(UInt8(ascii: "-"))
        if !skip(UInt8(ascii: "0")) { try digits() }
        let end = position
        if skip(UInt8(ascii: ".")) { try digits() }
        if skip(UInt8(ascii: "e")) || skip(UInt8(ascii: "E")) {
            if !skip(UInt8(ascii: "+")) { _ = skip(UInt8(ascii: "-")) }
            try digits()
        }
        guard end == position, let integer = Int64(String(decoding: text[start..<end], as: UTF8.self)) else {
            return .number
        }
        return .integer(integer)
    }

    /// Reads one or more digits.
    private mutating func digits() throws(JSONFault) {
        let start = position
        while let next, (0x30...0x39).contains(next) { position += 1 }
        guard position > start else { throw .malformed }
    }

    /// Parses a string (RFC 8259 section 7).
    private mutating func string() throws(JSONFault) -> [UInt8] {
        position += 1  // the quote
        var bytes: [UInt8] = []
        while let byte = next {
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return bytes
            case UInt8(ascii: "\\"): try escape(appendingTo: &bytes)
            case ..<0x20: throw .malformed
            default: bytes.append(byte)
            }
        }
        throw .malformed
    }

    private mutating func escape(appendingTo bytes: inout [UInt8]) throws(JSONFault) {
        guard let byte = next else { throw .malformed }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): bytes.append(byte)
        case UInt8(ascii: "b"): bytes.append(0x08)
        case UInt8(ascii: "f"): bytes.append(0x0c)
        case UInt8(ascii: "n"): bytes.append(0x0a)
        case UInt8(ascii: "r"): bytes.append(0x0d)
        case UInt8(ascii: "t"): bytes.append(0x09)
        case UInt8(ascii: "u"): bytes += String(try scalar()).utf8
        default: throw .malformed
        }
    }

    /// Returns the code point of one `\u` escape, or of the two escapes of a surrogate pair.
    private mutating func scalar() throws(JSONFault) -> Unicode.Scalar {
        let first = try codeUnit()
        guard (0xd800..<0xdc00).contains(first) else {
            guard let scalar = Unicode.Scalar(first) else { throw .malformed }
            return scalar
        }
        guard skip(UInt8(ascii: "\\")), skip(UInt8(ascii: "u")) else { throw .malformed }
        let second = try codeUnit()
        guard (0xdc00..<0xe000).contains(second),
            let scalar = Unicode.Scalar(0x1_0000 + (first - 0xd800) << 10 + (second - 0xdc00))
        else { throw .malformed }
        return scalar
    }

    private mutating func codeUnit() throws(JSONFault) -> UInt32 {
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = next, let digit = Hexadecimal.value(byte) else { throw .malformed }
            position += 1
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }
}

/// A JSON value (RFC 8259).
///
/// Text is UTF-8 instead of `String`, because Swift's strings are equal if they look alike (the Kelvin sign is a K).
/// Identifiers, URLs and algorithm names need exact comparison.
package enum JSONValue: Equatable, Sendable {
    case object(JSONObject)
    case array([JSONValue])
    /// UTF-8 with escapes replaced.
    case text([UInt8])
    /// A number without fraction and exponent that fits.
    case integer(Int64)
    /// Any other number. It is never needed, so its value is not kept.
    case number
    case boolean(Bool)
    case null

    package var object: JSONObject? { if case .object(let object) = self { object } else { nil } }
    package var text: [UInt8]? { if case .text(let text) = self { text } else { nil } }
    package var integer: Int64? { if case .integer(let integer) = self { integer } else { nil } }
    package var boolean: Bool? { if case .boolean(let boolean) = self { boolean } else { nil } }

    /// Returns whether the value is exactly this text, byte by byte.
    package func spells(_ text: String) -> Bool {
        self.text.map { $0.elementsEqual(text.utf8) } ?? false
    }
}

/// A JSON object with unique names.
package struct JSONObject: Equatable, Sendable {
    package struct Member: Equatable, Sendable {
        /// UTF-8 with escapes replaced.
        package let name: [UInt8]
        package let value: JSONValue
    }

    /// The members in the order of the text.
    package let members: [Member]

    package subscript(_ name: String) -> JSONValue? {
        members.first { $0.name.elementsEqual(name.utf8) }?.value
    }

    /// Returns whether every name is one of these.
    package func hasOnly(_ names: [String]) -> Bool {
        members.allSatisfy { member in names.contains { member.name.elementsEqual($0.utf8) } }
    }
}

/// The reason why bytes are not JSON that the reader accepts.
public enum JSONFault: Error, Equatable, Sendable, CaseIterable {
    case tooLong
    /// The text is not UTF-8 (RFC 8259 section 8.1).
    case notUTF8
    /// The text violates the grammar of RFC 8259. A byte order mark and half of a surrogate pair also count.
    case malformed
    /// Bytes follow the value.
    case trailingBytes
    /// An object has the same name twice, perhaps with different escapes.
    case duplicateName
    /// Objects and arrays are nested deeper than the reader's limit.
    case tooDeep
    /// An object or array has more entries than the reader's limit.
    case tooMany
    /// The text is JSON, but not an object.
    case notAnObject
}

extension JSONFault {
    /// A description for the log and the developer of the client.
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
