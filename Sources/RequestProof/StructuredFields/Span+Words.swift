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
