import Encoding
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

    private func unsigned(_ bytes: [UInt8], _ tag: DERTag = .integer) -> Result<UInt64, DERFault> {
        let span = bytes.span
        do throws(DERFault) {
            var reader = DERReader(span)
            return .success(try reader.readUnsigned(tag))
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

    @Test("unsigned integers have up to 64 bits, are positive and in their shortest form")
    func unsignedIntegers() throws {
        #expect(try unsigned(hex("020100")).get() == 0)
        #expect(try unsigned(hex("02020080")).get() == 128)
        #expect(try unsigned(hex("02087fffffffffffffff")).get() == UInt64.max >> 1)
        #expect(try unsigned(hex("020900ffffffffffffffff")).get() == UInt64.max)
        #expect(try unsigned(hex("0a0102"), .enumerated).get() == 2)
        #expect(unsigned(hex("0200")).failure == .unexpectedValue)
        #expect(unsigned(hex("0201ff")).failure == .unexpectedValue)
        #expect(unsigned(hex("0209010000000000000000")).failure == .unexpectedValue)
        #expect(unsigned(hex("020a0080000000000000000000")).failure == .unexpectedValue)
        #expect(unsigned(hex("02020001")).failure == .notShortest)
        #expect(unsigned(hex("020a00000000000000000001")).failure == .notShortest)
        #expect(unsigned(hex("0a0102")).failure == .unexpectedTag)
    }
}

extension Result {
    var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}
