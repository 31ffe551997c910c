internal import Encoding

/// An item between two separators of a structured field (RFC 8941 section 3.3). Ranges refer to the parsed bytes.
package enum BareItem: Equatable, Sendable {
    /// An integer of at most 15 digits: -999,999,999,999,999 to 999,999,999,999,999.
    case integer(Int64)
    /// The whole number, including its sign.
    case decimal(Range<Int>)
    /// The content between the quotes, with its escapes.
    case string(Range<Int>)
    case token(Range<Int>)
    /// The content between the colons. Only its alphabet was checked.
    case byteSequence(Range<Int>)
    case boolean(Bool)
}

/// A pull parser for dictionaries (RFC 8941 section 4.2.2) over the combined bytes of all lines of one field.
///
/// It advances once, stores nothing and never recurses. Members contain items or inner lists, inner lists contain
/// items, and both have parameters. Dates and display strings (RFC 9651) are refused, because no field of a proof uses
/// them.
///
/// Order of calls: `nextMember`, then `memberValue`. After an inner list, call `nextInnerItem` until nil. After every
/// item and every inner list, call `nextParameter` until nil.
package struct FieldParser: ~Escapable {
    /// Limits above what a valid proof needs. More is refused before it costs anything.
    package enum Limit {
        /// Bytes of a field with all its lines.
        package static let bytes = 16_384
        package static let members = 16
        /// Items of one inner list.
        package static let items = 64
        /// Parameters of one item or inner list.
        package static let parameters = 16
        /// Bytes of a key.
        package static let key = 64
    }

    package enum MemberValue: Equatable, Sendable {
        /// No value, which means true.
        case flag
        case item(BareItem)
        /// An inner list. The parser is positioned after the opening parenthesis.
        case innerList
    }

    private let bytes: Span<UInt8>
    /// The position of the next byte to parse.
    package private(set) var position = 0
    private var members = 0
    private var items = 0
    private var parameters = 0

    @_lifetime(copy bytes)
    package init(_ bytes: Span<UInt8>) throws(Malformation) {
        guard bytes.count <= Limit.bytes else { throw .tooLong }
        self.bytes = bytes
    }

    /// Parses the next member's key.
    ///
    /// - Returns: the position of the key, or nil at the end of the field.
    package mutating func nextMember() throws(Malformation) -> Range<Int>? {
        if members == 0 {
            skipSpaces()
            guard position < bytes.count else { return nil }
        } else {
            skipBlanks()
            guard position < bytes.count else { return nil }
            guard take(FieldByte.comma) else { throw .syntax }
            skipBlanks()
            guard position < bytes.count else { throw .syntax }
        }
        guard members < Limit.members else { throw .tooMany }
        members += 1
        return try key()
    }

    package mutating func memberValue() throws(Malformation) -> MemberValue {
        parameters = 0
        guard take(FieldByte.equals) else { return .flag }
        guard take(FieldByte.open) else { return .item(try bareItem()) }
        items = 0
        return .innerList
    }

    /// Parses the next item of an inner list.
    ///
    /// - Returns: nil after the closing parenthesis.
    package mutating func nextInnerItem() throws(Malformation) -> BareItem? {
        let before = position
        skipSpaces()
        parameters = 0
        if take(FieldByte.close) { return nil }
        // At least one space separates items (RFC 8941 section 4.2.1.2).
        guard items == 0 || position > before else { throw .syntax }
        guard items < Limit.items else { throw .tooMany }
        items += 1
        return try bareItem()
    }

    /// Parses the next parameter.
    ///
    /// - Returns: nil if no parameter follows.
    package mutating func nextParameter() throws(Malformation) -> (key: Range<Int>, value: BareItem)? {
        guard take(FieldByte.semicolon) else { return nil }
        guard parameters < Limit.parameters else { throw .tooMany }
        parameters += 1
        skipSpaces()
        let key = try key()
        return (key, take(FieldByte.equals) ? try bareItem() : .boolean(true))
    }

    /// Skips the rest of a member, including its parameters.
    package mutating func skip(_ value: MemberValue) throws(Malformation) {
        if value == .innerList {
            while try nextInnerItem() != nil {
                while try nextParameter() != nil {}
            }
        }
        while try nextParameter() != nil {}
    }

    private mutating func key() throws(Malformation) -> Range<Int> {
        let start = position
        guard position < bytes.count, FieldByte.startsKey(bytes[position]) else { throw .syntax }
        while position < bytes.count, FieldByte.continuesKey(bytes[position]) { position += 1 }
        guard position - start <= Limit.key else { throw .tooLong }
        return start..<position
    }

    private mutating func bareItem() throws(Malformation) -> BareItem {
        guard position < bytes.count else { throw .syntax }
        switch bytes[position] {
        case FieldByte.quote: return .string(try string())
        case FieldByte.colon: return .byteSequence(try byteSequence())
        case FieldByte.minus: return try number()
        case UInt8(ascii: "?"): return .boolean(try boolean())
        case let byte where FieldByte.isDigit(byte): return try number()
        case let byte where FieldByte.isAlphabetic(byte) || byte == UInt8(ascii: "*"): return .token(token())
        // "@" and "%" begin a date and a display string (RFC 9651 sections 3.3.7 and 3.3.8).
        default: throw .syntax
        }
    }

    /// Parses a number (RFC 8941 section 4.2.4).
    private mutating func number() throws(Malformation) -> BareItem {
        let start = position
        let isNegative = take(FieldByte.minus)
        var value: Int64 = 0
        let firstDigit = position
        while position < bytes.count, FieldByte.isDigit(bytes[position]) {
            guard position - firstDigit < 15 else { throw .numberTooLong }
            value = value * 10 + Int64(bytes[position] - 0x30)
            position += 1
        }
        guard position > firstDigit else { throw .syntax }
        guard position < bytes.count, bytes[position] == FieldByte.dot else {
            return .integer(isNegative ? -value : value)
        }
        guard position - firstDigit <= 12 else { throw .numberTooLong }
        position += 1
        let firstFraction = position
        while position < bytes.count, FieldByte.isDigit(bytes[position]) {
            guard position - firstFraction < 3 else { throw .numberTooLong }
            position += 1
        }
        guard position > firstFraction else { throw .syntax }
        return .decimal(start..<position)
    }

    /// Parses a string (RFC 8941 section 4.2.5).
    private mutating func string() throws(Malformation) -> Range<Int> {
        let start = position + 1
        var end = start
        while true {
            end = bytes.firstMarked(from: end) { $0.marksInString }
            guard end < bytes.count else { throw .syntax }
            if bytes[end] == FieldByte.quote {
                position = end + 1
                return start..<end
            }
            // A backslash, or a byte that no string contains.
            guard bytes[end] == FieldByte.backslash, end + 1 < bytes.count else { throw .syntax }
            guard bytes[end + 1] == FieldByte.quote || bytes[end + 1] == FieldByte.backslash else { throw .syntax }
            end += 2
        }
    }

    /// Parses a token (RFC 8941 section 4.2.6).
    private mutating func token() -> Range<Int> {
        let start = position
        while position < bytes.count, isTokenByte(bytes[position]) { position += 1 }
        return start..<position
    }

    private func isTokenByte(_ byte: UInt8) -> Bool {
        FieldByte.isTokenCharacter(byte) || byte == FieldByte.colon || byte == UInt8(ascii: "/")
    }

    /// Parses a byte sequence (RFC 8941 section 4.2.7).
    private mutating func byteSequence() throws(Malformation) -> Range<Int> {
        let start = position + 1
        let end = bytes.firstMarked(from: start) { $0.marksInByteSequence }
        guard end < bytes.count, bytes[end] == FieldByte.colon else { throw .syntax }
        position = end + 1
        return start..<end
    }

    /// Parses a boolean (RFC 8941 section 4.2.8).
    private mutating func boolean() throws(Malformation) -> Bool {
        position += 1
        if take(UInt8(ascii: "1")) { return true }
        guard take(UInt8(ascii: "0")) else { throw .syntax }
        return false
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    private mutating func skipSpaces() {
        while position < bytes.count, bytes[position] == FieldByte.space { position += 1 }
    }

    private mutating func skipBlanks() {
        while position < bytes.count, FieldByte.isBlank(bytes[position]) { position += 1 }
    }
}

// Eight bytes at a time: the fields of a proof have hundreds of bytes, and each is checked for forbidden ones.

/// A word of eight bytes, the first in the lowest bits. A mark is also a word, with the high bit set in each byte that
/// matches.
struct FieldWord {
    /// The bytes without their high bits, so that no sum below carries into the next byte.
    private let low: UInt64
    private let beyondASCII: UInt64

    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080

    init(_ octets: UInt64) {
        low = octets & ~Self.highs
        beyondASCII = octets & Self.highs
    }

    /// Marks ASCII bytes between two values, both included.
    private static func within(_ low: UInt64, _ first: UInt8, _ last: UInt8) -> UInt64 {
        (low &+ ones &* UInt64(0x80 - first)) & ~(low &+ ones &* UInt64(0x7f - last)) & highs
    }

    private func within(_ first: UInt8, _ last: UInt8) -> UInt64 { Self.within(low, first, last) }
    private func are(_ byte: UInt8) -> UInt64 { within(byte, byte) }

    /// Marks bytes that need attention in a string: quotes, backslashes and those that are not printable.
    var marksInString: UInt64 {
        beyondASCII | ~within(0x20, 0x7e) & Self.highs | are(FieldByte.quote) | are(FieldByte.backslash)
    }

    /// Marks bytes that a byte sequence cannot contain (RFC 8941 section 3.3.5).
    var marksInByteSequence: UInt64 {
        let letters = Self.within(low | Self.ones &* 0x20, UInt8(ascii: "a"), UInt8(ascii: "z"))
        // "/" precedes "0".
        let others = within(UInt8(ascii: "/"), UInt8(ascii: "9")) | are(UInt8(ascii: "+")) | are(FieldByte.equals)
        return beyondASCII | ~(letters | others) & Self.highs
    }

    /// Marks bytes that no derived component contains: all that are not visible.
    var marksInDerived: UInt64 { beyondASCII | ~within(0x21, 0x7e) & Self.highs }

    /// Marks bytes that a field's value in a signature base cannot contain: all except printable ones and tabs.
    var marksInValue: UInt64 {
        beyondASCII | ~(within(0x20, 0x7e) | are(FieldByte.tab)) & Self.highs
    }
}

extension Span where Element == UInt8 {
    /// Returns the position of the first marked byte from `start` on, or `count` if there is none.
    @inline(__always)
    func firstMarked(from start: Int, _ marks: (FieldWord) -> UInt64) -> Int {
        var position = start
        while position + 8 <= count {
            let found = marks(FieldWord(word(at: position)))
            if found != 0 { return position + found.trailingZeroBitCount / 8 }
            position += 8
        }
        // One more word with the remaining bytes at its low end. The bytes above them do not count.
        var rest: UInt64 = 0
        for index in (position..<count).reversed() { rest = rest << 8 | UInt64(self[index]) }
        return Swift.min(count, position + marks(FieldWord(rest)).trailingZeroBitCount / 8)
    }

    func isSame(as other: [UInt8]) -> Bool { isSame(as: other.span) }
}

extension OutputSpan<UInt8> {
    mutating func append(_ bytes: Span<UInt8>) {
        for index in bytes.indices { append(bytes[index]) }
    }
}

extension [UInt8] {
    mutating func append(_ bytes: Span<UInt8>) {
        // The capacity is reserved first, because an array that grows by single bytes checks its capacity each time.
        append(addingCapacity: bytes.count) { room in room.append(bytes) }
    }

    /// A copy of the bytes.
    init(_ bytes: Span<UInt8>) {
        self.init()
        reserveCapacity(bytes.count)
        append(bytes)
    }
}
