internal import Cryptography

/// Reads CBOR (RFC 8949) item by item, strictly, without building a tree: strings come out as ranges of the input.
///
/// It admits what App Attest uses and no second spelling of it: integers, byte and text strings, arrays, maps, `false`,
/// `true` and `null`; definite lengths only; every head in its shortest form (RFC 8949 section 4.2.1; all of Apple's are);
/// UTF-8; keys that are text or integers, each once. Whatever it refuses, it refuses with a `CBORFault`, and no input
/// makes it trap: a length is compared with what is left before it is used. Size is for the caller to bound.
///
/// After a fault the reader must not be used again.
public struct CBORReader: ~Escapable {
    /// How deep maps and arrays may lie in each other. Attestation objects reach three.
    public static let depthLimit = 8

    private let bytes: Span<UInt8>
    private let end: Int
    /// Where the next item begins.
    public private(set) var position: Int

    /// Reads a stretch of `bytes`. Ranges count from the beginning of `bytes`, not of the stretch.
    ///
    /// - Parameter range: must lie within `bytes`.
    @_lifetime(copy bytes)
    public init(_ bytes: Span<UInt8>, in range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= bytes.count, "a range outside the bytes")
        self.bytes = bytes
        position = range.lowerBound
        end = range.upperBound
    }

    /// Reads `bytes` from the first to the last.
    @_lifetime(copy bytes)
    public init(_ bytes: Span<UInt8>) {
        self.init(bytes, in: 0..<bytes.count)
    }

    public var isAtEnd: Bool { position == end }

    /// Makes sure that nothing follows.
    public func finish() throws(CBORFault) {
        guard isAtEnd else { throw .trailingBytes }
    }

    // MARK: - Items

    /// What kind of item comes next. Moves nothing.
    public func peek() throws(CBORFault) -> CBORKind {
        guard position < end else { throw .truncated }
        return try CBORKind(initial: bytes[position])
    }

    /// A byte string (major type 2): where its content lies.
    public mutating func readBytes() throws(CBORFault) -> Range<Int> {
        try readString(.bytes)
    }

    /// A text string (major type 3): where its UTF-8 lies.
    public mutating func readText() throws(CBORFault) -> Range<Int> {
        let range = try readString(.text)
        guard isUTF8(range) else { throw .textNotUTF8 }
        return range
    }

    /// An integer (major types 0 and 1).
    public mutating func readInteger() throws(CBORFault) -> Int64 {
        let kind = try peek()
        guard kind == .unsigned || kind == .negative else { throw .unexpectedType }
        guard let value = Int64(exactly: try readArgument()) else { throw .integerTooLarge }
        // -1 - value, without overflow: the complement.
        return kind == .unsigned ? value : ~value
    }

    /// Begins an array (major type 4): how many items to read next.
    public mutating func beginArray() throws(CBORFault) -> Int {
        guard try peek() == .array else { throw .unexpectedType }
        return try readCount(bytesPerEntry: 1)
    }

    /// Begins a map (major type 5): ask `nextKey` for its keys, and read or skip one item after each.
    public mutating func beginMap() throws(CBORFault) -> CBORMap {
        guard try peek() == .map else { throw .unexpectedType }
        let entries = try readCount(bytesPerEntry: 2)
        guard entries <= CBORMap.capacity else { throw .tooManyEntries }
        return CBORMap(entries: entries)
    }

    /// The map's next key, or nil at its end.
    public mutating func nextKey(_ map: inout CBORMap) throws(CBORFault) -> CBORKey? {
        guard map.remaining > 0 else { return nil }
        let start = position
        let key: CBORKey
        switch try peek() {
        case .text: key = .text(try readText())
        case .unsigned, .negative: key = .integer(try readInteger())
        default: throw .unsupportedKey
        }
        try map.note(start..<position, in: bytes)
        return key
    }

    /// Reads over one item, whatever it is, with everything in it, as strictly as if it were read.
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
        case .simple: position += 1
        }
    }

    // MARK: - Heads

    private mutating func readString(_ kind: CBORKind) throws(CBORFault) -> Range<Int> {
        guard try peek() == kind else { throw .unexpectedType }
        let length = try readArgument()
        guard length <= UInt64(end - position) else { throw .truncated }
        let start = position
        position += Int(length)
        return start..<position
    }

    /// A count of entries, none of which can be shorter than so many bytes: a claim of more than the input can hold is
    /// found out before anything is done about it.
    private mutating func readCount(bytesPerEntry: UInt64) throws(CBORFault) -> Int {
        let count = try readArgument()
        guard count <= UInt64(end - position) / bytesPerEntry else { throw .truncated }
        return Int(count)
    }

    /// The argument of a head (RFC 8949 section 3), of any major type but 7.
    private mutating func readArgument() throws(CBORFault) -> UInt64 {
        // `peek` saw that the initial byte is there, and that its additional information is not above 27.
        let information = bytes[position] & 0x1f
        guard information >= 24 else {
            position += 1
            return UInt64(information)
        }
        let width = 1 << Int(information - 24)
        guard width < end - position else { throw .truncated }
        var argument: UInt64 = 0
        for offset in 1...width { argument = argument << 8 | UInt64(bytes[position + offset]) }
        // What is below this bound fits in the next shorter form.
        let bound: UInt64 = width == 1 ? 24 : 1 << UInt64(width * 4)
        guard argument >= bound else { throw .notShortest }
        position += 1 + width
        return argument
    }

    private func isUTF8(_ range: Range<Int>) -> Bool {
        do {
            _ = try UTF8Span(validating: bytes.extracting(range))
            return true
        } catch {
            return false
        }
    }
}

/// The kinds of item this module reads.
public enum CBORKind: Equatable, Sendable {
    case unsigned
    case negative
    case bytes
    case text
    case array
    case map
    /// `false`, `true` or `null`: nothing of Apple's has one, but an extension to come might, and skipping it is harmless.
    case simple

    /// What an item that begins with this byte is (RFC 8949 section 3: three bits of major type, five of additional
    /// information), or why it is refused.
    init(initial: UInt8) throws(CBORFault) {
        let information = initial & 0x1f
        // Reserved in every major type.
        guard !(28...30).contains(information) else { throw .reservedHead }
        if information == 31 {
            // Integers and tags have no indefinite form (RFC 8949 section 3.2); of major type 7 it is the break.
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

/// How far the reading of one map has come.
///
/// Remembers where its keys lie, so that every map is free of duplicates, whatever its reader knows of it: two readers
/// that pick different ones of two equal keys are how forged content passes a check.
public struct CBORMap: Sendable {
    /// The most entries a map may have: as many as `keys` has room for. Apple's largest map, the COSE key, has five.
    public static let capacity = 32

    /// How many entries have not been read.
    public private(set) var remaining: Int
    private var count = 0
    /// Where the encoded keys lie that were read so far: the first `count` of `capacity`.
    private var keys = InlineArray<32, Range<Int>>(repeating: 0..<0)

    init(entries: Int) {
        remaining = entries
    }

    /// Notes the key whose encoding lies in `range`.
    ///
    /// Equal keys have equal encodings, because only the shortest encoding is admitted.
    mutating func note(_ range: Range<Int>, in bytes: Span<UInt8>) throws(CBORFault) {
        for index in 0..<count {
            guard !ConstantTime.areEqual(bytes.extracting(keys[index]), bytes.extracting(range)) else {
                throw .duplicateKey
            }
        }
        keys[count] = range
        count += 1
        remaining -= 1
    }
}

/// A map's key.
public enum CBORKey: Equatable, Sendable {
    /// Where the text lies, without its head.
    case text(Range<Int>)
    case integer(Int64)
}

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

extension Span where Element == UInt8 {
    /// Whether the bytes are the UTF-8 of `text`.
    ///
    /// - Parameter text: a literal; those are neither allocated nor counted, so asking costs a comparison and no more.
    func spells(_ text: String) -> Bool {
        let text = text.utf8
        return ConstantTime.areEqual(self, text.span)
    }
}
