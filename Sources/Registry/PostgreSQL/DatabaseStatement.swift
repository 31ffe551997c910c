internal import Vocabulary

/// A statement with its arguments, which is sent together with others to save round trips.
struct DatabaseStatement {
    let sql: String
    let arguments: [DatabaseValue]

    init(_ sql: String, _ arguments: [DatabaseValue] = []) {
        self.sql = sql
        self.arguments = arguments
    }
}

/// A parameter of a statement in PostgreSQL's binary format.
enum DatabaseValue {
    case integer(Int64)
    case bytes([UInt8])
    case text(String)
    case integers([Int64])
    case bytesList([[UInt8]])
    /// Integers, where nil is NULL.
    case optionalIntegers([Int64?])
    case optionalBytesList([[UInt8]?])
    case texts([String?])
    case null

    static func integer(_ number: Int64?) -> DatabaseValue { number.map { .integer($0) } ?? .null }
    static func bytes(_ bytes: [UInt8]?) -> DatabaseValue { bytes.map { .bytes($0) } ?? .null }
    static func text(_ text: String?) -> DatabaseValue { text.map { .text($0) } ?? .null }
    static func device(_ device: DeviceID) -> DatabaseValue { .integer(device.number) }
    static func key(_ key: KeyID) -> DatabaseValue { .bytes(key.bytes) }

    /// The encoded value. Nil is NULL.
    var encoded: [UInt8]? {
        switch self {
        case .integer(let number): Self.big(UInt64(bitPattern: number))
        case .bytes(let bytes): bytes
        case .text(let text): [UInt8](text.utf8)
        case .integers(let numbers):
            Self.array(of: 20, numbers.count, size: 12 * numbers.count) { bytes in
                for number in numbers {
                    bytes += Self.big(UInt32(8))
                    bytes += Self.big(UInt64(bitPattern: number))
                }
            }
        case .bytesList(let list):
            Self.array(of: 17, list.count, size: list.reduce(0) { $0 + 4 + $1.count }) { bytes in
                for item in list {
                    bytes += Self.big(UInt32(item.count))
                    bytes += item
                }
            }
        case .optionalIntegers(let numbers):
            Self.array(of: 20, numbers.map { $0.map { Self.big(UInt64(bitPattern: $0)) } })
        case .optionalBytesList(let list): Self.array(of: 17, list)
        case .texts(let texts): Self.array(of: 25, texts.map { $0.map { [UInt8]($0.utf8) } })
        case .null: nil
        }
    }

    /// Encodes an array with NULLs, which have length -1.
    private static func array(of type: UInt32, _ elements: [[UInt8]?]) -> [UInt8] {
        let size = elements.reduce(0) { $0 + 4 + ($1?.count ?? 0) }
        return array(of: type, elements.count, size: size, hasNulls: elements.contains { $0 == nil }) { bytes in
            for element in elements {
                bytes += big(element.map { UInt32($0.count) } ?? .max)
                if let element { bytes += element }
            }
        }
    }

    /// Encodes an array for PostgreSQL's array_recv.
    ///
    /// The format is the number of dimensions, a flag for NULLs, the type of the elements, the length and lower bound
    /// of each dimension, then the length and bytes of each element.
    private static func array(
        of type: UInt32, _ count: Int, size: Int, hasNulls: Bool = false, _ fill: (inout [UInt8]) -> Void
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(20 + size)
        bytes += big(UInt32(count == 0 ? 0 : 1))
        bytes += big(UInt32(hasNulls ? 1 : 0))
        bytes += big(type)
        guard count > 0 else { return bytes }
        bytes += big(UInt32(count))
        bytes += big(UInt32(1))
        fill(&bytes)
        return bytes
    }

    private static func big<Number: FixedWidthInteger & UnsignedInteger>(_ number: Number) -> [UInt8] {
        (0..<(Number.bitWidth / 8)).map { UInt8(truncatingIfNeeded: number >> (Number.bitWidth - 8 - 8 * $0)) }
    }
}
