import Attestation
import Chance
import COpenSSL
import Cryptography
import Encoding
import Testing

/// For each step, a receipt by the test authority that is wrong in this step only.
@Suite("Receipt steps")
struct ReceiptTests {
    private let authority: TestAuthority

    init() throws { authority = try TestAuthority(LibraryContext()) }

    private func report(
        _ forgery: ReceiptForgery, _ receipt: [UInt8]? = nil, at time: Int64 = ReceiptForgery.time,
        hash: [UInt8]? = nil, appID: String = AttestationForgery.appID, age: Int64? = nil,
        root: TestAuthority? = nil
    ) throws -> ReceiptReport {
        let verifier = try ReceiptVerifier(root: (root ?? authority).trustedRoot(), authority.library)
        let expectation = ReceiptExpectation(
            appID: appID, publicKey: TestAuthority.point(of: forgery.attestedKey), clientDataHash: hash,
            maximumAge: age)
        let bytes = try receipt ?? forgery.receipt()
        let report = verifier.report(bytes, expectation, at: time)
        #expect((report.verified == nil) == report.steps.contains { $0.outcome.fault != nil })
        return report
    }

    private func faults(
        at time: Int64 = ReceiptForgery.time, hash: [UInt8]? = nil, appID: String = AttestationForgery.appID,
        age: Int64? = nil, _ change: (inout ReceiptForgery) throws -> Void = { _ in }
    ) throws -> [ReceiptFault] {
        var forgery = try ReceiptForgery(authority)
        try change(&forgery)
        let report = try report(forgery, at: time, hash: hash, appID: appID, age: age)
        return report.steps.compactMap(\.outcome.fault)
    }

    @Test("every way of signing is accepted and distinguished")
    func signing() throws {
        var forgery = try ReceiptForgery(authority)
        #expect(try report(forgery).coverage == .content)
        forgery.signing = .attributes
        #expect(try report(forgery).coverage == .attributes)
        forgery.signing = .payloadDespiteAttributes
        let found = try report(forgery)
        #expect(found.coverage == .contentDespiteAttributes)
        #expect(found.verified?.fields.kind == .attestation)
    }

    @Test("the fields of a receipt are read")
    func fields() throws {
        var forgery = try ReceiptForgery(authority)
        forgery.set(6, "RECEIPT")
        forgery.set(17, "42")
        forgery.set(19, "2026-04-21T18:13:12.5Z")
        let fields = try #require(try report(forgery).verified?.fields)
        #expect(fields.riskMetric == 42)
        #expect(fields.notBefore?.milliseconds == 1_776_795_192_500)
        #expect(fields.kind == .refreshed)
        #expect(fields.environment == "production")
        #expect(fields.creation.seconds == ReceiptForgery.time)
    }

    @Test("form: fields that are missing, repeated or malformed are refused")
    func form() throws {
        for type: UInt8 in [2, 3, 4, 6, 12, 21] {
            #expect(try faults { $0.fields.removeAll { $0.0 == type } } == [.field(Int(type))])
            #expect(try faults { $0.fields += $0.fields.filter { $0.0 == type } } == [.payload(.unexpectedValue)])
        }
        #expect(try faults { $0.set(12, "yesterday") } == [.field(12)])
        #expect(try faults { $0.set(17, "many") } == [.field(17)])
        #expect(try faults { $0.set(17, "-1") } == [.field(17)])
        #expect(try faults { $0.set(6, "OTHER") } == [.field(6)])
        #expect(try faults { $0.payload = $0.writtenPayload + [0] } == [.payload(.trailingBytes)])
        #expect(try faults { $0.payload = [0x30, 0x00] } == [.payload(.unexpectedTag)])
        #expect(try faults { $0.fields.append((99, [])) } == [])
    }

    @Test("form: anything but one signed message, or bytes behind it, is refused")
    func message() throws {
        let forgery = try ReceiptForgery(authority)
        let bytes = try forgery.receipt()
        for other in [[], [0x30], Array(bytes.dropLast()), bytes + [0], [UInt8](repeating: 0x30, count: 100)] {
            #expect(try report(forgery, other).steps.first?.outcome.fault?.step == .form)
        }
        let long = bytes + [UInt8](repeating: 0, count: ReceiptVerifier.lengthLimit)
        #expect(try report(forgery, long).steps.first?.outcome.fault == .tooLong)
    }

    @Test("app id and key: those of another app or key are refused")
    func binding() throws {
        #expect(try faults(appID: "TEAM123456.com.example.other") == [.appIDMismatch])
        #expect(try faults { $0.set(3, "no certificate") } == [.certificateUnreadable])
        let other = try ReceiptForgery(authority)
        #expect(try faults { $0.fields[1] = other.fields[1] } == [.publicKeyMismatch])
    }

    @Test("client data hash: it must be the attestation's, and only attestation receipts have one")
    func clientDataHash() throws {
        let right = [UInt8](repeating: 7, count: 32)
        #expect(try faults(hash: right) == [])
        #expect(try faults(hash: right + [0]) == [.clientDataHashMismatch])
        #expect(try faults(hash: right) { $0.set(6, "RECEIPT") } == [.notOfAttestation])
    }

    @Test("creation and expiry are checked to the second")
    func times() throws {
        let made = ReceiptForgery.time
        let end = made + 90 * 86_400
        #expect(try faults(at: made - 300) == [])
        #expect(try faults(at: made - 301).map(\.step) == [.creation])
        #expect(try faults(at: end) == [])
        #expect(try faults(at: end + 1).map(\.step) == [.expiration])
        #expect(try faults(at: made + 60, age: 60) == [])
        #expect(try faults(at: made + 61, age: 60).map(\.step) == [.creation])
    }

    @Test("signer: a chain to Apple's root alone does not make a signer of receipts")
    func signer() throws {
        #expect(try faults { $0.signerExtensions = [] } == [.signerNotMarked])
        #expect(try faults { $0.signerIsAuthority = true } == [.signerIsAuthority])
        #expect(try faults { $0.sendsIntermediate = false } == [.intermediateMissing])
        let none = try authority.intermediate(isAuthority: false)
        #expect(try faults { $0.intermediate = none } == [.intermediateIsNoAuthority])
    }

    @Test("validity: certificates must be valid when the receipt was created, not when it is read")
    func validity() throws {
        let made = ReceiptForgery.time
        #expect(try faults(at: made + 86_400) { $0.signerValidity = (made - 10)...made } == [])
        #expect(try faults { $0.signerValidity = (made - 10)...(made - 1) }.map(\.step) == [.validity])
        #expect(try faults { $0.signerValidity = (made + 1)...(made + 10) }.map(\.step) == [.validity])
    }

    @Test(
        "signature: one by another key, or over other attributes or payload, is refused",
        arguments: [
            ReceiptForgery.Signing.payload, .attributes, .payloadDespiteAttributes,
        ])
    func signature(_ signing: ReceiptForgery.Signing) throws {
        let other = try TestAuthority.key("P-256", authority.library)
        #expect(
            try faults {
                $0.signing = signing
                $0.otherKey = other
            } == [.signatureInvalid])
        var forgery = try ReceiptForgery(authority)
        forgery.signing = signing
        var bytes = try forgery.receipt()
        let token = try #require(bytes.indices.first { bytes[$0...].starts(with: Array("token".utf8)) })
        bytes[token] ^= 1
        #expect(try report(forgery, bytes).steps.compactMap(\.outcome.fault) == [.signatureInvalid])
    }

    @Test("signed attributes are not accepted as a payload")
    func confusion() throws {
        // What was signed as attributes also verifies as a payload, so it must not parse as one.
        let digest = [UInt8](repeating: 1, count: 32)
        let attributes = DERWriter.set(
            DERWriter.sequence(
                [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x04],
                DERWriter.set(DERWriter.octetString(digest))))
        #expect(try faults { $0.payload = attributes } == [.payload(.unexpectedTag)])
    }

    @Test("chain: another root of the same name is refused")
    func chain() throws {
        let other = try TestAuthority(authority.library)
        let forgery = try ReceiptForgery(authority)
        let faults = try report(forgery, root: other).steps.compactMap(\.outcome.fault)
        #expect(faults.map(\.step) == [.chain])
    }

    @Test("a truncated or changed receipt never traps and is never accepted as another")
    func mutations() throws {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        let forgery = try ReceiptForgery(authority)
        let bytes = try forgery.receipt()
        let fields = try #require(try report(forgery, bytes).verified?.fields)
        for _ in 0..<500 {
            var other = bytes
            other[Int.random(in: 0..<bytes.count, using: &generator)] ^= UInt8.random(in: 1...255, using: &generator)
            let found = try report(forgery, other)
            #expect(found.verified == nil || found.verified?.fields == fields, "seed \(seed)")
        }
    }
}

/// A receipt signed by a test authority. It is genuine except for the test's changes before signing.
struct ReceiptForgery {
    static let time: Int64 = 1_790_000_000

    enum Signing {
        /// Over the payload, without signed attributes, as Apple signs today.
        case payload
        /// Over signed attributes, as in RFC 5652.
        case attributes
        /// Over the payload despite signed attributes, as in iOS 14.0.
        case payloadDespiteAttributes
    }

    let authority: TestAuthority
    let attestedKey: PrivateKey
    let signerKey: PrivateKey

    /// Type and value of each field. `init` creates them in Apple's order.
    var fields: [(UInt8, [UInt8])]
    /// A payload that replaces the fields.
    var payload: [UInt8]?
    var signing = Signing.payload
    var signerExtensions: [(String, [UInt8])] = [("1.2.840.113635.100.12.15", [0x05, 0x00])]
    var signerValidity = (Self.time - 1_000_000)...(Self.time + 1_000_000)
    var signerIsAuthority: Bool? = false
    var intermediate: Certificate
    var sendsIntermediate = true
    /// A key that replaces the signer's.
    var otherKey: PrivateKey?

    init(_ authority: TestAuthority) throws {
        self.authority = authority
        attestedKey = try TestAuthority.key("P-256", authority.library)
        signerKey = try TestAuthority.key("P-256", authority.library)
        intermediate = try authority.intermediate()
        let leaf = try authority.leaf(
            TestAuthority.Request(subject: "leaf", validity: TestAuthority.validity), for: attestedKey, by: intermediate
        )
        func time(_ seconds: Int64) -> [UInt8] { Array(InternetTime(seconds: seconds).description.utf8) }
        fields = [
            (2, Array(AttestationForgery.appID.utf8)), (3, TestAuthority.der(leaf)),
            (4, [UInt8](repeating: 7, count: 32)), (5, Array("token".utf8)), (6, Array("ATTEST".utf8)),
            (7, Array("production".utf8)), (12, time(Self.time)), (21, time(Self.time + 90 * 86_400)),
        ]
    }

    mutating func set(_ type: UInt8, _ value: String?) {
        fields.removeAll { $0.0 == type }
        if let value { fields.append((type, Array(value.utf8))) }
    }

    var writtenPayload: [UInt8] {
        let items = fields.map { type, value in
            DERWriter.sequence(DERWriter.integer([type]), DERWriter.integer([1]), DERWriter.octetString(value))
        }
        return payload ?? DERWriter.item([0x31], items.flatMap { $0 })
    }

    func receipt() throws -> [UInt8] {
        let payload = writtenPayload
        let request = TestAuthority.Request(
            subject: "signer", validity: signerValidity, isAuthority: signerIsAuthority, extensions: signerExtensions)
        let signer = try authority.leaf(request, for: signerKey, by: intermediate)
        let digest = try authority.library.sha256(of: payload.span).bytes
        let attributes = Self.attributes(digest)
        // Signed as a SET, sent as [0] (RFC 5652 section 5.4).
        let set = DERWriter.item([0x31], attributes)
        let attributesDigest = try authority.library.sha256(of: set.span).bytes
        let signature = try SoftwareKey.sign(
            digest: signing == .attributes ? attributesDigest : digest, otherKey ?? signerKey, authority.library)
        let certificates =
            TestAuthority.der(signer) + (sendsIntermediate ? TestAuthority.der(intermediate) : [])
            + TestAuthority.der(authority.root)
        let sha256 = DERWriter.sequence(Self.sha256)
        let information = DERWriter.sequence(
            DERWriter.integer([1]), Self.issuerAndSerial(signer), sha256,
            signing == .payload ? [] : DERWriter.item([0xa0], attributes), DERWriter.sequence(Self.ecdsaSHA256),
            DERWriter.octetString(signature))
        // Indefinite lengths and a string in pieces, as in Apple's receipts.
        let half = payload.count / 2
        let pieces = DERWriter.octetString(Array(payload[..<half])) + DERWriter.octetString(Array(payload[half...]))
        let content = Self.indefinite(0x30, Self.data + Self.indefinite(0xa0, Self.indefinite(0x24, pieces)))
        let signed = Self.indefinite(
            0x30,
            DERWriter.integer([1]) + DERWriter.set(sha256) + content + DERWriter.item([0xa0], certificates)
                + DERWriter.set(information))
        return Self.indefinite(0x30, Self.signedData + Self.indefinite(0xa0, signed))
    }

    // MARK: - Pieces of CMS

    /// 1.2.840.113549.1.7.1 and .2
    private static let data = hexadecimal("06092a864886f70d010701")
    private static let signedData = hexadecimal("06092a864886f70d010702")
    /// 2.16.840.1.101.3.4.2.1
    private static let sha256 = hexadecimal("0609608648016503040201")
    /// 1.2.840.10045.4.3.2
    private static let ecdsaSHA256 = hexadecimal("06082a8648ce3d040302")
    /// 1.2.840.113549.1.9.3 and .4
    private static let contentType = hexadecimal("06092a864886f70d010903")
    private static let messageDigest = hexadecimal("06092a864886f70d010904")

    private static func hexadecimal(_ text: String) -> [UInt8] {
        let digits = text.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    private static func indefinite(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] { [tag, 0x80] + content + [0, 0] }

    private static func attributes(_ digest: [UInt8]) -> [UInt8] {
        DERWriter.sequence(contentType, DERWriter.set(data))
            + DERWriter.sequence(messageDigest, DERWriter.set(DERWriter.octetString(digest)))
    }

    private static func issuerAndSerial(_ certificate: Certificate) -> [UInt8] {
        var name: UnsafeMutablePointer<UInt8>?
        let nameLength = i2d_X509_NAME(X509_get_issuer_name(certificate.pointer), &name)
        var serial: UnsafeMutablePointer<UInt8>?
        let serialLength = i2d_ASN1_INTEGER(X509_get_serialNumber(certificate.pointer), &serial)
        defer {
            CRYPTO_free(name, #file, #line)
            CRYPTO_free(serial, #file, #line)
        }
        return DERWriter.sequence(
            Array(UnsafeBufferPointer(start: name, count: Int(nameLength)))
                + Array(UnsafeBufferPointer(start: serial, count: Int(serialLength))))
    }
}
