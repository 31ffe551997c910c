/// A strict DER reader (X.690 section 10) that parses item by item without a tree. It is for the few structures of
/// Apple's and Android's that OpenSSL does not support. Contents are returned as ranges of the input.
///
/// It accepts definite lengths in their shortest form and tag numbers up to 2^21. It refuses everything else with a
/// `DERFault`, and no input makes it trap.
public struct DERReader: ~Escapable {
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
    public func finish() throws(DERFault) {
        guard isAtEnd else { throw .trailingBytes }
    }

    /// Reads the next item of any kind.
    public mutating func next() throws(DERFault) -> (tag: DERTag, content: Range<Int>) {
        let tag = try readTag()
        guard let content = cursor.skip(try readLength()) else { throw .truncated }
        return (tag, content)
    }

    /// Reads the next item, which must have this tag, and returns the position of its content.
    public mutating func read(_ tag: DERTag) throws(DERFault) -> Range<Int> {
        let (found, content) = try next()
        guard found == tag else { throw .unexpectedTag }
        return content
    }

    /// Reads an INTEGER from 0 to 2^31 - 1 in its shortest form (X.690 section 8.3.2).
    public mutating func readSmallInteger() throws(DERFault) -> Int {
        let content = try read(.integer)
        let bytes = cursor.bytes
        guard let first = content.first, content.count <= 4, bytes[first] < 0x80 else { throw .unexpectedValue }
        guard content.count == 1 || bytes[first] > 0 || bytes[first + 1] >= 0x80 else { throw .notShortest }
        var value = 0
        for index in content { value = value << 8 | Int(bytes[index]) }
        return value
    }

    /// Reads an integer from 0 to 2^64 - 1 in its shortest form (X.690 section 8.3.2).
    ///
    /// - Parameter tag: INTEGER, or ENUMERATED.
    public mutating func readUnsigned(_ tag: DERTag = .integer) throws(DERFault) -> UInt64 {
        let content = try read(tag)
        let bytes = cursor.bytes
        guard let first = content.first, bytes[first] < 0x80 else { throw .unexpectedValue }
        guard content.count == 1 || bytes[first] > 0 || bytes[first + 1] >= 0x80 else { throw .notShortest }
        guard content.count <= 8 || content.count == 9 && bytes[first] == 0 else { throw .unexpectedValue }
        var value: UInt64 = 0
        for index in content { value = value << 8 | UInt64(bytes[index]) }
        return value
    }

    private mutating func readByte() throws(DERFault) -> UInt8 {
        guard let byte = cursor.readByte() else { throw .truncated }
        return byte
    }

    private mutating func readTag() throws(DERFault) -> DERTag {
        let first = try readByte()
        guard first & 0x1f == 0x1f else { return DERTag(leading: first & 0xe0, number: UInt32(first & 0x1f)) }
        // X.690 section 8.1.2.4: each octet has seven bits, and the leading ones are not all zero.
        var number: UInt32 = 0
        for index in 0..<3 {
            let byte = try readByte()
            guard index > 0 || byte != 0x80 else { throw .notShortest }
            number = number << 7 | UInt32(byte & 0x7f)
            guard byte & 0x80 != 0 else {
                guard number > 30 else { throw .notShortest }
                return DERTag(leading: first & 0xe0, number: number)
            }
        }
        throw .unexpectedTag
    }

    private mutating func readLength() throws(DERFault) -> UInt64 {
        let first = try readByte()
        guard first & 0x80 != 0 else { return UInt64(first) }
        guard first != 0x80 else { throw .indefiniteLength }
        // Three octets suffice for every size accepted here.
        let width = Int(first & 0x7f)
        guard width <= 3, let length = cursor.readNumber(width) else { throw .truncated }
        guard length >= 0x80, width == 1 || length >> (8 * (width - 1)) > 0 else { throw .notShortest }
        return length
    }
}

/// The tag of an item: class and form (the upper three bits of the identifier octet) and number.
public struct DERTag: Equatable, Sendable {
    public let leading: UInt8
    public let number: UInt32

    public init(leading: UInt8, number: UInt32) {
        self.leading = leading
        self.number = number
    }

    public static let boolean = DERTag(leading: 0x00, number: 1)
    public static let integer = DERTag(leading: 0x00, number: 2)
    public static let octetString = DERTag(leading: 0x00, number: 4)
    public static let null = DERTag(leading: 0x00, number: 5)
    public static let enumerated = DERTag(leading: 0x00, number: 10)
    public static let sequence = DERTag(leading: 0x20, number: 16)
    public static let set = DERTag(leading: 0x20, number: 17)

    /// Returns `[number] EXPLICIT`: context-specific and constructed.
    public static func explicit(_ number: UInt32) -> DERTag { DERTag(leading: 0xa0, number: number) }
}

/// The reason why bytes are not DER that the reader accepts.
public enum DERFault: Error, Equatable, Sendable, CaseIterable {
    /// The bytes end inside an item, or an item states more than the remaining bytes.
    case truncated
    case trailingBytes
    case indefiniteLength
    /// A tag, length or integer that is not in its shortest form.
    case notShortest
    /// A well-formed item with another tag than required.
    case unexpectedTag
    /// An integer that is negative or too large, or invalid text.
    case unexpectedValue

    public var reason: StaticString {
        switch self {
        case .truncated: "the DER ends inside an item"
        case .trailingBytes: "bytes follow the DER item"
        case .indefiniteLength: "a DER item has an indefinite length"
        case .notShortest: "a DER tag, length or integer is not in its shortest form"
        case .unexpectedTag: "a DER item has an unexpected type"
        case .unexpectedValue: "a DER item has an unexpected value"
        }
    }
}

/// A DER writer (X.690 section 10) for items of less than 64 KiB.
package enum DERWriter {
    /// Encodes an item.
    ///
    /// - Parameter tag: The identifier octets.
    package static func item(_ tag: [UInt8], _ content: [UInt8]) -> [UInt8] {
        switch content.count {
        case ..<0x80: tag + [UInt8(content.count)] + content
        case ..<0x100: tag + [0x81, UInt8(content.count)] + content
        default: tag + [0x82, UInt8(content.count >> 8), UInt8(content.count & 0xff)] + content
        }
    }

    package static func sequence(_ items: [UInt8]...) -> [UInt8] { item([0x30], items.flatMap(\.self)) }

    package static func set(_ items: [UInt8]...) -> [UInt8] { item([0x31], items.flatMap(\.self)) }

    package static func octetString(_ bytes: [UInt8]) -> [UInt8] { item([0x04], bytes) }

    /// Encodes a non-negative INTEGER. A leading zero octet stands only where the sign bit would be set (X.690 section
    /// 8.3).
    ///
    /// - Parameter magnitude: The number in big-endian order, at least one byte.
    package static func integer(_ magnitude: [UInt8]) -> [UInt8] {
        let shortest = Array(magnitude.dropLast().drop { $0 == 0 }) + magnitude.suffix(1)
        return item([0x02], shortest[0] >= 0x80 ? [0] + shortest : shortest)
    }

    /// Encodes `[number] EXPLICIT`.
    ///
    /// - Parameter number: Less than 2^14.
    package static func explicit(_ number: UInt32, _ content: [UInt8]) -> [UInt8] {
        guard number > 30 else { return item([0xa0 | UInt8(number)], content) }
        let high = UInt8(number >> 7)
        return item([0xbf] + (high == 0 ? [] : [0x80 | high]) + [UInt8(number & 0x7f)], content)
    }
}
