import Attestation
import Chance
import Cryptography
import Enrolment
import Testing

@Suite("Key binding tokens")
struct KeyBindingVerifierTests {
    private let keys: Keys

    init() throws { keys = try Keys() }

    @Test("a token with the required members is verified and read")
    func valid() throws {
        let draft = try KeyBindingDraft(keys)
        let binding = try draft.verify().get()
        #expect(binding.nonce.text == Array(KeyBindingDraft.nonce.utf8))
        #expect(binding.nonce.bytes == Array(16..<48))
        #expect(binding.point == draft.newKey.point)
        #expect(try binding.keyID == keys.keyID(draft.newKey.point))
        #expect(try binding.hardwareKey == keys.keyID(draft.hardwareKey.point).map { .keyID($0) })
        #expect(binding.thumbprint == draft.thumbprint)
        #expect(binding.admission == nil)
    }

    @Test("every other token is refused by the check intended for it", arguments: KeyBindingAlteration.all)
    func refused(_ alteration: KeyBindingAlteration) throws {
        var draft = try KeyBindingDraft(keys)
        try alteration.alter(&draft)
        #expect(try draft.verify() == .failure(alteration.fault))
    }

    @Test("times are accepted up to their bounds")
    func times() throws {
        var draft = try KeyBindingDraft(keys)
        for offset: Int64 in [-60, 0, 60] {
            let issued = KeyBindingDraft.now + offset
            draft.claims["iat"] = "\(issued)"
            draft.claims["exp"] = "\(issued + 300)"
            #expect(try draft.verify().failure == nil)
        }
        draft.claims["iat"] = "\(KeyBindingDraft.now)"
        draft.claims["exp"] = "\(KeyBindingDraft.now + 1)"
        #expect(try draft.verify().failure == nil)
        #expect(try draft.verify(now: KeyBindingDraft.now + 1) == .failure(.tokenExpiry))
    }

    @Test("look-alikes are not equal: an aud with a Kelvin sign names another service")
    func lookAlikes() throws {
        var draft = try KeyBindingDraft(keys)
        let provider = try #require(ProviderURL("https://enrol.example.org/K"))
        let verifier = KeyBindingVerifier(provider: provider, keys.library)
        draft.claims["iss"] = quoted("\(provider.text)/instance/\(draft.thumbprint)")
        draft.claims["aud"] = quoted(provider.text)
        #expect(KeyBindingDraft.verify(try draft.content(), verifier).failure == nil)
        draft.claims["aud"] = quoted("https://enrol.example.org/\u{212a}")
        #expect("\u{212a}" == "K", "strings of Swift are equal when they look alike")
        #expect(KeyBindingDraft.verify(try draft.content(), verifier) == .failure(.tokenAudience))
    }

    @Test("anything but JSON and a JWT is malformed")
    func malformed() throws {
        let verifier = try KeyBindingDraft(keys).verifier()
        func fault(_ content: String) -> EnrolmentFault? {
            KeyBindingDraft.verify(Array(content.utf8), verifier).failure
        }
        #expect(fault("") == .contentMalformed(.malformed))
        #expect(fault("[]") == .contentMalformed(.notAnObject))
        #expect(fault("{}") == .memberMissing(.assertion))
        #expect(fault(#"{"assertion":1}"#) == .valueFormat(.assertion))
        for token in [
            "", "a", "a.b", "..", "e30.e30", "e30.e30.e30.", "e30=.e30.AA", "e30.e30.A", "e30.W10.AA", "e30.e30 .AA",
        ] {
            #expect(fault(#"{"assertion":"\#(token)"}"#) == .tokenMalformed, "\(token)")
        }
        let long = String(repeating: "A", count: RequestContent.lengthLimit)
        #expect(fault(#"{"assertion":"\#(long)"}"#) == .contentMalformed(.tooLong))
    }

    @Test("a token with any character replaced is refused")
    func mutatedCharacters() throws {
        let draft = try KeyBindingDraft(keys)
        let content = try draft.content()
        let verifier = try draft.verifier()
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        for index in content.indices {
            var other = content
            other[index] = UInt8.random(in: 0...255, using: &generator)
            guard other != content else { continue }
            #expect(KeyBindingDraft.verify(other, verifier).failure != nil, "byte \(index), seed \(seed)")
        }
    }

    @Test("a token with bytes removed, repeated or swapped is refused")
    func mutatedParts() throws {
        let draft = try KeyBindingDraft(keys)
        let content = try draft.content()
        let verifier = try draft.verifier()
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        for round in 0..<2_000 {
            var other = content
            let bounds = [0, 0].map { _ in Int.random(in: 0...content.count, using: &generator) }.sorted()
            let part = other[bounds[0]..<bounds[1]]
            switch round % 3 {
            case 0: other.removeSubrange(bounds[0]..<bounds[1])
            case 1: other.insert(contentsOf: part, at: bounds[1])
            default: other.replaceSubrange(bounds[0]..<bounds[1], with: part.reversed())
            }
            guard other != content else { continue }
            #expect(KeyBindingDraft.verify(other, verifier).failure != nil, "round \(round), seed \(seed)")
        }
    }
}

@Suite("The hardware key's proof of a key binding")
struct KeyBindingProofTests {
    private let keys: Keys
    private let draft: KeyBindingDraft

    init() throws {
        keys = try Keys()
        draft = try KeyBindingDraft(keys)
    }

    private func verify(
        _ binding: KeyBinding, _ key: P256SigningKey, app: String = KeyBindingDraft.appID
    ) throws -> Result<VerifiedAssertion, EnrolmentFault> {
        let key = try keys.verification(key)
        let rpIDHash = try keys.hash(Array(app.utf8))
        do throws(EnrolmentFault) {
            return .success(try binding.verifyAssertion(key: key, rpIDHash: rpIDHash.span, keys.library))
        } catch {
            return .failure(error)
        }
    }

    /// Returns the draft with authenticator data and signature of another kind.
    private func binding(
        counter: UInt8 = 7, clientData: (KeyBinding) -> String = { String(decoding: $0.clientData, as: UTF8.self) }
    ) throws -> KeyBinding {
        var other = draft
        let data = try keys.hash(Array(KeyBindingDraft.appID.utf8)) + [0x40, 0, 0, 0, counter]
        let signed = Array(clientData(try draft.verify().get()).utf8)
        let signature = try keys.sign(authenticatorData: data, clientData: signed, draft.hardwareKey)
        other.claims["hardware_signature"] = quoted(base64URL(signature))
        other.claims["key_attestation"] = quoted(base64URL(data))
        return try other.verify().get()
    }

    @Test("the client data is exactly these bytes")
    func clientData() throws {
        let binding = try draft.verify().get()
        let expected = #"{"nonce":"\#(KeyBindingDraft.nonce)","jwk_thumbprint":"\#(draft.thumbprint)"}"#
        #expect(String(decoding: binding.clientData, as: UTF8.self) == expected)
    }

    @Test("an assertion of the registered key verifies, and its counter is returned")
    func valid() throws {
        #expect(try verify(draft.verify().get(), draft.hardwareKey).get().counter == 7)
        #expect(try verify(binding(counter: 9), draft.hardwareKey).get().counter == 9)
    }

    @Test("another key, app, nonce or thumbprint, and counter 0, are refused")
    func refused() throws {
        let binding = try draft.verify().get()
        #expect(try verify(binding, draft.newKey) == .failure(.assertion(.signatureInvalid)))
        let otherApp = "TEAM123456.com.example.other"
        #expect(try verify(binding, draft.hardwareKey, app: otherApp) == .failure(.assertion(.rpIDMismatch)))
        #expect(
            try verify(self.binding(counter: 0), draft.hardwareKey) == .failure(.assertion(.counterZero)))
        let wrong: [(KeyBinding) -> String] = [
            { #"{"nonce":"x","jwk_thumbprint":"\#($0.thumbprint)"}"# },
            { _ in #"{"nonce":"\#(KeyBindingDraft.nonce)","jwk_thumbprint":"x"}"# },
            { #"{"jwk_thumbprint":"\#($0.thumbprint)","nonce":"\#(KeyBindingDraft.nonce)"}"# },
            { #"{"nonce": "\#(KeyBindingDraft.nonce)", "jwk_thumbprint": "\#($0.thumbprint)"}"# },
        ]
        for clientData in wrong {
            let binding = try self.binding(clientData: clientData)
            #expect(try verify(binding, draft.hardwareKey) == .failure(.assertion(.signatureInvalid)))
        }
    }

    @Test("malformed authenticator data is refused as a malformed assertion is")
    func form() throws {
        var other = draft
        other.claims["key_attestation"] = quoted(base64URL([UInt8](repeating: 0, count: 36)))
        let fault = try verify(other.verify().get(), draft.hardwareKey).failure
        #expect(fault == .assertion(.authenticatorData(.tooShort)))
        #expect(fault?.error == .invalidRequest)
    }
}

/// A single fault in a key binding, with the refusal that it causes.
struct KeyBindingAlteration: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var fault: EnrolmentFault
    var alter: @Sendable (inout KeyBindingDraft) throws -> Void

    init(
        _ description: String, _ fault: EnrolmentFault,
        _ alter: @escaping @Sendable (inout KeyBindingDraft) throws -> Void
    ) {
        testDescription = description
        self.fault = fault
        self.alter = alter
    }

    static let all: [KeyBindingAlteration] = body + header + key + claims + times + values

    private static let body: [KeyBindingAlteration] = [
        Self("a second member beside assertion", .memberUnknown) { $0.body["x"] = "1" },
        Self("assertion twice", .contentMalformed(.duplicateName)) { $0.body.members = [("assertion", "\"\"")] },
    ]

    private static let header: [KeyBindingAlteration] = [
        Self("no alg", .memberMissing(.algorithm)) { $0.header["alg"] = nil },
        Self("no kid", .memberMissing(.keyID)) { $0.header["kid"] = nil },
        Self("no typ", .memberMissing(.type)) { $0.header["typ"] = nil },
        Self("alg none", .tokenAlgorithm) { $0.header["alg"] = "\"none\"" },
        Self("alg none without a signature", .tokenAlgorithm) {
            $0.header["alg"] = "\"none\""
            $0.alterSignature = { _ in [] }
        },
        Self("alg in lower case", .tokenAlgorithm) { $0.header["alg"] = "\"es256\"" },
        Self("alg of a MAC", .tokenAlgorithm) { $0.header["alg"] = "\"HS256\"" },
        Self("alg a number", .tokenAlgorithm) { $0.header["alg"] = "256" },
        Self("typ JWT", .tokenType) { $0.header["typ"] = "\"JWT\"" },
        Self("typ with a media type's prefix", .tokenType) { $0.header["typ"] = "\"application/rp-kb+jwt\"" },
        Self("typ in upper case", .tokenType) { $0.header["typ"] = "\"RP-KB+JWT\"" },
        Self("kid of another key", .tokenKeyID) {
            $0.header["kid"] = quoted(base64URL([UInt8](repeating: 7, count: 32)))
        },
        Self("kid with padding", .tokenKeyID) { $0.header["kid"] = quoted($0.thumbprint + "=") },
        Self("header with crit", .tokenMembers) { $0.header["crit"] = "[\"exp\"]" },
        Self("header with a key of its own", .tokenMembers) { $0.header["jwk"] = $0.jwk.text },
        Self("header with jku", .tokenMembers) { $0.header["jku"] = "\"https://evil.example\"" },
        Self("alg twice", .tokenMembers) { $0.header.members.append(("alg", "\"none\"")) },
        Self("alg twice, once in escapes", .tokenMembers) { $0.header.members.append((#"\u0061lg"#, "\"ES256\"")) },
    ]

    private static let key: [KeyBindingAlteration] = [
        Self("no cnf", .memberMissing(.confirmation)) { $0.claims["cnf"] = nil },
        Self("cnf is text", .tokenKey) { $0.claims["cnf"] = "\"\"" },
        Self("cnf without jwk", .memberMissing(.jwk)) { $0.claims["cnf"] = "{\"jkt\":\"x\"}" },
        Self("cnf with more than jwk", .tokenMembers) { $0.confirmation["jkt"] = quoted($0.thumbprint) },
        Self("jwk twice", .tokenMembers) { $0.confirmation["jwk"] = $0.jwk.text },
        Self("jwk is text", .tokenKey) { $0.claims["cnf"] = "{\"jwk\":\"\"}" },
        Self("jwk without kty", .tokenKey) { $0.jwk["kty"] = nil },
        Self("jwk without y", .tokenKey) { $0.jwk["y"] = nil },
        Self("jwk of another type", .tokenKey) { $0.jwk["kty"] = "\"OKP\"" },
        Self("jwk on another curve", .tokenKey) { $0.jwk["crv"] = "\"P-384\"" },
        Self("jwk with its private key", .tokenMembers) { $0.jwk["d"] = "\"AA\"" },
        Self("jwk with alg", .tokenMembers) { $0.jwk["alg"] = "\"ES256\"" },
        Self("x of 31 bytes", .tokenKey) { $0.jwk["x"] = quoted(base64URL(Array($0.newKey.point[2..<33]))) },
        Self("x of 33 bytes", .tokenKey) { $0.jwk["x"] = quoted(base64URL([0] + Array($0.newKey.point[1..<33]))) },
        Self("x with padding", .tokenKey) { $0.jwk["x"] = quoted(base64URL(Array($0.newKey.point[1..<33])) + "=") },
        Self("a point off the curve", .tokenKey) {
            var y = Array($0.newKey.point[33...])
            y[31] ^= 1
            $0.jwk["y"] = quoted(base64URL(y))
            let x = base64URL(Array($0.newKey.point[1..<33]))
            let text = #"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(base64URL(y))"}"#
            let thumbprint = base64URL(try $0.keys.hash(Array(text.utf8)))
            $0.header["kid"] = quoted(thumbprint)
            $0.claims["iss"] = quoted("\(KeyBindingDraft.provider)/instance/\(thumbprint)")
        },
        Self("signed by another key", .tokenSignature) { $0.signer = $0.hardwareKey },
        Self("no signature", .tokenSignature) { $0.alterSignature = { _ in [] } },
        Self("a signature of zeros", .tokenSignature) { $0.alterSignature = { _ in [UInt8](repeating: 0, count: 64) } },
        Self("a signature of 63 bytes", .tokenSignature) { $0.alterSignature = { Array($0.dropLast()) } },
        Self("a signature of 65 bytes", .tokenSignature) { $0.alterSignature = { $0 + [0] } },
        Self("a signature in DER", .tokenSignature) {
            $0.alterSignature = { [0x30, 0x44, 0x02, 0x20] + $0[..<32] + [0x02, 0x20] + $0[32...] }
        },
    ]

    private static let claims: [KeyBindingAlteration] = [
        Self("no iss", .memberMissing(.issuer)) { $0.claims["iss"] = nil },
        Self("no aud", .memberMissing(.audience)) { $0.claims["aud"] = nil },
        Self("no iat", .memberMissing(.issuedAt)) { $0.claims["iat"] = nil },
        Self("no exp", .memberMissing(.expiry)) { $0.claims["exp"] = nil },
        Self("no nonce", .memberMissing(.nonce)) { $0.claims["nonce"] = nil },
        Self("no hardware_key_tag", .memberMissing(.hardwareKeyTag)) { $0.claims["hardware_key_tag"] = nil },
        Self("no hardware_signature", .memberMissing(.hardwareSignature)) { $0.claims["hardware_signature"] = nil },
        Self("no key_attestation", .memberMissing(.keyAttestation)) { $0.claims["key_attestation"] = nil },
        Self("a claim that is unknown", .tokenMembers) { $0.claims["sub"] = "\"x\"" },
        Self("a claim in another case", .tokenMembers) { $0.claims["Nonce"] = "\"x\"" },
        Self("aud twice", .tokenMembers) { $0.claims.members.append(("aud", quoted(KeyBindingDraft.provider))) },
        Self("an admission token where none is asked for", .tokenMembers) { $0.claims["admission_token"] = "\"x\"" },
        Self("aud of another service", .tokenAudience) { $0.claims["aud"] = "\"https://enrol.example.com\"" },
        Self("aud with a slash", .tokenAudience) { $0.claims["aud"] = quoted(KeyBindingDraft.provider + "/") },
        Self("aud in another case", .tokenAudience) { $0.claims["aud"] = "\"https://ENROL.example.org\"" },
        Self("aud in a list", .tokenAudience) { $0.claims["aud"] = "[\(quoted(KeyBindingDraft.provider))]" },
        Self("iss of another thumbprint", .tokenIssuer) {
            $0.claims["iss"] = quoted(KeyBindingDraft.provider + "/instance/x")
        },
        Self("iss without /instance/", .tokenIssuer) { $0.claims["iss"] = quoted(KeyBindingDraft.provider) },
        Self("iss of another service", .tokenIssuer) {
            $0.claims["iss"] = quoted("https://enrol.example.com/instance/\($0.thumbprint)")
        },
        Self("iss null", .tokenIssuer) { $0.claims["iss"] = "null" },
    ]

    private static let times: [KeyBindingAlteration] = [
        Self("iat 61 s behind", .tokenIssuedAt) { $0.claims["iat"] = "\(KeyBindingDraft.now - 61)" },
        Self("iat 61 s ahead", .tokenIssuedAt) { $0.claims["iat"] = "\(KeyBindingDraft.now + 61)" },
        Self("iat with a fraction", .tokenIssuedAt) { $0.claims["iat"] = "\(KeyBindingDraft.now).0" },
        Self("iat as text", .tokenIssuedAt) { $0.claims["iat"] = quoted("\(KeyBindingDraft.now)") },
        Self("iat below all integers", .tokenIssuedAt) { $0.claims["iat"] = "\(Int64.min)" },
        Self("iat above all integers", .tokenIssuedAt) { $0.claims["iat"] = "9223372036854775808" },
        Self("exp now", .tokenExpiry) { $0.claims["exp"] = "\(KeyBindingDraft.now)" },
        Self("exp 301 s after iat", .tokenExpiry) { $0.claims["exp"] = "\(KeyBindingDraft.now + 301)" },
        Self("exp as far as integers go", .tokenExpiry) { $0.claims["exp"] = "\(Int64.max)" },
        Self("exp true", .tokenExpiry) { $0.claims["exp"] = "true" },
    ]

    private static let values: [KeyBindingAlteration] = [
        Self("nonce a number", .valueFormat(.nonce)) { $0.claims["nonce"] = "1" },
        Self("nonce too short", .valueFormat(.nonce)) { $0.claims["nonce"] = "\"AAAAAAAAAAAAAAAAAAAA\"" },
        Self("nonce too long", .valueFormat(.nonce)) {
            $0.claims["nonce"] = quoted(base64URL([UInt8](repeating: 0, count: 97)))
        },
        Self("nonce with a quote", .valueFormat(.nonce)) {
            $0.claims["nonce"] = quoted(KeyBindingDraft.nonce + #"\",\"jwk_thumbprint\":\"x"#)
        },
        Self("hardware_key_tag of 31 bytes", .valueFormat(.hardwareKeyTag)) {
            $0.claims["hardware_key_tag"] = quoted(base64URL([UInt8](repeating: 0, count: 31)))
        },
        Self("hardware_key_tag in a second spelling", .valueFormat(.hardwareKeyTag)) {
            $0.claims["hardware_key_tag"] = quoted(String(repeating: "A", count: 42) + "B")
        },
        Self("hardware_signature in base64", .valueFormat(.hardwareSignature)) {
            $0.claims["hardware_signature"] = "\"ab+/\""
        },
        Self("hardware_signature empty", .valueFormat(.hardwareSignature)) { $0.claims["hardware_signature"] = "\"\"" },
        Self("key_attestation null", .valueFormat(.keyAttestation)) { $0.claims["key_attestation"] = "null" },
        Self("key_attestation of 4097 bytes", .valueFormat(.keyAttestation)) {
            $0.claims["key_attestation"] = quoted(base64URL([UInt8](repeating: 0, count: 4097)))
        },
    ]
}
