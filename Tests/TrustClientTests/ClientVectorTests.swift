import Cryptography
import Encoding
import Foundation
import RequestProof
import TestVectors
import Testing
import Vocabulary

@testable import TrustClient

@Suite("The client makes what docs/vectors says")
struct ClientVectorTests {
    @Test("signature base and fields of each proof", arguments: ["ios", "android"])
    func proofs(_ platform: String) throws {
        let vectors = try ProofVectors.read(platform)
        let keyID = try #require(KeyID(base64: vectors.key.keyid))
        let answer = GatewayAnswer(status: 204, acceptSignature: [vectors.acceptSignature], date: nil, content: [])
        let challenge = ReceivedChallenge(try #require(answer.challenge), receivedAt: 0)
        let verified = vectors.requests.filter { $0.verdict == "verified" }
        #expect(verified.count >= 4)
        for vector in verified {
            let content = Array(vector.content.utf8)
            let request = try AttestedRequest(
                method: vector.method, target: try #require(RequestTarget(url: vector.url)),
                fields: vector.fields.map { ($0[0], $0[1]) }, content: content.isEmpty ? .none : .bytes(content))
            let isAndroid = platform == "android"
            let draft = try ProofDraft(
                request, answering: challenge, keyID: keyID, created: vector.created,
                counter: isAndroid ? vector.counter : nil)
            #expect(String(decoding: draft.signatureBase, as: UTF8.self) == vector.signatureBase)
            let signature = hex(try #require(vector.signature))
            let sent = isAndroid ? ECDSASignature.fixedWidth(der: signature.span) : signature
            let fields = try draft.fields(assertion: try #require(sent))
            #expect(fields.lines.map { [$0.name, $0.value] } == vector.proof, "\(vector.name)")
        }
    }

    @Test("the key-binding token and the challenges of the attestation", arguments: ["ios", "android"])
    func keyBinding(_ platform: String) throws {
        let vectors = try ProofVectors.read(platform)
        let vector = vectors.keyBinding
        let keyID = try #require(KeyID(base64: vectors.key.keyid))
        let nonce = try #require(EnrolmentNonce(vector.nonce))
        let isAndroid = platform == "android"
        let tag = HardwareKeyTag(keyID, chosen: isAndroid ? Base64URL.decode(vector.hardwareKeyTag) : nil)
        #expect(tag.text == vector.hardwareKeyTag)
        let point = hex(vector.certificateKey)
        let token = KeyBindingToken(
            service: try #require(EnrolmentServiceAddress(url: vector.service)), nonce: nonce, tag: tag.text,
            point: point, admissionToken: nil)
        #expect(token.thumbprint == vector.thumbprint)
        let clientData = Array(vector.clientData.utf8)
        let signature = hex(vector.signature)
        let proof: KeyBindingProof
        if isAndroid {
            #expect(token.clientData.message(counter: vector.counter) == clientData)
            proof = .signature(signature, counter: vector.counter, certificateKey: nil)
        } else {
            #expect(token.clientData.hash == ContentHash.sha256(clientData))
            proof = .assertion(signature)
        }
        let input = token.signingInput(proof, issuedAt: vector.iat)
        #expect(input == vector.token.split(separator: ".").prefix(2).joined(separator: "."))
        for form in ClientDataForm.allCases {
            let expected = hex(try #require(vector.attested[form.rawValue]))
            #expect(form.hash(nonce, tag, point: point) == expected, "\(form)")
        }
    }
}
