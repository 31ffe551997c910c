/// A strict CBOR reader (RFC 8949) that parses item by item without a tree. Strings are returned as ranges of the
/// input.
///
/// It accepts only what App Attest uses, in its shortest form (RFC 8949 section 4.2.1). These are integers, byte and
/// text strings, arrays, maps, `false`, `true` and `null` of definite length. Text is UTF-8. Keys are text or integers
/// and unique.
///
/// It refuses everything else with a `CBORFault`. No input makes it trap: each length is compared with the remaining
/// bytes before use. The caller limits the size. After a fault the reader must not be used again.
public struct CBORReader: ~Escapable {
    /// Limit of nested maps and arrays. Attestation objects reach three.
    public static let depthLimit = 8

    private var cursor: ByteCursor

    /// Creates a reader.
    ///
    /// - Parameter range: The part of `bytes` to read; nil for all. Positions count from the beginning of `bytes`.
    @_lifetime(copy bytes)
    public init(_ bytes: Span<UInt8>, in range: Range<Int>? = nil) {
        cursor = ByteCursor(bytes, in: range ?? 0..<bytes.count)
    }

    /// The position of the next item.
    public var position: Int { cursor.position }
    public var isAtEnd: Bool { cursor.isAtEnd }

    /// Checks that nothing follows.
    public func finish() throws(CBORFault) {
        guard isAtEnd else { throw .trailingBytes }
    }

    // MARK: - Items

    /// Returns the kind of the next item without advancing.
    public func peek() throws(CBORFault) -> CBORKind {
        guard let initial = cursor.next else { throw .truncated }
        return try CBORKind(initial: initial)
    }

    /// Reads a byte string (major type 2) and returns the position of its content.
    public mutating func readBytes() throws(CBORFault) -> Range<Int> {
        try readString(.bytes)
    }

    /// Reads a text string (major type 3) and returns the position of its UTF-8.
    public mutating func readText() throws(CBORFault) -> Range<Int> {
        let range = try readString(.text)
        guard cursor.bytes.extracting(range).isUTF8 else { throw .textNotUTF8 }
        return range
    }

    /// Reads an integer (major types 0 and 1).
    public mutating func readInteger() throws(CBORFault) -> Int64 {
        let kind = try peek()
        guard kind == .unsigned || kind == .negative else { throw .unexpectedType }
        guard let value = Int64(exactly: try readArgument()) else { throw .integerTooLarge }
        // The complement is -1 - value without overflow.
        return kind == .unsigned ? value : ~value
    }

    /// Begins an array (major type 4) and returns the number of items to read next.
    public mutating func beginArray() throws(CBORFault) -> Int {
        guard try peek() == .array else { throw .unexpectedType }
        return try readCount(bytesPerEntry: 1)
    }

    /// Begins a map (major type 5). Get its keys with `nextKey`, and read or skip one item after each.
    public mutating func beginMap() throws(CBORFault) -> CBORMap {
        guard try peek() == .map else { throw .unexpectedType }
        let entries = try readCount(bytesPerEntry: 2)
        guard entries <= CBORMap.capacity else { throw .tooManyEntries }
        return CBORMap(entries: entries)
    }

    /// Returns the map's next key, or nil at its end.
    public mutating func nextKey(_ map: inout CBORMap) throws(CBORFault) -> CBORKey? {
        guard map.remaining > 0 else { return nil }
        let start = position
        let key: CBORKey
        switch try peek() {
        case .text: key = .text(try readText())
        case .unsigned, .negative: key = .integer(try readInteger())
        default: throw .unsupportedKey
        }
        try map.note(start..<position, in: cursor.bytes)
        return key
    }

    /// Skips one item with its content, which is validated as if it were read.
    public mutating func skip() throws(CBORFault) {
        try skip(depth: 0)
    }

    private mutating func skip(depth: Int) throws(CBORFault) {
        guard depth < Self.depthLimit else { throw .tooDeep }
        switch try peek() {
        case .unsigned, .negative: _ = try readArgument()
        case .bytes: _ = try readBytes()
        case .text: _ = try readText()
        case .array:
            for _ in 0..<(try beginArray()) { try skip(depth: depth + 1) }
        case .map:
            var map = try beginMap()
            while try nextKey(&map) != nil { try skip(depth: depth + 1) }
        case .simple: _ = cursor.readByte()
        }
    }

    // MARK: - Heads

    private mutating func readString(_ kind: CBORKind) throws(CBORFault) -> Range<Int> {
        guard try peek() == kind else { throw .unexpectedType }
        guard let content = cursor.skip(try readArgument()) else { throw .truncated }
        return content
    }

    /// Reads a number of entries. A number is refused if the remaining input cannot hold that many entries of minimum
    /// size.
    private mutating func readCount(bytesPerEntry: UInt64) throws(CBORFault) -> Int {
        let count = try readArgument()
        guard count <= UInt64(cursor.remaining) / bytesPerEntry else { throw .truncated }
        return Int(count)
    }

    /// Reads the argument of a head (RFC 8949 section 3) of any major type but 7.
    private mutating func readArgument() throws(CBORFault) -> UInt64 {
        guard let initial = cursor.readByte() else { throw .truncated }
        let information = initial & 0x1f
        guard information >= 24 else { return UInt64(information) }
        // `peek` checked that the information is at most 27.
        let width = 1 << Int(information - 24)
        guard let argument = cursor.readNumber(width) else { throw .truncated }
        // A smaller argument fits in the next shorter form.
        let bound: UInt64 = width == 1 ? 24 : 1 << UInt64(width * 4)
        guard argument >= bound else { throw .notShortest }
        return argument
    }
}

/// The kinds of items that the reader supports.
public enum CBORKind: Equatable, Sendable {
    case unsigned
    case negative
    case bytes
    case text
    case array
    case map
    /// `false`, `true` or `null`. Apple uses none, but a future extension might, and skipping it is harmless.
    case simple

    /// Determines the kind from an item's initial byte (RFC 8949 section 3): three bits of major type, five of
    /// additional information.
    init(initial: UInt8) throws(CBORFault) {
        let information = initial & 0x1f
        // These values are reserved in every major type.
        guard !(28...30).contains(information) else { throw .reservedHead }
        if information == 31 {
            // Integers and tags have no indefinite form (RFC 8949 section 3.2). In major type 7 the value is the break.
            switch initial >> 5 {
            case 0, 1, 6: throw .reservedHead
            default: throw .indefiniteLength
            }
        }
        switch initial >> 5 {
        case 0: self = .unsigned
        case 1: self = .negative
        case 2: self = .bytes
        case 3: self = .text
        case 4: self = .array
        case 5: self = .map
        case 7 where (20...22).contains(information): self = .simple
        default: throw .unsupportedType
        }
    }
}

/// The state of reading one map.
///
/// It records the positions of all keys, to refuse duplicates in every map. Two readers that select different ones of
/// two equal keys would let forged content pass a check.
public struct CBORMap: Sendable {
    /// Limit of a map's entries, the size of `keys`. Apple's largest map, the COSE key, has five.
    public static let capacity = 32

    /// The number of entries that have not been read.
    public private(set) var remaining: Int
    private var count = 0
    /// Where the encodings of the keys begin that were read: the first `count` of `capacity`. A vector, because arrays
    /// of fixed size need iOS 26.
    private var keys = SIMD32<UInt32>()

    init(entries: Int) {
        remaining = entries
    }

    /// Records the key whose encoding is at `range`.
    ///
    /// Equal keys have equal encodings, because only the shortest encoding is accepted. No encoding is the beginning of
    /// another.
    mutating func note(_ range: Range<Int>, in bytes: Span<UInt8>) throws(CBORFault) {
        let key = bytes.extracting(range)
        for index in 0..<count {
            let start = Int(keys[index & 31])
            guard !key.isSame(as: bytes.extracting(start..<(start + key.count))) else { throw .duplicateKey }
        }
        keys[count & 31] = UInt32(range.lowerBound)
        count += 1
        remaining -= 1
    }
}

/// A map's key.
public enum CBORKey: Equatable, Sendable {
    /// The position of the text without its head.
    case text(Range<Int>)
    case integer(Int64)
}

/// The reason why bytes are not CBOR that the reader accepts.
public enum CBORFault: Error, Equatable, Sendable, CaseIterable {
    /// The bytes end inside an item, or an item states more than the remaining bytes.
    case truncated
    /// Bytes follow the one item that was expected.
    case trailingBytes
    /// Additional information 28 to 30, or 31 where it has no meaning (RFC 8949 section 3).
    case reservedHead
    /// An indefinite length or its break (RFC 8949 section 3.2).
    case indefiniteLength
    /// An integer or a length written in more bytes than it needs (RFC 8949 section 4.2.1).
    case notShortest
    /// A tag, a floating-point number, `undefined` or an unassigned simple value, none of which the format uses.
    case unsupportedType
    /// A well-formed item of another kind than required.
    case unexpectedType
    /// An integer that does not fit in 64 bits with its sign.
    case integerTooLarge
    /// Text that is not UTF-8 (RFC 8949 section 3.1).
    case textNotUTF8
    /// A map with the same key twice (RFC 8949 section 5.6).
    case duplicateKey
    /// A map key that is neither text nor an integer.
    case unsupportedKey
    /// A map with more entries than `CBORMap.capacity`.
    case tooManyEntries
    /// Maps and arrays nested deeper than `CBORReader.depthLimit`.
    case tooDeep
}

extension CBORFault {
    /// A description for the log and the developer of the client.
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

/// A CBOR writer (RFC 8949), with definite lengths in their shortest form.
package enum CBORWriter {
    /// Encodes a head.
    ///
    /// - Parameters:
    ///   - majorType: 0 to 6.
    ///   - argument: A value, length or count. It takes its shortest form.
    package static func head(_ majorType: UInt8, _ argument: UInt64) -> [UInt8] {
        let width =
            switch argument {
            case ..<24: 0
            case ..<0x100: 1
            case ..<0x1_0000: 2
            case ..<0x1_0000_0000: 4
            default: 8
            }
        guard width > 0 else { return [majorType << 5 | UInt8(argument)] }
        let information = 24 + UInt8(width.trailingZeroBitCount)
        return [majorType << 5 | information]
            + (1...width).map { UInt8(truncatingIfNeeded: argument >> UInt64(8 * (width - $0))) }
    }

    package static func bytes(_ bytes: [UInt8]) -> [UInt8] { head(2, UInt64(bytes.count)) + bytes }

    package static func text(_ text: String) -> [UInt8] { head(3, UInt64(text.utf8.count)) + text.utf8 }

    /// Encodes an array.
    ///
    /// - Parameter elements: Encoded elements.
    package static func array(_ elements: [[UInt8]]) -> [UInt8] {
        head(4, UInt64(elements.count)) + elements.flatMap(\.self)
    }

    /// Encodes a map.
    ///
    /// - Parameter entries: Names with encoded values.
    package static func map(_ entries: [(String, [UInt8])]) -> [UInt8] {
        head(5, UInt64(entries.count)) + entries.flatMap { text($0.0) + $0.1 }
    }
}
