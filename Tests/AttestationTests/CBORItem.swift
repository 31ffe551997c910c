import Attestation

/// A whole item as a tree, made by the reader under test: what it understood can then be written down again.
indirect enum CBORItem: Equatable {
    case integer(Int64)
    case bytes([UInt8])
    case text(String)
    case array([CBORItem])
    case map([Entry])
    case skipped([UInt8])

    struct Entry: Equatable {
        var key: CBORItem
        var value: CBORItem
    }

    /// Reads exactly one item.
    static func read(_ bytes: [UInt8]) -> Result<CBORItem, CBORFault> {
        do throws(CBORFault) {
            let span = bytes.span
            var reader = CBORReader(span)
            let item = try read(&reader, bytes)
            try reader.finish()
            return .success(item)
        } catch {
            return .failure(error)
        }
    }

    /// Skips exactly one item.
    static func skip(_ bytes: [UInt8]) -> CBORFault? {
        do throws(CBORFault) {
            let span = bytes.span
            var reader = CBORReader(span)
            try reader.skip()
            try reader.finish()
            return nil
        } catch {
            return error
        }
    }

    private static func read(_ reader: inout CBORReader, _ bytes: [UInt8]) throws(CBORFault) -> CBORItem {
        switch try reader.peek() {
        case .unsigned, .negative: return .integer(try reader.readInteger())
        case .bytes: return .bytes(Array(bytes[try reader.readBytes()]))
        case .text: return .text(String(decoding: bytes[try reader.readText()], as: UTF8.self))
        case .array:
            var items: [CBORItem] = []
            for _ in 0..<(try reader.beginArray()) { items.append(try read(&reader, bytes)) }
            return .array(items)
        case .map:
            var map = try reader.beginMap()
            var entries: [Entry] = []
            while let key = try reader.nextKey(&map) {
                let name: CBORItem =
                    switch key {
                    case .text(let range): .text(String(decoding: bytes[range], as: UTF8.self))
                    case .integer(let value): .integer(value)
                    }
                entries.append(Entry(key: name, value: try read(&reader, bytes)))
            }
            return .map(entries)
        case .simple:
            let start = reader.position
            try reader.skip()
            return .skipped(Array(bytes[start..<reader.position]))
        }
    }

    /// The item's one admitted encoding.
    var encoded: [UInt8] {
        switch self {
        case .integer(let value) where value < 0: CBORWriting.head(1, UInt64(bitPattern: ~value))
        case .integer(let value): CBORWriting.head(0, UInt64(value))
        case .bytes(let bytes): CBORWriting.bytes(bytes)
        case .text(let text): CBORWriting.text(text)
        case .array(let items): CBORWriting.head(4, UInt64(items.count)) + items.flatMap(\.encoded)
        case .map(let entries):
            CBORWriting.head(5, UInt64(entries.count)) + entries.flatMap { $0.key.encoded + $0.value.encoded }
        case .skipped(let bytes): bytes
        }
    }
}
