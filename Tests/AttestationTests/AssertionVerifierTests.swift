import Attestation
import Cryptography
import Encoding
import Testing
import TestVectors

/// Assertions made here, in every form of Apple's systems.
@Suite("Assertion verification")
struct AssertionVerifierTests {
    private let verifying: Verifying
    private let key: SoftwareKey
    private let rpIDHash: [UInt8]
    private let clientDataHash: [UInt8]

    init() throws {
        verifying = try Verifying()
        key = try SoftwareKey(verifying.library)
        rpIDHash = try verifying.hash(Array("TEAM123456.com.example.app".utf8))
        clientDataHash = try verifying.hash(Array("a request".utf8))
    }

    private func assertion(_ form: AssertionForm, counter: UInt32 = 7) throws -> [UInt8] {
        let data = form.authenticatorData(rpIDHash: rpIDHash, counter: counter)
        return form.assertion(signature: try key.sign(data, clientDataHash), authenticatorData: data)
    }

    private func verify(_ assertion: [UInt8]) -> Result<VerifiedAssertion, AssertionFault> {
        verifying.verify(assertion, clientDataHash, key.verification, rpIDHash: rpIDHash)
    }

    @Test("every form verifies, and its values are returned", arguments: AssertionForm.all)
    func forms(_ form: AssertionForm) throws {
        let bytes = try assertion(form)
        let verified = try verify(bytes).get()
        #expect(verified.counter == 7)
        let carried = Set((form.extensions ?? []).map(\.0))
        let found = verified.extensions
        #expect((found.validationCategory != nil) == carried.contains("apple_validation_category_01"))
        #expect((found.codeDirectoryHash != nil) == carried.contains("apple_cd_hash_hash_01"))
        let version = found.bundleVersion.map { String(decoding: bytes[$0], as: UTF8.self) }
        #expect(version == (carried.contains("apple_bundle_version_01") ? "1.2.3" : nil))
    }

    @Test("an assertion assembled from its parts verifies in every form", arguments: AssertionForm.all)
    func parts(_ form: AssertionForm) throws {
        let data = form.authenticatorData(rpIDHash: rpIDHash, counter: 7)
        let signature = try key.sign(data, clientDataHash)
        let parts = AssertionParts(signature: signature, authenticatorData: data)
        #expect(try verify(parts.assertion).get().counter == 7)
        var plain = form
        plain.unsigned = []
        #expect(parts.assertion == plain.assertion(signature: signature, authenticatorData: data))
    }

    @Test("parts of any length are assembled in CBOR's shortest form")
    func lengths() {
        for count in [0, 1, 23, 24, 255, 256, 65_535, 65_536] {
            let bytes = [UInt8](repeating: 7, count: count)
            let written = CBORWriter.map([
                ("signature", CBORWriter.bytes(bytes)), ("authenticatorData", CBORWriter.bytes(bytes)),
            ])
            #expect(AssertionParts(signature: bytes, authenticatorData: bytes).assertion == written)
        }
    }

    @Test("every flipped bit of the signed data is refused", arguments: AssertionForm.all)
    func flippedBits(_ form: AssertionForm) throws {
        let bytes = try assertion(form)
        let parts = try verifying.parse(bytes).get()
        let signed = parts.authenticatorData.range
        for bit in (signed.lowerBound * 8)..<(signed.upperBound * 8) {
            var other = bytes
            other[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(verify(other).failure != nil)
        }
    }

    @Test("the unsigned cdHash may have any value and changes nothing")
    func unsignedCodeHash() throws {
        let form = try #require(AssertionForm.all.first { !$0.unsigned.isEmpty })
        let bytes = try assertion(form)
        let plain = try verify(bytes).get()
        var other = form
        other.unsigned = [("cdHash", CBORWriter.bytes(Array("whatever I like".utf8)))]
        let parts = try verifying.parse(bytes).get()
        let forged = other.assertion(
            signature: Array(bytes[parts.signature]), authenticatorData: Array(bytes[parts.authenticatorData.range]))
        #expect(try verify(forged).get().counter == plain.counter)
        #expect(try verify(forged).get().extensions == AppExtensions())
    }

    @Test("extensions cannot be added to the signed data or removed from it")
    func extensions() throws {
        let plain = try #require(AssertionForm.all.first { $0.extensions == nil })
        let extended = try #require(AssertionForm.all.first { $0.extensions != nil && $0.flags == plain.flags })
        for (signed, sent) in [(plain, extended), (extended, plain)] {
            let signature = try key.sign(signed.authenticatorData(rpIDHash: rpIDHash, counter: 7), clientDataHash)
            let data = sent.authenticatorData(rpIDHash: rpIDHash, counter: 7)
            let forged = sent.assertion(signature: signature, authenticatorData: data)
            #expect(verify(forged) == .failure(.signatureInvalid))
        }
    }

    @Test("the flags have no meaning but are signed", arguments: (UInt8.min)...(UInt8.max))
    func flags(_ flags: UInt8) throws {
        for form in AssertionForm.all.prefix(3) {
            var form = form
            form.flags = flags
            #expect(verify(try assertion(form)).failure == nil)
        }
    }

    @Test("counters from 1 to the greatest are returned unchanged", arguments: [1, 2, 0x0100_0000, UInt32.max])
    func counters(_ counter: UInt32) throws {
        #expect(try verify(assertion(AssertionForm.all[0], counter: counter)).get().counter == counter)
    }

    @Test("counter 0 is refused, even with a valid signature: it belongs to the attestation")
    func counterZero() throws {
        for form in AssertionForm.all {
            #expect(try verify(assertion(form, counter: 0)) == .failure(.counterZero))
        }
    }

    @Test("a signature over the nonce used directly as digest is refused: SHA-256 is applied twice")
    func once() throws {
        // Signing (data || hash) with ECDSA-SHA-256 makes the nonce the digest. Some libraries do so, but Apple does
        // not.
        let form = AssertionForm.all[0]
        let data = form.authenticatorData(rpIDHash: rpIDHash, counter: 7)
        let nonce = try verifying.hash(data + clientDataHash)
        let signature = try key.sign(digest: nonce)
        #expect(verify(form.assertion(signature: signature, authenticatorData: data)) == .failure(.signatureInvalid))
    }

    @Test("a signature of an impossible length is refused")
    func signatureLengths() throws {
        let form = AssertionForm.all[0]
        let data = form.authenticatorData(rpIDHash: rpIDHash, counter: 7)
        for count in [0, 1, 7, 64, 73, 1_000] {
            let signature = [UInt8](repeating: 0x30, count: count)
            let bytes = form.assertion(signature: signature, authenticatorData: data)
            #expect(verify(bytes) == .failure(.signatureInvalid))
        }
    }

    @Test("cheap checks come first: a wrong app is reported before a bad signature")
    func order() throws {
        let form = AssertionForm.all[0]
        let other = form.authenticatorData(rpIDHash: [UInt8](repeating: 0, count: 32), counter: 0)
        let bytes = form.assertion(signature: [], authenticatorData: other)
        #expect(verify(bytes) == .failure(.rpIDMismatch))
        let zero = form.authenticatorData(rpIDHash: rpIDHash, counter: 0)
        #expect(verify(form.assertion(signature: [], authenticatorData: zero)) == .failure(.counterZero))
    }

    @Test(
        "client data hashes of other lengths verify: Apple's samples use raw challenges",
        arguments: [0, 1, 21, 24, 64])
    func hashLengths(_ count: Int) throws {
        let hash = [UInt8](repeating: 3, count: count)
        let form = AssertionForm.all[0]
        let data = form.authenticatorData(rpIDHash: rpIDHash, counter: 7)
        let bytes = form.assertion(signature: try key.sign(data, hash), authenticatorData: data)
        #expect(verifying.verify(bytes, hash, key.verification, rpIDHash: rpIDHash).failure == nil)
    }

    @Test("every fault names its step and its reason")
    func faults() throws {
        let faults: [(AssertionFault, AssertionFault.Step)] = [
            (.tooLong, .form), (.malformed(.truncated), .form), (.unknownEntry, .form), (.entryMissing, .form),
            (.authenticatorData(.tooShort), .form), (.rpIDMismatch, .rpID), (.counterZero, .counter),
            (.signatureInvalid, .signature), (.checkFailed(CryptographyError(doing: "x")), .signature),
        ]
        for (fault, step) in faults {
            #expect(fault.step == step)
        }
        let reasons = faults.map { String(describing: $0.0.reason) } + CBORFault.allCases.map { "\($0.reason)" }
        #expect(Set(reasons).count == reasons.count - 1)  // `malformed` has the reason of its CBOR fault
    }

    @Test("a full report lists every failed check, and the first is that of an ordinary verification")
    func report() throws {
        let form = try #require(AssertionForm.all.first)
        let right = try assertion(form)
        let counterZero = try assertion(form, counter: 0)
        let other = [UInt8](repeating: 0, count: 32)
        func steps(_ bytes: [UInt8], _ hash: [UInt8], _ rpIDHash: [UInt8]) -> [AssertionFault.Step] {
            let report = AssertionVerifier.report(
                bytes.span, clientDataHash: hash.span, key: key.verification, rpIDHash: rpIDHash.span,
                digests: verifying.library)
            let faults = report.steps.compactMap(\.outcome.fault)
            #expect(faults.first == verifying.verify(bytes, hash, key.verification, rpIDHash: rpIDHash).failure)
            #expect((report.data == nil) == (faults.first?.step == .form))
            return faults.map(\.step)
        }
        #expect(steps(right, clientDataHash, rpIDHash) == [])
        #expect(steps(right, other, rpIDHash) == [.signature])
        #expect(steps(counterZero, other, other) == [.rpID, .counter, .signature])
        #expect(steps(Array(right.dropLast()), clientDataHash, rpIDHash) == [.form])
    }
}

/// The forms of assertions that devices send.
struct AssertionForm: CustomTestStringConvertible {
    var testDescription: String
    var flags: UInt8
    var extensions: [(String, [UInt8])]?
    /// Unsigned entries of the outer map before the two known ones.
    var unsigned: [(String, [UInt8])] = []

    private static let codeHash: [UInt8] = Array(0..<32)
    private static let appExtensions: [(String, [UInt8])] = [
        ("apple_bundle_version_01", CBORWriter.text("1.2.3")),
        ("apple_validation_category_01", CBORWriter.bytes([4, 0, 0, 0])),
    ]

    static let all: [AssertionForm] = [
        AssertionForm(testDescription: "iOS 14 to 26", flags: 0x40),
        AssertionForm(
            testDescription: "iOS 18.5 to 26, opted in to code hashes", flags: 0x40,
            unsigned: [
                (
                    "cdHash",
                    CBORWriter.map([
                        ("hash", CBORWriter.bytes(Array(codeHash.prefix(20)))), ("type", CBORWriter.bytes([2])),
                    ])
                )
            ]),
        AssertionForm(testDescription: "iOS 27", flags: 0xc0, extensions: appExtensions),
        AssertionForm(
            testDescription: "iOS 27, opted in to code hashes", flags: 0xc0,
            extensions: appExtensions + [
                ("apple_cd_hash_hash_01", CBORWriter.bytes(codeHash)),
                ("apple_cd_hash_type_01", CBORWriter.bytes([2])),
            ]),
        AssertionForm(testDescription: "macOS 27, Apple's sample of 2026", flags: 0x40, extensions: appExtensions),
        AssertionForm(
            testDescription: "macOS 27, opted in, short hash, other order", flags: 0x40,
            extensions: [
                ("apple_validation_category_01", CBORWriter.bytes([6, 0, 0, 0])),
                ("apple_cd_hash_type_01", CBORWriter.bytes([2])),
                ("apple_cd_hash_hash_01", CBORWriter.bytes(Array(codeHash.prefix(20)))),
            ]),
        AssertionForm(
            testDescription: "a system to come", flags: 0xff,
            extensions: appExtensions + [
                ("apple_unheard_of_01", CBORWriter.map([("a", [0xf5]), ("b", [0x82, 0x20, 0xf6])]))
            ]),
    ]

    func authenticatorData(rpIDHash: [UInt8], counter: UInt32) -> [UInt8] {
        rpIDHash + [flags] + bigEndian(UInt64(counter), 4) + (extensions.map(CBORWriter.map) ?? [])
    }

    func assertion(signature: [UInt8], authenticatorData: [UInt8]) -> [UInt8] {
        CBORWriter.map(
            unsigned + [
                ("signature", CBORWriter.bytes(signature)),
                ("authenticatorData", CBORWriter.bytes(authenticatorData)),
            ])
    }
}
