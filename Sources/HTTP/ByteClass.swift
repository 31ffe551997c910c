/// The character classes of HTTP's grammar, over single bytes.
enum ByteClass {
    static let carriageReturn: UInt8 = 0x0d
    static let lineFeed: UInt8 = 0x0a
    static let space: UInt8 = 0x20
    static let tab: UInt8 = 0x09
    static let colon: UInt8 = 0x3a

    /// Returns whether the byte is a `tchar` (RFC 9110 section 5.6.2).
    static func isToken(_ byte: UInt8) -> Bool {
        // Bit n of a mask stands for the byte n, or n - 64.
        //          !#$%&'*+-. 0-9
        let low: UInt64 = 0x03ff_6cfa_0000_0000
        //          A-Z ^_` a-z |~
        let high: UInt64 = 0x57ff_ffff_c7ff_fffe
        if byte < 64 { return low >> UInt64(byte) & 1 == 1 }
        return byte < 128 && high >> UInt64(byte & 63) & 1 == 1
    }

    /// Returns whether field names may contain the byte: letters, digits and hyphens. Many servers read every other
    /// character of a name as a hyphen, so a client could send a second spelling of a removed field.
    static func isPlainInName(_ byte: UInt8) -> Bool {
        isAlphanumeric(byte) || byte == UInt8(ascii: "-")
    }

    /// Returns whether a path segment may contain the byte unescaped (RFC 3986 section 3.3): unreserved characters,
    /// sub-delims without ";", ":" and "@". The semicolon is left out because servers disagree on whether it ends a
    /// segment.
    static func isPathCharacter(_ byte: UInt8) -> Bool {
        //          !$&'()*+,-. 0-9 : =
        let low: UInt64 = 0x27ff_7fd2_0000_0000
        //          @ A-Z _ a-z ~
        let high: UInt64 = 0x47ff_fffe_87ff_ffff
        if byte < 64 { return low >> UInt64(byte) & 1 == 1 }
        return byte < 128 && high >> UInt64(byte & 63) & 1 == 1
    }

    /// Returns whether browsers leave the byte as it is in a query, although RFC 3986 does not: ``[\]^`{|}``. The WHATWG
    /// URL Standard percent-encodes only controls, space, `"`, `#`, `<`, `>`, in its special schemes `'`, and all above
    /// ASCII.
    static func isRawInQuery(_ byte: UInt8) -> Bool {
        (0x5b...0x5e).contains(byte) || byte == 0x60 || (0x7b...0x7d).contains(byte)
    }

    /// Returns whether the byte is unreserved (RFC 3986 section 2.3). The canonical spelling never percent-encodes it.
    static func isUnreserved(_ byte: UInt8) -> Bool {
        isAlphanumeric(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "_")
            || byte == UInt8(ascii: "~")
    }

    static func isAlphanumeric(_ byte: UInt8) -> Bool {
        isDigit(byte) || (0x61...0x7a).contains(byte | 0x20)
    }

    static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }

    /// Returns the byte, with upper-case letters in lower case.
    static func lowercased(_ byte: UInt8) -> UInt8 {
        byte &- 0x41 < 26 ? byte | 0x20 : byte
    }
}

/// A range of a message head. Heads are shorter than 64 KiB (`HeadLimits`), so a field takes nine bytes instead of 33.
public struct ByteRange: Equatable, Sendable {
    private let first: UInt16
    private let length: UInt16

    init(_ start: Int, _ end: Int) {
        first = UInt16(start)
        length = UInt16(end - start)
    }

    public static let empty = ByteRange(0, 0)

    public var start: Int { Int(first) }
    public var count: Int { Int(length) }
    public var end: Int { start + count }
    public var isEmpty: Bool { length == 0 }

    /// Returns the bytes of the head in the range.
    @_lifetime(copy head)
    public func of(_ head: Span<UInt8>) -> Span<UInt8> {
        head.extracting(start..<end)
    }
}

extension Span where Element == UInt8 {
    /// Returns whether the bytes spell `text`, which is in lower case, regardless of their case.
    public func equals(lowercase text: [UInt8]) -> Bool {
        spells(lowercase: text.span)
    }

    /// Returns whether the bytes spell `name`, which is in lower case, regardless of their case.
    public func equals(lowercase name: Span<UInt8>) -> Bool {
        spells(lowercase: name)
    }

    /// Returns whether the bytes are equal.
    public func equals(_ other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        for index in indices where self[index] != other[index] { return false }
        return true
    }
}

extension Span where Element == UInt8 {
    /// Returns whether two ranges of these bytes are equal regardless of case.
    func equalsIgnoringCase(_ left: ByteRange, _ right: ByteRange) -> Bool {
        guard left.count == right.count else { return false }
        for offset in 0..<left.count {
            guard ByteClass.lowercased(self[left.start + offset]) == ByteClass.lowercased(self[right.start + offset])
            else { return false }
        }
        return true
    }
}
