import Attestation
import TestVectors
import Testing

@Suite("CBOR")
struct CBORReaderTests {
    private func fault(_ text: String) -> CBORFault? {
        let bytes = hex(text)
        let skipped = CBORItem.skip(bytes)
        // Reading item by item judges as skipping does; only a number too large for it may be skipped.
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
        // The text key is "a" with a broken byte behind: one character of two bytes is meant.
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
            CBORWriting.head(5, count) + (0..<count).flatMap { CBORWriting.head(0, $0) + [0] }
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
