/// What stands between two separators of a structured field (RFC 8941 section 3.3). Ranges are of the parsed bytes.
package enum BareItem: Equatable, Sendable {
    /// At most 15 digits, so between -999,999,999,999,999 and 999,999,999,999,999.
    case integer(Int64)
    /// The whole number, sign included.
    case decimal(Range<Int>)
    /// What stands between the quotes, escapes as they are.
    case string(Range<Int>)
    case token(Range<Int>)
    /// What stands between the colons. Only its alphabet has been looked at.
    case byteSequence(Range<Int>)
    case boolean(Bool)
}

/// A pull parser for dictionaries (RFC 8941 section 4.2.2) over the combined bytes of all lines of one field.
///
/// It walks forward once, keeps nothing and never calls itself: members hold items or inner lists, inner lists hold
/// items, both have parameters, and nothing nests deeper. Dates and display strings (RFC 9651) are refused, because no
/// field of a proof has them.
///
/// Order of calls: `nextMember`, `memberValue`, after an inner list `nextInnerItem` until nil, and `nextParameter` until
/// nil after every item and every inner list.
package struct FieldParser: ~Escapable {
    /// More than any honest proof needs; what exceeds one is refused before it costs anything.
    package enum Limit {
        /// Bytes of a field, all its lines together.
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
        /// The parser stands behind the opening parenthesis.
        case innerList
    }

    private let bytes: Span<UInt8>
    /// Where the parser stands.
    package private(set) var position = 0
    private var members = 0
    private var items = 0
    private var parameters = 0

    @_lifetime(copy bytes)
    package init(_ bytes: Span<UInt8>) throws(Malformation) {
        guard bytes.count <= Limit.bytes else { throw .tooLong }
        self.bytes = bytes
    }

    /// - Returns: where the next member's key stands; nil at the end of the field.
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

    /// - Returns: nil behind the closing parenthesis.
    package mutating func nextInnerItem() throws(Malformation) -> BareItem? {
        let before = position
        skipSpaces()
        parameters = 0
        if take(FieldByte.close) { return nil }
        // Items are parted by at least one space (RFC 8941 section 4.2.1.2).
        guard items == 0 || position > before else { throw .syntax }
        guard items < Limit.items else { throw .tooMany }
        items += 1
        return try bareItem()
    }

    /// - Returns: nil where no parameter follows.
    package mutating func nextParameter() throws(Malformation) -> (key: Range<Int>, value: BareItem)? {
        guard take(FieldByte.semicolon) else { return nil }
        guard parameters < Limit.parameters else { throw .tooMany }
        parameters += 1
        skipSpaces()
        let key = try key()
        return (key, take(FieldByte.equals) ? try bareItem() : .boolean(true))
    }

    /// Walks over the rest of a member that means nothing here, parameters included.
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

    /// RFC 8941 section 4.2.4.
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

    /// RFC 8941 section 4.2.5.
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
            // A backslash, or an octet that no string has.
            guard bytes[end] == FieldByte.backslash, end + 1 < bytes.count else { throw .syntax }
            guard bytes[end + 1] == FieldByte.quote || bytes[end + 1] == FieldByte.backslash else { throw .syntax }
            end += 2
        }
    }

    /// RFC 8941 section 4.2.6.
    private mutating func token() -> Range<Int> {
        let start = position
        while position < bytes.count, isTokenByte(bytes[position]) { position += 1 }
        return start..<position
    }

    private func isTokenByte(_ byte: UInt8) -> Bool {
        FieldByte.isTokenCharacter(byte) || byte == FieldByte.colon || byte == UInt8(ascii: "/")
    }

    /// RFC 8941 section 4.2.7.
    private mutating func byteSequence() throws(Malformation) -> Range<Int> {
        let start = position + 1
        let end = bytes.firstMarked(from: start) { $0.marksInByteSequence }
        guard end < bytes.count, bytes[end] == FieldByte.colon else { throw .syntax }
        position = end + 1
        return start..<end
    }

    /// RFC 8941 section 4.2.8.
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

// Octets eight at a time: a proof's fields are text of some hundred octets, and each is gone over for what must not be in it.

/// Eight octets, the first in the lowest bits. Marks are words too: the high bit of each octet that is meant, and no other.
struct FieldWord {
    /// The octets without their high bits, so that no sum below carries into the next one.
    private let low: UInt64
    private let beyondASCII: UInt64

    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080

    init(_ octets: UInt64) {
        low = octets & ~Self.highs
        beyondASCII = octets & Self.highs
    }

    /// Marks octets from the one to the other, of ASCII.
    private static func within(_ low: UInt64, _ first: UInt8, _ last: UInt8) -> UInt64 {
        (low &+ ones &* UInt64(0x80 - first)) & ~(low &+ ones &* UInt64(0x7f - last)) & highs
    }

    private func within(_ first: UInt8, _ last: UInt8) -> UInt64 { Self.within(low, first, last) }
    private func are(_ byte: UInt8) -> UInt64 { within(byte, byte) }

    /// Marks what ends a stretch of a string or has to be looked at there: quotes, backslashes, and what is not printable.
    var marksInString: UInt64 {
        beyondASCII | ~within(0x20, 0x7e) & Self.highs | are(FieldByte.quote) | are(FieldByte.backslash)
    }

    /// Marks what cannot stand in a byte sequence (RFC 8941 section 3.3.5).
    var marksInByteSequence: UInt64 {
        let letters = Self.within(low | Self.ones &* 0x20, UInt8(ascii: "a"), UInt8(ascii: "z"))
        // "/" stands before "0".
        let others = within(UInt8(ascii: "/"), UInt8(ascii: "9")) | are(UInt8(ascii: "+")) | are(FieldByte.equals)
        return beyondASCII | ~(letters | others) & Self.highs
    }

    /// Marks what no derived component holds: all but visible octets.
    var marksInDerived: UInt64 { beyondASCII | ~within(0x21, 0x7e) & Self.highs }

    /// Marks what a signature base cannot hold of a field's value: all but printable octets and tabs.
    var marksInValue: UInt64 {
        beyondASCII | ~(within(0x20, 0x7e) | are(FieldByte.tab)) & Self.highs
    }
}

extension Span where Element == UInt8 {
    /// The first marked octet from `start` on; `count` if there is none.
    @inline(__always)
    func firstMarked(from start: Int, _ marks: (FieldWord) -> UInt64) -> Int {
        var position = start
        while position + 8 <= count {
            let found = marks(FieldWord(word(at: position)))
            if found != 0 { return position + found.trailingZeroBitCount / 8 }
            position += 8
        }
        // The rest in the low octets of one more; what lies above it is no octet.
        var rest: UInt64 = 0
        for index in (position..<count).reversed() { rest = rest << 8 | UInt64(self[index]) }
        return Swift.min(count, position + marks(FieldWord(rest)).trailingZeroBitCount / 8)
    }

    /// Eight octets, the first in the lowest bits. One load: the compiler sees that each of them is there.
    @inline(__always)
    private func word(at position: Int) -> UInt64 {
        let bytes = extracting(position..<(position + 8))
        let low =
            UInt64(bytes[0]) | UInt64(bytes[1]) << 8 | UInt64(bytes[2]) << 16 | UInt64(bytes[3]) << 24
        let high =
            UInt64(bytes[4]) << 32 | UInt64(bytes[5]) << 40 | UInt64(bytes[6]) << 48 | UInt64(bytes[7]) << 56
        return low | high
    }

    /// Whether the bytes are exactly those.
    func isSame(as other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        var position = 0
        while position + 8 <= count {
            guard word(at: position) == other.word(at: position) else { return false }
            position += 8
        }
        while position < count {
            guard self[position] == other[position] else { return false }
            position += 1
        }
        return true
    }

    func isSame(as other: [UInt8]) -> Bool { isSame(as: other.span) }
}

extension [UInt8] {
    mutating func append(_ bytes: Span<UInt8>) {
        // Room first, then the bytes: an array that grows octet by octet looks each time whether it may.
        append(addingCapacity: bytes.count) { room in
            for index in bytes.indices { room.append(bytes[index]) }
        }
    }

    /// Puts the bytes in the place of others.
    mutating func write(_ bytes: Span<UInt8>, at start: Int) {
        var room = mutableSpan
        for index in bytes.indices { room[start + index] = bytes[index] }
    }

    /// A copy of the bytes.
    init(_ bytes: Span<UInt8>) {
        self.init()
        reserveCapacity(bytes.count)
        append(bytes)
    }
}
