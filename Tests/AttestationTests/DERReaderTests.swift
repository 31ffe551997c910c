import Attestation
import Testing
import TestVectors

@Suite("DER reader")
struct DERReaderTests {
    private func item(_ bytes: [UInt8]) -> Result<(DERTag, [UInt8]), DERFault> {
        let span = bytes.span
        do throws(DERFault) {
            var reader = DERReader(span)
            let (tag, content) = try reader.next()
            try reader.finish()
            return .success((tag, Array(bytes[content])))
        } catch {
            return .failure(error)
        }
    }

    private func integer(_ bytes: [UInt8]) -> Result<Int, DERFault> {
        let span = bytes.span
        do throws(DERFault) {
            var reader = DERReader(span)
            return .success(try reader.readSmallInteger())
        } catch {
            return .failure(error)
        }
    }

    @Test("short and long lengths and high tag numbers are read")
    func forms() throws {
        #expect(try item(hex("0400")).get() == (.octetString, []))
        #expect(try item(hex("0402 0102")).get() == (.octetString, [1, 2]))
        let long = [UInt8](repeating: 7, count: 0x80)
        #expect(try item(hex("048180") + long).get() == (.octetString, long))
        let longer = [UInt8](repeating: 7, count: 0x1234)
        #expect(try item(hex("04821234") + longer).get() == (.octetString, longer))
        #expect(try item(hex("bf8802 00")).get() == (.explicit(1026), []))
        #expect(try item(hex("bf1f 00")).get() == (.explicit(31), []))
    }

    @Test("every other encoding of the same value is refused")
    func otherEncodings() {
        #expect(item(hex("0480 0000")).failure == .indefiniteLength)
        #expect(item(hex("048101 00")).failure == .notShortest)
        #expect(item(hex("04820080") + [UInt8](repeating: 0, count: 128)).failure == .notShortest)
        #expect(item(hex("bf808802 00")).failure == .notShortest)
        #expect(item(hex("bf1e 00")).failure == .notShortest)
        #expect(item(hex("bfffffffff7f 00")).failure == .unexpectedTag)
    }

    @Test("truncated input and lengths beyond it are refused")
    func truncated() {
        for bytes in ["", "04", "0401", "0481", "0482ff", "04840000000100", "04ff", "bf", "bf88"] {
            #expect(item(hex(bytes)).failure == .truncated)
        }
        #expect(item(hex("0400 00")).failure == .trailingBytes)
    }

    @Test("integers are small, positive and in their shortest form")
    func integers() throws {
        #expect(try integer(hex("020100")).get() == 0)
        #expect(try integer(hex("02020080")).get() == 128)
        #expect(try integer(hex("02047fffffff")).get() == 0x7fff_ffff)
        #expect(integer(hex("0200")).failure == .unexpectedValue)
        #expect(integer(hex("0201ff")).failure == .unexpectedValue)
        #expect(integer(hex("02050080000000")).failure == .unexpectedValue)
        #expect(integer(hex("02020001")).failure == .notShortest)
        #expect(integer(hex("0400")).failure == .unexpectedTag)
    }
}

/// A DER writer for the tests.
enum DERWriting {
    static func item(_ tag: [UInt8], _ content: [UInt8]) -> [UInt8] { tag + length(content.count) + content }

    static func sequence(_ items: [UInt8]...) -> [UInt8] { item([0x30], items.flatMap { $0 }) }
    static func set(_ items: [UInt8]...) -> [UInt8] { item([0x31], items.flatMap { $0 }) }
    static func octets(_ bytes: [UInt8]) -> [UInt8] { item([0x04], bytes) }
    static func text(_ text: String) -> [UInt8] { octets(Array(text.utf8)) }
    static func integer(_ value: UInt8) -> [UInt8] { item([0x02], [value]) }

    /// Encodes `[number] EXPLICIT`.
    static func explicit(_ number: UInt32, _ content: [UInt8]) -> [UInt8] {
        guard number > 30 else { return item([0xa0 | UInt8(number)], content) }
        return item([0xbf, 0x80 | UInt8(number >> 7), UInt8(number & 0x7f)], content)
    }

    static func nonce(_ nonce: [UInt8]) -> [UInt8] { sequence(explicit(1, octets(nonce))) }

    private static func length(_ count: Int) -> [UInt8] {
        switch count {
        case ..<0x80: [UInt8(count)]
        case ..<0x100: [0x81, UInt8(count)]
        default: [0x82, UInt8(count >> 8), UInt8(count & 0xff)]
        }
    }
}
