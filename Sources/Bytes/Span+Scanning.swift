internal import Glibc

extension Span where Element == UInt8 {
    /// Returns the index of the first ASCII control character (below 0x20, or 0x7f) from `start` on, or `count` if
    /// there is none.
    ///
    /// It reads eight bytes at a time: messages are mostly text, and each is searched for forbidden characters. In long
    /// texts it reads four times as many with one branch.
    public func firstControl(from start: Int) -> Int {
        precondition(start >= 0 && start <= count, "scanned from outside")
        let near = min(start &+ 64, count)
        var position = start
        let isFound = withUnsafeBufferPointer { bytes in
            let raw = UnsafeRawBufferPointer(bytes)
            while position &+ 8 <= near {
                let marks = ControlMarks.of(raw, position)
                if marks != 0 {
                    position &+= marks.trailingZeroBitCount / 8
                    return true
                }
                position &+= 8
            }
            return false
        }
        return isFound ? position : ControlMarks.first(in: self, from: position)
    }

    /// Returns the index of the first byte from `start` on other than an ASCII letter or a hyphen, or `count` if there
    /// is none.
    ///
    /// Field names have hardly any other bytes. It reads eight bytes at a time.
    public func firstBesideLetters(from start: Int) -> Int {
        precondition(start >= 0 && start <= count, "scanned from outside")
        return withUnsafeBufferPointer { bytes in
            var position = start
            let raw = UnsafeRawBufferPointer(bytes)
            while position + 8 <= bytes.count {
                let word = UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: position, as: UInt64.self))
                // The high bit of a byte is the result that its comment names; no sum overflows its byte.
                let low = word & 0x7f7f_7f7f_7f7f_7f7f
                let letter = low | 0x2020_2020_2020_2020
                let isFromA = letter &+ 0x1f1f_1f1f_1f1f_1f1f
                let isBeyondZ = letter &+ 0x0505_0505_0505_0505
                let isNoHyphen = (low ^ 0x2d2d_2d2d_2d2d_2d2d) &+ 0x7f7f_7f7f_7f7f_7f7f
                let marks = ((~isFromA | isBeyondZ) & isNoHyphen | word) & 0x8080_8080_8080_8080
                if marks != 0 { return position + marks.trailingZeroBitCount / 8 }
                position += 8
            }
            while position < bytes.count {
                let byte = bytes[position]
                guard (byte | 0x20) &- 0x61 < 26 || byte == 0x2d else { return position }
                position += 1
            }
            return position
        }
    }

    /// The range without the spaces and tabs at both ends.
    public var unpadded: Range<Int> {
        func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        var (start, end) = (0, count)
        while start < end, isBlank(self[start]) { start += 1 }
        while start < end, isBlank(self[end - 1]) { end -= 1 }
        return start..<end
    }

    /// Returns whether the bytes are equal.
    public func isEqual(to other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        return withUnsafeBufferPointer { own in
            other.withUnsafeBufferPointer { other in
                // Without bytes there is no address.
                guard let first = own.baseAddress, let second = other.baseAddress else { return true }
                return memcmp(first, second, own.count) == 0
            }
        }
    }

    /// Returns whether the bytes spell `name`, which is in lower case, regardless of their case.
    public func spells(lowercase name: Span<UInt8>) -> Bool {
        guard count == name.count else { return false }
        return withUnsafeBufferPointer { own in
            name.withUnsafeBufferPointer { other in
                let (own, other) = (UnsafeRawBufferPointer(own), UnsafeRawBufferPointer(other))
                let (ownEnds, otherEnds) = (Ends(of: own), Ends(of: other))
                guard Ends.lowercased(ownEnds.first) == otherEnds.first,
                    Ends.lowercased(ownEnds.last) == otherEnds.last
                else { return false }
                // The bytes between the first eight and the last eight.
                var position = 8
                while position < own.count - 8 {
                    guard
                        Ends.lowercased(own.loadUnaligned(fromByteOffset: position, as: UInt64.self))
                            == other.loadUnaligned(fromByteOffset: position, as: UInt64.self)
                    else { return false }
                    position += 8
                }
                return true
            }
        }
    }

}

extension Array where Element == UInt8 {
    /// Creates an array with the bytes of a span.
    public init(copying bytes: Span<UInt8>) {
        self = bytes.withUnsafeBufferPointer { Array($0) }
    }
}

/// The search for ASCII control characters.
private enum ControlMarks {
    /// Returns a word in which the high bit of a byte is set if it is a control character. A false bit can be set only above
    /// a true one.
    @inline(__always)
    static func of(_ bytes: UnsafeRawBufferPointer, _ position: Int) -> UInt64 {
        let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
        let delete = word ^ 0x7f7f_7f7f_7f7f_7f7f
        return ((word &- 0x2020_2020_2020_2020) & ~word | (delete &- 0x0101_0101_0101_0101) & ~delete)
            & 0x8080_8080_8080_8080
    }

    /// Returns the index of the first control character from a position on, or the count.
    @inline(never)
    static func first(in span: Span<UInt8>, from start: Int) -> Int {
        span.withUnsafeBufferPointer { first(in: UnsafeRawBufferPointer($0), from: start) }
    }

    @inline(__always)
    private static func first(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        var position = start
        while position &+ 32 <= bytes.count {
            let marks =
                of(bytes, position) | of(bytes, position &+ 8) | of(bytes, position &+ 16) | of(bytes, position &+ 24)
            guard marks == 0 else { break }
            position &+= 32
        }
        while position &+ 8 <= bytes.count {
            let marks = of(bytes, position)
            if marks != 0 { return position + marks.trailingZeroBitCount / 8 }
            position &+= 8
        }
        while position < bytes.count, bytes[position] >= 0x20, bytes[position] != 0x7f { position += 1 }
        return position
    }
}

/// The length, and the first and last eight bytes in lower case, of a name without case. They are compared first.
public struct CaselessEnds: Equatable, Sendable {
    private let count: Int
    private let first: UInt64
    private let last: UInt64

    public init(of name: Span<UInt8>) {
        count = name.count
        let ends = name.withUnsafeBufferPointer { Ends(of: UnsafeRawBufferPointer($0)) }
        first = Ends.lowercased(ends.first)
        last = Ends.lowercased(ends.last)
    }

    /// Whether the ends cover the name: names with equal ends are then equal.
    @inline(__always)
    public var areAll: Bool { count <= 16 }

    /// The hash for tables of constant names.
    public var hash: UInt32 {
        let mixed = first &* 0x9e37_79b9_7f4a_7c15 ^ last &* 0xbf58_476d_1ce4_e5b9
        return UInt32(truncatingIfNeeded: (mixed &+ UInt64(count)) >> 32)
    }
}

/// The first and the last eight bytes, which overlap in names of less than sixteen. Of less than eight bytes, all are
/// in `first`, some of them twice, and `last` is 0.
private struct Ends {
    let first: UInt64
    let last: UInt64

    @inline(__always)
    init(of bytes: UnsafeRawBufferPointer) {
        let count = bytes.count
        switch count {
        case 8...:
            first = bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self)
            last = bytes.loadUnaligned(fromByteOffset: count - 8, as: UInt64.self)
        case 4...:
            let end = UInt64(bytes.loadUnaligned(fromByteOffset: count - 4, as: UInt32.self))
            first = UInt64(bytes.loadUnaligned(fromByteOffset: 0, as: UInt32.self)) | end << 32
            last = 0
        case 1...:
            first = UInt64(bytes[0]) | UInt64(bytes[count / 2]) << 8 | UInt64(bytes[count - 1]) << 16
            last = 0
        default:
            first = 0
            last = 0
        }
    }

    /// Returns eight bytes with upper-case letters in lower case, and all others unchanged.
    @inline(__always)
    static func lowercased(_ word: UInt64) -> UInt64 {
        // No sum overflows its byte.
        let low = word & 0x7f7f_7f7f_7f7f_7f7f
        let isFromA = low &+ 0x3f3f_3f3f_3f3f_3f3f
        let isBeyondZ = low &+ 0x2525_2525_2525_2525
        return word | (isFromA & ~isBeyondZ & ~word & 0x8080_8080_8080_8080) >> 2
    }
}
