import Cryptography
import Enrolment
import Testing

@Suite("Instance initialization")
struct InstanceInitializationTests {
    private static let nonce = "EBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8"
    private static let tag = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    /// The base point of P-256.
    private static let point =
        "BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"

    private let keys: Keys

    init() throws { keys = try Keys() }

    private static let valid = Draft(members: [
        ("nonce", quoted(nonce)), ("hardware_key_tag", quoted(tag)), ("key_attestation", "\"o2Nm\""),
    ])

    private func read(_ draft: Draft) -> Result<InstanceInitialization, EnrolmentFault> { read(draft.text) }

    private func read(_ text: String) -> Result<InstanceInitialization, EnrolmentFault> {
        do throws(EnrolmentFault) {
            return .success(try InstanceInitialization(Array(text.utf8), keys.library))
        } catch {
            return .failure(error)
        }
    }

    /// Returns the valid request with one member altered. Nil removes it.
    private func read(_ name: String, _ value: String?) -> Result<InstanceInitialization, EnrolmentFault> {
        var draft = Self.valid
        draft[name] = value
        return read(draft)
    }

    @Test("the three members are read")
    func valid() throws {
        let request = try read(Self.valid).get()
        #expect(request.nonce.bytes == Array(16..<48))
        guard case .apple(let attestation, let keyID) = request.attestation else { throw OtherPlatform() }
        #expect(keyID.bytes == Array(0..<32))
        #expect(attestation == [0xa3, 0x63, 0x66])
        #expect(request.mtlsPublicKey == nil)
        guard case .apple(let evidence) = try request.evidence(.nonceAndTag, keys.library) else {
            throw OtherPlatform()
        }
        #expect(evidence.keyID == keyID && evidence.attestation == attestation)
        #expect(evidence.clientDataHash.count == 32)
    }

    private struct OtherPlatform: Error {}

    /// A request of an Android phone. Its tag has 20 bytes.
    private static let android = Draft(members: [
        ("nonce", quoted(nonce)), ("hardware_key_tag", "\"AAECAwQFBgcICQoLDA0ODxAREhM\""),
        ("key_attestation", "[\"AQI\",\"Aw\"]"),
    ])

    @Test("a list of certificates is read as an Android phone's, with any tag of 16 to 64 bytes")
    func android() throws {
        let request = try read(Self.android).get()
        #expect(request.attestation == .android([[1, 2], [3]], tag: Array(0..<20)))
        guard case .android(let evidence, let tag) = try request.evidence(.nonce, keys.library) else {
            throw OtherPlatform()
        }
        #expect(evidence.certificates == [[1, 2], [3]])
        #expect(tag == Array(0..<20))
        #expect(evidence.clientDataHash == Array(Self.nonce.utf8))
        func altered(_ member: String, _ value: String?) -> Result<InstanceInitialization, EnrolmentFault> {
            var draft = Self.android
            draft[member] = value
            return read(draft)
        }
        for count in [16, 64] {
            let tag = quoted(base64URL([UInt8](repeating: 1, count: count)))
            #expect(altered("hardware_key_tag", tag).failure == nil)
        }
        for count in [0, 15, 65] {
            let tag = quoted(base64URL([UInt8](repeating: 1, count: count)))
            #expect(altered("hardware_key_tag", tag) == .failure(.valueFormat(.hardwareKeyTag)))
        }
        let many = "[" + [String](repeating: "\"AQ\"", count: 17).joined(separator: ",") + "]"
        for chain in [#"["AQ",1]"#, #"["AQ",["AQ"]]"#, #"["AQ=="]"#, many] {
            #expect(altered("key_attestation", chain) == .failure(.valueFormat(.keyAttestation)))
        }
        // The list of certificates may be empty here: the verifier counts them.
        #expect(altered("key_attestation", "[]").failure == nil)
        let other = try altered("mtls_public_key", quoted(Self.point)).get()
        #expect(throws: EnrolmentFault.memberUnknown) { try other.clientDataHash(.dsr, keys.library) }
    }

    @Test("the client data hash has the form the app is configured for")
    func clientDataHash() throws {
        func hash(_ form: ClientDataFormat, key: String? = nil) throws -> String {
            let hash = try read("mtls_public_key", key.map(quoted)).get().clientDataHash(form, keys.library)
            return hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        // The expected values were computed with Python's hashlib.
        #expect(try hash(.nonceAndTag) == "0c208f842d758816453fbc0c0b6fb7bd73ca1031b21fc5040233f37b2ba5de0c")
        #expect(try hash(.nonce) == "6c8784109d2bcbb821eea202dc94a696e4f063da23ab85e1e667b2fd9a24e5b8")
        #expect(
            try hash(.dsr, key: Self.point) == "2f75545513d7b8d9538ce5563975f5c6a7033a54172ec3c4bbf1787945a27a1e")
    }

    @Test("mtls_public_key is accepted only in the form dsr")
    func forms() throws {
        let without = try read(Self.valid).get()
        let with = try read("mtls_public_key", quoted(Self.point)).get()
        #expect(throws: EnrolmentFault.memberMissing(.mtlsPublicKey)) { try without.clientDataHash(.dsr, keys.library) }
        for form in [ClientDataFormat.nonceAndTag, .nonce] {
            #expect(throws: EnrolmentFault.memberUnknown) { try with.clientDataHash(form, keys.library) }
        }
    }

    @Test("a missing, unknown or repeated member is a bad request")
    func badRequests() {
        for member in [RequestMember.nonce, .hardwareKeyTag, .keyAttestation] {
            #expect(read(member.rawValue, nil) == .failure(.memberMissing(member)))
        }
        #expect(read("x", "1") == .failure(.memberUnknown))
        #expect(read("Nonce", "1") == .failure(.memberUnknown))
        var twice = Self.valid
        twice.members.append(("nonce", quoted(Self.nonce)))
        #expect(read(twice) == .failure(.contentMalformed(.duplicateName)))
        for text in ["", "nonce", "{", Self.valid.text + "x", "\u{feff}" + Self.valid.text] {
            #expect(read(text).failure?.error == .badRequest)
        }
        #expect(EnrolmentFault.memberUnknown.error == .badRequest)
        #expect(EnrolmentFault.memberMissing(.nonce).error == .badRequest)
    }

    @Test("a value of the wrong form is a validation error")
    func validation() {
        let long = String(repeating: "A", count: 21_848)  // 16 386 bytes
        let wrong: [(RequestMember, [String])] = [
            (.nonce, ["1", "null", "\"\"", quoted(Self.nonce + "="), "\"ABC\"", quoted(Self.nonce + "!")]),
            (.hardwareKeyTag, ["1", "{}", "\"AAAA\"", quoted(Self.tag + "="), quoted(Self.tag.dropLast() + "9")]),
            (.keyAttestation, ["{}", "\"\"", "\"o2Nm \"", "\"o2N+\"", "\"o2Nm=\"", quoted(long)]),
            (
                .mtlsPublicKey,
                ["null", "\"\"", quoted(Self.point.dropLast() + "V"), quoted("Bm" + Self.point.dropFirst(2))]
            ),
        ]
        for (member, values) in wrong {
            for value in values {
                let fault = read(member.rawValue, value).failure
                #expect(fault == .valueFormat(member), "\(member.rawValue): \(value.prefix(60))")
                #expect(fault?.error == .validation)
            }
        }
    }

    @Test("the largest attestation is accepted")
    func longest() throws {
        let long = base64URL([UInt8](repeating: 7, count: 16_384))
        guard case .apple(let read, _) = try read("key_attestation", quoted(long)).get().attestation else {
            throw OtherPlatform()
        }
        #expect(read.count == 16_384)
    }
}

@Suite("The provider's URL")
struct ProviderURLTests {
    @Test("only an https URL in its one spelling is accepted")
    func spelling() {
        for text in ["https://enrol.example.org", "https://enrol.example.org:8444/gms", "https://[::1]:8444"] {
            #expect(ProviderURL(text)?.text == text)
        }
        let long = "https://" + String(repeating: "a", count: 1024)
        for text in [
            "", "https://", "http://a", "https://a/", "https://a?b", "https://a#b", "https://a b", "https://a\"b",
            "https://\u{e4}", "HTTPS://a", "https://a\n", "https://a@b", long,
        ] { #expect(ProviderURL(text) == nil, "\(text.prefix(40))") }
    }
}
