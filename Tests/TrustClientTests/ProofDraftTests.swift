import RequestProof
import Testing
import TrustClient
import Vocabulary

@Suite("Proofs made by a client")
struct ProofDraftTests {
    @Test("the signature base is RFC 9421's, and its SHA-256 is signed")
    func base() throws {
        let request = try AttestedRequest(
            method: "POST", target: Sample.target("https://Records.example:443/a?b"),
            fields: [("Content-Type", " text/plain "), ("X-Two", "1"), ("x-two", "2")],
            content: .bytes(Array("abc".utf8)))
        let draft = try ProofDraft(
            request, answering: Sample.challenge("abc", extra: #" "x-two""#), keyID: Sample.keyID,
            created: 1_763_690_000)
        let parameters =
            #"("@method" "@authority" "@path" "@query" "content-digest" "content-type" "x-two");created=1763690000;"#
            + #"keyid="\#(Sample.keyID.base64)";nonce="abc";alg="apple-attest";tag="attestgate-request""#
        let digest = "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:"
        #expect(
            Sample.text(draft.signatureBase) == """
                "@method": POST
                "@authority": records.example
                "@path": /a
                "@query": ?b
                "content-digest": \(digest)
                "content-type": text/plain
                "x-two": 1, 2
                "@signature-params": \(parameters)
                """)
        #expect(draft.clientDataHash.count == 32)
        let fields = try draft.fields(assertion: Array("foo".utf8))
        #expect(fields.lines.map(\.name) == ["Content-Digest", "Signature-Input", "Signature"])
        #expect(fields.lines.map(\.value) == [digest, "attest=" + parameters, "attest=:Zm9v:"])
    }

    @Test("a gateway reads the fields as the client meant them and misses nothing")
    func understood() throws {
        let request = try AttestedRequest(
            method: "DELETE", target: Sample.target(), fields: [("Authorization", "Bearer t")])
        let draft = try ProofDraft(
            request, answering: Sample.challenge("n"), keyID: Sample.keyID, created: 5, expires: 9)
        let fields = try draft.fields(assertion: [1, 2, 3])
        let input = try SignatureInput(parsing: fields.signatureInput.span)
        try Coverage().check(input, for: [.authorization])
        #expect(input.keyID == Sample.keyID && input.created == 5 && input.expires == 9)
        #expect(try ProofSignature(parsing: fields.signature.span).assertion == [1, 2, 3])
        #expect(fields.contentDigest == nil && fields.lines.count == 2)
    }

    @Test("a request that cannot be signed has no proof")
    func refused() throws {
        let challenge = try Sample.challenge("n")
        for value in ["a\nb", "\u{e4}"] {
            let request = try AttestedRequest(
                method: "GET", target: Sample.target(), fields: [("Authorization", value)])
            #expect(throws: ProofFault.malformed(.request, .componentValue)) {
                try ProofDraft(request, answering: challenge, keyID: Sample.keyID, created: 1)
            }
        }
        let draft = try ProofDraft(
            AttestedRequest(method: "GET", target: Sample.target()), answering: challenge, keyID: Sample.keyID,
            created: 1)
        #expect(throws: ProofFault.malformed(.signature, .assertionSize)) { try draft.fields(assertion: []) }
    }

    @Test("key ids survive base64 encoding and have one spelling")
    func keyIDs() {
        let text = Sample.keyID.base64
        #expect(KeyID(base64: text) == Sample.keyID)
        for other in ["", "AAAA", text + "=", String(text.dropLast()), "\u{e4}" + text.dropFirst(2)] {
            #expect(KeyID(base64: other) == nil)
        }
    }
}
