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

    @Test("the key-binding token and the client data of the attestation")
    func keyBinding() throws {
        let vectors = try ProofVectors.read("ios")
        let vector = vectors.keyBinding
        let keyID = try #require(KeyID(base64: vectors.key.keyid))
        let nonce = try #require(EnrolmentNonce(vector.nonce))
        let point = hex(vector.certificateKey)
        let token = KeyBindingToken(
            service: try #require(EnrolmentServiceAddress(url: vector.service)), nonce: nonce, hardwareKeyID: keyID,
            point: point, admissionToken: nil)
        #expect(token.clientDataHash == ContentHash.sha256(Array(vector.clientData.utf8)))
        let entries = try #require(AssertionEntries(hex(vector.signature)))
        let input = token.signingInput(entries, issuedAt: vector.iat)
        #expect(input == vector.token.split(separator: ".").prefix(2).joined(separator: "."))
        for form in ClientDataForm.allCases {
            let expected = hex(try #require(vector.attested[form.rawValue]))
            #expect(form.hash(nonce, keyID, point: point) == expected, "\(form)")
        }
    }
}
