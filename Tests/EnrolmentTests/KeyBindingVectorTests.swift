import Attestation
import Cryptography
import Encoding
import TestVectors
import Testing
import Vocabulary

@testable import Enrolment

@Suite("The service verifies the key bindings of docs/vectors")
struct KeyBindingVectorTests {
    private let keys: Keys

    init() throws { keys = try Keys() }

    private func verify(_ vectors: ProofVectors, token: String? = nil, after seconds: Int64 = 0) throws -> KeyBinding {
        let vector = vectors.keyBinding
        let verifier = KeyBindingVerifier(provider: try #require(ProviderURL(vector.service)), keys.library)
        let content = #"{"assertion":"\#(token ?? vector.token)"}"#
        return try verifier.verify(Array(content.utf8), now: vector.iat + seconds)
    }

    /// Returns the counter that the hardware key has vouched for.
    private func counter(of binding: KeyBinding, _ vectors: ProofVectors, by point: [UInt8]) throws -> UInt32 {
        let key = try P256VerificationKey(point: point.span, keys.library)
        guard try #require(AppID(vectors.app)).isAndroid else {
            let rpIDHash = try keys.hash(Array(vectors.app.utf8))
            return try binding.verifyAssertion(key: key, rpIDHash: rpIDHash.span, keys.library).counter
        }
        let verified = try binding.verifySignature(key: key, keys.library)
        #expect(verified.mtlsKeyAttestation == nil)
        return verified.counter
    }

    @Test("each is verified and read", arguments: ["ios", "android"])
    func verified(_ platform: String) throws {
        let vectors = try ProofVectors.read(platform)
        let vector = vectors.keyBinding
        let binding = try verify(vectors)
        #expect(binding.nonce.text == Array(vector.nonce.utf8))
        #expect(binding.tag == Array(vector.hardwareKeyTag.utf8))
        let tag = try #require(Base64URL.decode(vector.hardwareKeyTag))
        let keyID = try #require(KeyID(base64: vectors.key.keyid))
        #expect(binding.hardwareKey == (platform == "android" ? .tag(tag) : .keyID(keyID)))
        #expect(binding.point == hex(vector.certificateKey))
        #expect(binding.thumbprint == vector.thumbprint)
        #expect(binding.clientData == Array(vector.clientData.utf8))
        #expect(binding.playIntegrityToken == nil && binding.admission == nil)
        #expect(try counter(of: binding, vectors, by: hex(vectors.key.point)) == vector.counter)
    }

    @Test("none is verified late, with another signature, or for another hardware key", arguments: ["ios", "android"])
    func refused(_ platform: String) throws {
        let vectors = try ProofVectors.read(platform)
        let vector = vectors.keyBinding
        #expect(throws: EnrolmentFault.tokenIssuedAt) { try verify(vectors, after: 61) }
        let parts = vector.token.split(separator: ".")
        let unsigned = parts.prefix(2).joined(separator: ".") + "." + base64URL([UInt8](repeating: 1, count: 64))
        #expect(throws: EnrolmentFault.tokenSignature) { try verify(vectors, token: unsigned) }
        let binding = try verify(vectors)
        #expect(throws: EnrolmentFault.self) {
            try counter(of: binding, vectors, by: hex(vector.certificateKey))
        }
    }
}
