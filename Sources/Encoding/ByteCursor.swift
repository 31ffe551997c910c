/// A position in a part of some bytes, which only advances over bytes that exist.
struct ByteCursor: ~Escapable {
    let bytes: Span<UInt8>
    private let end: Int
    private(set) var position: Int

    /// Creates a cursor at the beginning of a part of `bytes`. Positions count from the beginning of `bytes`.
    @_lifetime(copy bytes)
    init(_ bytes: Span<UInt8>, in range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= bytes.count, "a range outside the bytes")
        self.bytes = bytes
        position = range.lowerBound
        end = range.upperBound
    }

    var isAtEnd: Bool { position == end }
    var remaining: Int { end - position }

    /// The next byte, without advancing. Nil at the end.
    var next: UInt8? { position < end ? bytes[position] : nil }

    /// Returns the next byte, or nil at the end.
    @inline(__always)
    mutating func readByte() -> UInt8? {
        guard position < end else { return nil }
        defer { position += 1 }
        return bytes[position]
    }

    /// Returns the next bytes as an unsigned number in big-endian order, or nil if there are not so many.
    ///
    /// - Parameter width: 1 to 8.
    @inline(__always)
    mutating func readNumber(_ width: Int) -> UInt64? {
        guard width <= remaining else { return nil }
        var number: UInt64 = 0
        for index in position..<(position + width) { number = number << 8 | UInt64(bytes[index]) }
        position += width
        return number
    }

    /// Returns the position of the next bytes, or nil if there are not so many.
    @inline(__always)
    mutating func skip(_ count: UInt64) -> Range<Int>? {
        guard count <= UInt64(remaining) else { return nil }
        let start = position
        position += Int(count)
        return start..<position
    }
}

extension Span where Element == UInt8 {
    /// Whether the bytes are UTF-8 (RFC 3629 section 4). The standard library's own checks need iOS 18 or later.
    var isUTF8: Bool { isASCII || isWellFormed }

    private var isASCII: Bool {
        let highs: UInt64 = 0x8080_8080_8080_8080
        var position = 0
        while position + 8 <= count {
            guard word(at: position) & highs == 0 else { return false }
            position += 8
        }
        if count >= 8 { return word(at: count - 8) & highs == 0 }
        while position < count {
            guard self[position] < 0x80 else { return false }
            position += 1
        }
        return true
    }

    private var isWellFormed: Bool {
        var position = 0
        while position < count {
            let first = self[position]
            position += 1
            if first < 0x80 { continue }
            // The number of bytes that follow, and what the first of them may be.
            let (length, second): (Int, ClosedRange<UInt8>)
            switch first {
            case 0xc2...0xdf: (length, second) = (1, 0x80...0xbf)
            case 0xe0: (length, second) = (2, 0xa0...0xbf)
            case 0xed: (length, second) = (2, 0x80...0x9f)
            case 0xe1...0xef: (length, second) = (2, 0x80...0xbf)
            case 0xf0: (length, second) = (3, 0x90...0xbf)
            case 0xf1...0xf3: (length, second) = (3, 0x80...0xbf)
            case 0xf4: (length, second) = (3, 0x80...0x8f)
            default: return false
            }
            guard length <= count - position, second.contains(self[position]) else { return false }
            for index in (position + 1)..<(position + length) where self[index] & 0xc0 != 0x80 { return false }
            position += length
        }
        return true
    }

    /// Returns eight bytes, the first in the lowest bits. It is one load, because the compiler sees that all exist.
    @inlinable
    @inline(__always)
    package func word(at position: Int) -> UInt64 {
        let bytes = extracting(position..<(position + 8))
        let low =
            UInt64(bytes[0]) | UInt64(bytes[1]) << 8 | UInt64(bytes[2]) << 16 | UInt64(bytes[3]) << 24
        let high =
            UInt64(bytes[4]) << 32 | UInt64(bytes[5]) << 40 | UInt64(bytes[6]) << 48 | UInt64(bytes[7]) << 56
        return low | high
    }

    /// Returns whether the bytes are equal.
    @inlinable
    package func isSame(as other: Span<UInt8>) -> Bool {
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
}
