import Attestation
import Encoding
import TestVectors
import Testing

@Suite("Parsing assertions")
struct AssertionTests {
    private let verifying: Verifying

    init() throws { verifying = try Verifying() }

    private static let data: [UInt8] = [UInt8](repeating: 9, count: 32) + hex("40 00000001")
    private static let signature = ("signature", CBORWriter.bytes([1, 2, 3]))
    private static let authenticatorData = ("authenticatorData", CBORWriter.bytes(data))

    private func fault(_ entries: (String, [UInt8])...) -> AssertionFault? {
        verifying.parse(CBORWriter.map(entries)).failure
    }

    @Test("the two entries are found in either order")
    func order() throws {
        for entries in [[Self.signature, Self.authenticatorData], [Self.authenticatorData, Self.signature]] {
            let bytes = CBORWriter.map(entries)
            let assertion = try verifying.parse(bytes).get()
            #expect(Array(bytes[assertion.signature]) == [1, 2, 3])
            #expect(Array(bytes[assertion.authenticatorData.range]) == Self.data)
            #expect(assertion.authenticatorData.counter == 1)
        }
    }

    @Test("both entries must be there")
    func missing() {
        #expect(fault() == .entryMissing)
        #expect(fault(Self.signature) == .entryMissing)
        #expect(fault(Self.authenticatorData) == .entryMissing)
        #expect(fault(Self.signature, ("cdHash", CBORWriter.map([]))) == .entryMissing)
    }

    @Test(
        "no other entry is accepted", arguments: ["", "Signature", "signature ", "sig", "authData", "cdhash", "fmt"])
    func unknown(_ name: String) {
        #expect(fault(Self.signature, Self.authenticatorData, (name, [0x00])) == .unknownEntry)
        #expect(fault((name, [0x00]), Self.signature, Self.authenticatorData) == .unknownEntry)
    }

    @Test("an unsigned cdHash may have any strictly encoded content and is never reported")
    func unsignedCodeHash() throws {
        let value = CBORWriter.map([("hash", CBORWriter.bytes([1])), ("type", CBORWriter.bytes([2]))])
        let bytes = CBORWriter.map([("cdHash", value), Self.signature, Self.authenticatorData])
        #expect(try verifying.parse(bytes).get().authenticatorData.extensions.codeDirectoryHash == nil)
        #expect(fault(("cdHash", [0x00]), Self.signature, Self.authenticatorData) == nil)
        let refused: [(String, CBORFault)] = [
            ("9fff", .indefiniteLength), ("f97e00", .unsupportedType), ("818181818181818100", .tooDeep),
            ("a2 6161 00 6161 00", .duplicateKey),
        ]
        for (value, expected) in refused {
            let found = fault(("cdHash", hex(value)), Self.signature, Self.authenticatorData)
            #expect(found == .malformed(expected))
        }
    }

    @Test("a repeated entry is refused, even with the same value")
    func duplicates() {
        let twice = AssertionFault.malformed(.duplicateKey)
        #expect(fault(Self.signature, Self.signature, Self.authenticatorData) == twice)
        #expect(fault(Self.signature, Self.authenticatorData, Self.authenticatorData) == twice)
        #expect(fault(("cdHash", [0]), Self.signature, Self.authenticatorData, ("cdHash", [0])) == twice)
    }

    @Test("entries are byte strings")
    func kinds() {
        let wrong = AssertionFault.malformed(.unexpectedType)
        for value in [hex("00"), hex("80"), hex("a0"), hex("f6"), CBORWriter.text("abc")] {
            #expect(fault(("signature", value), Self.authenticatorData) == wrong)
            #expect(fault(Self.signature, ("authenticatorData", value)) == wrong)
        }
        #expect(
            fault(("signature", hex("5f4101ff")), Self.authenticatorData) == .malformed(.indefiniteLength))
    }

    @Test(
        "anything but a map with text keys is malformed",
        arguments: [
            ("", .truncated), ("80", .unexpectedType), ("40", .unexpectedType), ("00", .unexpectedType),
            ("bf ff", .indefiniteLength), ("d9d9f7 a0", .unsupportedType), ("a1 01 40", .unsupportedKey),
            ("a1 40 40", .unsupportedKey), ("bbffffffffffffffff", .truncated), ("bb8000000000000000", .truncated),
            ("a1 69 7369676e6174757265 5bffffffffffffffff", .truncated),
            ("a1 69 7369676e6174757265 5b8000000000000000", .truncated),
            ("b801 69 7369676e6174757265 40", .notShortest), ("a0 00", .trailingBytes),
        ] as [(String, CBORFault)])
    func malformed(_ text: String, _ expected: CBORFault) {
        #expect(verifying.parse(hex(text)).failure == .malformed(expected))
    }

    @Test("more than 4096 bytes are not parsed")
    func tooLong() throws {
        func padded(to length: Int) -> [UInt8] {
            var filler = length
            while true {
                let bytes = CBORWriter.map([
                    Self.signature, Self.authenticatorData,
                    ("cdHash", CBORWriter.bytes([UInt8](repeating: 0, count: filler))),
                ])
                if bytes.count == length { return bytes }
                filler -= 1
            }
        }
        #expect(verifying.parse(padded(to: 4096)).failure == nil)
        #expect(verifying.parse(padded(to: 4097)).failure == .tooLong)
        #expect(verifying.parse([UInt8](repeating: 0, count: 1_000_000)).failure == .tooLong)
    }

    @Test("authenticator data that is one byte too short or too long is refused")
    func authenticatorDataLength() {
        func fault(data: [UInt8]) -> AssertionFault? {
            self.fault(Self.signature, ("authenticatorData", CBORWriter.bytes(data)))
        }
        #expect(fault(data: Self.data) == nil)
        #expect(fault(data: Array(Self.data.dropLast())) == .authenticatorData(.tooShort))
        #expect(fault(data: []) == .authenticatorData(.tooShort))
        #expect(fault(data: Self.data + [0x00]) == .authenticatorData(.extensions(.unexpectedType)))
        #expect(fault(data: Self.data + [0xa0, 0x00]) == .authenticatorData(.extensions(.trailingBytes)))
    }
}
