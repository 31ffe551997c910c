import Encoding
import Testing
import TestVectors

@Suite("CBOR")
struct CBORReaderTests {
    private func fault(_ text: String) -> CBORFault? {
        let bytes = hex(text)
        let skipped = CBORItem.skip(bytes)
        // Reading and skipping must agree. Only a number too large for the reader may be skipped.
        switch CBORItem.read(bytes) {
        case .success: #expect(skipped == nil)
        case .failure(.integerTooLarge): break
        case .failure(let fault): #expect(fault == skipped)
        }
        return skipped
    }

    @Test("integers, strings, arrays and maps are read as written")
    func values() throws {
        let text = "a401 3863 61c3bc 83 00 4401020304 6449455446 20 a0 1903e8 f6"
        // The text key is "a" followed by an invalid byte.
        #expect(fault(text) == .textNotUTF8)
        let item = try CBORItem.read(hex("a4 01 3863 62c3bc 83 00 4401020304 6449455446 20 a0 1903e8 f6")).get()
        #expect(
            item
                == .map([
                    CBORItem.Entry(key: .integer(1), value: .integer(-100)),
                    CBORItem.Entry(
                        key: .text("ü"), value: .array([.integer(0), .bytes([1, 2, 3, 4]), .text("IETF")])),
                    CBORItem.Entry(key: .integer(-1), value: .map([])),
                    CBORItem.Entry(key: .integer(1000), value: .skipped([0xf6])),
                ]))
    }

    @Test("the widest integers are exact, and larger ones are reported as too large")
    func integers() {
        #expect(CBORItem.read(hex("1b7fffffffffffffff")) == .success(.integer(.max)))
        #expect(CBORItem.read(hex("3b7fffffffffffffff")) == .success(.integer(.min)))
        for text in ["1b8000000000000000", "3b8000000000000000", "1bffffffffffffffff", "3bffffffffffffffff"] {
            #expect(CBORItem.read(hex(text)) == .failure(.integerTooLarge))
            #expect(CBORItem.skip(hex(text)) == nil)
        }
    }

    @Test(
        "a number or length has only its shortest encoding",
        arguments: [
            "1800", "1817", "190000", "1900ff", "1a00000000", "1a0000ffff", "1b0000000000000000",
            "1b00000000ffffffff", "3817", "5800", "580161", "7801 61", "9800", "98 01 00", "b800", "b90001 00 00",
        ])
    func shortest(_ text: String) {
        #expect(fault(text) == .notShortest)
    }

    @Test(
        "a length beyond the input is detected before it is used",
        arguments: [
            "41", "43 0000", "5818 0000", "5bffffffffffffffff00", "5b8000000000000000", "5b7fffffffffffffff00",
            "7bffffffffffffffff00", "9bffffffffffffffff00", "9b8000000000000000", "9a00010000 00", "83 0000",
            "bbffffffffffffffff0000", "bb8000000000000000", "bb7fffffffffffffff0000", "b818 0000", "a2 0000",
        ])
    func tooLong(_ text: String) {
        #expect(fault(text) == .truncated)
    }

    @Test("bytes behind the item are refused", arguments: ["0000", "a000", "4000", "8000", "a10000f6", "6061"])
    func trailing(_ text: String) {
        #expect(fault(text) == .trailingBytes)
    }

    @Test(
        "a map with a repeated key is refused at any depth",
        arguments: [
            "a2 00 00 00 01", "a2 6161 00 6161 01", "a3 6161 00 6162 01 6161 00", "a2 20 00 20 00", "81a2 00 00 00 00",
            "a1 00 a2 60 00 60 00", "a2 1903e8 00 1903e8 00",
        ])
    func duplicates(_ text: String) {
        #expect(fault(text) == .duplicateKey)
    }

    @Test(
        "keys that differ only in kind or length are different",
        arguments: ["a2 01 00 20 00", "a2 6131 00 01 00", "a2 60 00 6100 00"])
    func distinct(_ text: String) {
        #expect(fault(text) == nil)
    }

    @Test("a key is text or an integer", arguments: ["a1 40 00", "a1 80 00", "a1 a0 00", "a1 f5 00", "a1 f6 00"])
    func keys(_ text: String) {
        #expect(fault(text) == .unsupportedKey)
    }

    @Test("maps have at most 32 entries, so finding duplicates stays cheap")
    func entries() {
        func map(_ count: UInt64) -> [UInt8] {
            CBORWriter.head(5, count) + (0..<count).flatMap { CBORWriter.head(0, $0) + [0] }
        }
        #expect(CBORItem.skip(map(32)) == nil)
        #expect(CBORItem.skip(map(33)) == .tooManyEntries)
        #expect(CBORItem.skip(map(10_000)) == .tooManyEntries)
    }

    @Test("maps and arrays nest at most 8 deep", arguments: ["81", "a100"])
    func depth(_ opening: String) {
        func nested(_ levels: Int) -> [UInt8] { (0..<levels).flatMap { _ in hex(opening) } + [0] }
        #expect(CBORItem.skip(nested(7)) == nil)
        #expect(CBORItem.skip(nested(8)) == .tooDeep)
        #expect(CBORItem.skip(nested(1_000_000)) == .tooDeep)
    }

    @Test(
        "text that is not UTF-8 is refused",
        arguments: [
            "6180", "61ff", "62c0af", "62c1bf", "61c3", "63eda080", "63edbfbf", "64f4908080", "64f8888080", "63e08080",
            "64f0808080",
        ])
    func notUTF8(_ text: String) {
        #expect(fault(text) == .textNotUTF8)
    }

    @Test("an item of another kind than requested is refused and not consumed")
    func kinds() throws {
        let bytes = hex("01")
        let span = bytes.span
        var reader = CBORReader(span)
        var refusals: [CBORFault] = []
        do throws(CBORFault) { _ = try reader.readBytes() } catch { refusals.append(error) }
        do throws(CBORFault) { _ = try reader.readText() } catch { refusals.append(error) }
        do throws(CBORFault) { _ = try reader.beginArray() } catch { refusals.append(error) }
        do throws(CBORFault) { _ = try reader.beginMap() } catch { refusals.append(error) }
        #expect(refusals == [CBORFault](repeating: .unexpectedType, count: 4))
        #expect(reader.position == 0)
        let value = try reader.readInteger()
        #expect(value == 1)
        #expect(reader.isAtEnd == true)
    }

    @Test("a reader of a range stops at its end and returns ranges of the whole input")
    func stretch() throws {
        let bytes = hex("ffff 4401020304 00")
        let span = bytes.span
        var reader = CBORReader(span, in: 2..<7)
        let range = try reader.readBytes()
        #expect(range == 3..<7)
        try reader.finish()
        var shorter = CBORReader(span, in: 2..<6)
        let refused: CBORFault?
        do throws(CBORFault) {
            _ = try shorter.readBytes()
            refused = nil
        } catch {
            refused = error
        }
        #expect(refused == .truncated)
    }
}

/// The examples of RFC 8949.
@Suite("The examples of RFC 8949")
struct CBORVectorTests {
    private static let examples = "cbor/appendix_a.json"
    private static let notWellFormed = "cbor/rfc8949-appendix-f-not-well-formed.json"

    private struct Example: Decodable {
        var hex: String
    }

    private struct NotWellFormed: Decodable {
        var vectors: [Example]
    }

    /// Well-formed examples of appendix A that the reader refuses, with the reasons. App Attest uses none of them.
    private static let stricter: [(fault: CBORFault, why: String, examples: [String])] = [
        (
            .unsupportedType, "tags: bignums, dates, URIs, encoded CBOR",
            [
                "c249010000000000000000", "c349010000000000000000",
                "c074323031332d30332d32315432303a30343a30305a", "c11a514b67b0", "c1fb41d452d9ec200000",
                "d74401020304", "d818456449455446",
                "d82076687474703a2f2f7777772e6578616d706c652e636f6d",
            ]
        ),
        (
            .unsupportedType, "floating-point numbers",
            [
                "f90000", "f98000", "f93c00", "fb3ff199999999999a", "f93e00", "f97bff", "fa47c35000", "fa7f7fffff",
                "fb7e37e43c8800759c", "f90001", "f90400", "f9c400", "fbc010666666666666", "f97c00", "f97e00", "f9fc00",
                "fa7f800000", "fa7fc00000", "faff800000", "fb7ff0000000000000", "fb7ff8000000000000",
                "fbfff0000000000000",
            ]
        ),
        (
            // RFC 8949 section 3.3 forbids f818. The example is from RFC 7049.
            .unsupportedType, "undefined and unassigned simple values", ["f7", "f0", "f818", "f8ff"]
        ),
        (
            .indefiniteLength, "indefinite lengths: a second spelling of every string, array and map",
            [
                "5f42010243030405ff", "7f657374726561646d696e67ff", "9fff", "9f018202039f0405ffff",
                "9f01820203820405ff", "83018202039f0405ff", "83019f0203ff820405",
                "9f0102030405060708090a0b0c0d0e0f101112131415161718181819ff", "bf61610161629f0203ffff",
                "826161bf61626163ff", "bf6346756ef563416d7421ff",
            ]
        ),
    ]

    @Test(
        "appendix A: every example is read exactly, or refused for a reason", .enabled(if: SharedVectors.has(examples)))
    func appendixA() throws {
        let examples = try #require(try SharedVectors.read([Example].self, Self.examples))
        var accepted = 0
        var refused = 0
        for example in examples {
            let bytes = hex(example.hex)
            if let entry = Self.stricter.first(where: { $0.examples.contains(example.hex) }) {
                #expect(CBORItem.skip(bytes) == entry.fault, "\(example.hex): \(entry.why)")
                refused += 1
            } else {
                #expect(CBORItem.skip(bytes) == nil, "\(example.hex)")
                switch CBORItem.read(bytes) {
                case .success(let item): #expect(item.encoded == bytes, "\(example.hex)")
                case .failure(let fault):
                    // The two 64-bit integers that exceed Int64.
                    #expect(fault == .integerTooLarge && example.hex.hasSuffix("bffffffffffffffff"))
                }
                accepted += 1
            }
        }
        #expect(refused == Self.stricter.map(\.examples.count).reduce(0, +))
        #expect(accepted == examples.count - refused)
        #expect(accepted == 37)
    }

    @Test("appendix F: everything that is not well-formed is refused", .enabled(if: SharedVectors.has(notWellFormed)))
    func appendixF() throws {
        let vectors = try #require(try SharedVectors.read(NotWellFormed.self, Self.notWellFormed)).vectors
        #expect(vectors.count == 94)
        for vector in vectors {
            let bytes = hex(vector.hex)
            #expect(CBORItem.skip(bytes) != nil, "\(vector.hex)")
            #expect(throws: CBORFault.self, "\(vector.hex)") { try CBORItem.read(bytes).get() }
        }
    }
}

/// An item parsed into a tree by the reader under test, which can be encoded again.
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

    /// Parses exactly one item.
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

    /// Skips exactly one item and returns its fault.
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

    /// The only accepted encoding of the item.
    var encoded: [UInt8] {
        switch self {
        case .integer(let value) where value < 0: CBORWriter.head(1, UInt64(bitPattern: ~value))
        case .integer(let value): CBORWriter.head(0, UInt64(value))
        case .bytes(let bytes): CBORWriter.bytes(bytes)
        case .text(let text): CBORWriter.text(text)
        case .array(let items): CBORWriter.head(4, UInt64(items.count)) + items.flatMap(\.encoded)
        case .map(let entries):
            CBORWriter.head(5, UInt64(entries.count)) + entries.flatMap { $0.key.encoded + $0.value.encoded }
        case .skipped(let bytes): bytes
        }
    }
}
