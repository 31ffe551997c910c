import Attestation
import Cryptography
import DeviceSimulator
import Testing

@Suite("Simulated assertions")
struct AssertionMakerTests {
    private let library: LibraryContext
    private let key: PrivateKey
    private let hash = [UInt8](repeating: 9, count: 32)

    init() throws {
        library = try LibraryContext()
        key = try PrivateKey.generateP256(library)
    }

    private func maker(_ form: AssertionForm = .iOS14) throws -> AssertionMaker {
        try AssertionMaker(key, rpID: Sample.appID.description, form: form, library)
    }

    @Test(
        "every form verifies as a phone's does, with its counter", arguments: AssertionForm.allCases,
        [1, 2, 0x0102_0304, UInt32.max])
    func verify(_ form: AssertionForm, _ counter: UInt32) throws {
        let maker = try maker(form)
        let assertion = try maker.assertion(counter: counter, clientDataHash: hash)
        let verified = try Sample.verify(assertion, hash, by: maker, library).get()
        #expect(verified.counter == counter)
        let hasExtensions = [.iOS27, .iOS27CodeHash, .macOS27].contains(form)
        #expect((verified.extensions.validationCategory == .appStore) == hasExtensions)
        #expect((verified.extensions.codeDirectoryHash != nil) == (form == .iOS27CodeHash))
    }

    @Test("iOS 14 to 26 send 37 bytes: RP id hash, 0x40, counter in big-endian order")
    func plain() throws {
        let assertion = try maker().assertion(counter: 0x0102_0304, clientDataHash: hash)
        let parts = try Assertion(assertion.span)
        let text = Array(Sample.appID.description.utf8)
        let expected = try library.sha256(of: text.span).bytes + [0x40, 1, 2, 3, 4]
        #expect(Array(assertion[parts.authenticatorData.range]) == expected)
    }

    @Test("iOS 27 sets both flags, macOS 27 one, and both send extensions")
    func flags() throws {
        for (form, flags) in [(AssertionForm.iOS27, UInt8(0xc0)), (.iOS27CodeHash, 0xc0), (.macOS27, 0x40)] {
            let assertion = try maker(form).assertion(counter: 1, clientDataHash: hash)
            let range = try Assertion(assertion.span).authenticatorData.range
            #expect(assertion[range.lowerBound + 32] == flags && range.count > 37)
        }
    }

    @Test("another app, another hash, another key and counter 0 are each refused for that reason")
    func refused() throws {
        let maker = try maker()
        let assertion = try maker.assertion(counter: 1, clientDataHash: hash)
        let other = try AssertionMaker(PrivateKey.generateP256(library), rpID: Sample.appID.description, library)
        #expect(Sample.verify(assertion, hash, by: other, library).failure == .signatureInvalid)
        #expect(Sample.verify(assertion, [1], by: maker, library).failure == .signatureInvalid)
        #expect(Sample.verify(assertion, hash, by: maker, rpID: "x", library).failure == .rpIDMismatch)
        let zero = try maker.assertion(counter: 0, clientDataHash: hash)
        #expect(Sample.verify(zero, hash, by: maker, library).failure == .counterZero)
    }

    @Test("a key on another curve is refused as a hardware key")
    func otherCurves() throws {
        let key = try PrivateKey.generateP384(library)
        #expect(throws: CryptographyError.self) { try AssertionMaker(key, rpID: "x", library) }
    }
}
