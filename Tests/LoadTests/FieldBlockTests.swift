import CNghttp2
import HTTP
import Testing
import TrustClient

@testable import LoadGeneration

@Suite("HTTP/2 fields of a load request")
struct FieldBlockTests {
    private func fields(_ request: LoadRequest, in block: inout FieldBlock) -> [String] {
        var entries: [nghttp2_nv] = []
        var found: [String] = []
        block.set(request)
        block.withEntries(&entries) { entries in
            found = entries.map { entry in
                let name = UnsafeBufferPointer(start: entry.name, count: entry.namelen)
                let value = UnsafeBufferPointer(start: entry.value, count: entry.valuelen)
                return String(decoding: name, as: UTF8.self) + "=" + String(decoding: value, as: UTF8.self)
            }
        }
        return found
    }

    @Test("the fields are those of this request and its proof, pseudo-header fields first")
    func all() throws {
        let target = try #require(LoadURL("https://localhost:8443/records?a=b"))
        let template = RequestTemplate(target, method: .put, body: Array("hello".utf8))
        let proof = ProofFields(
            contentDigest: Array("digest".utf8), signatureInput: Array("input".utf8), signature: Array("signed".utf8))
        let plain = [
            ":method=PUT", ":scheme=https", ":authority=localhost:8443", ":path=/records?a=b",
            "user-agent=attestgate-load", "content-length=5",
        ]
        var block = FieldBlock()
        let proven = plain + ["content-digest=digest", "signature-input=input", "signature=signed"]
        #expect(fields(LoadRequest(template: template, proof: proof), in: &block) == proven)
        #expect(fields(LoadRequest(template: template, proof: nil), in: &block) == plain)
        let android = ProofFields(
            contentDigest: nil, counter: Array("42".utf8), signatureInput: Array("input".utf8),
            signature: Array("signed".utf8))
        let counted = plain + ["attest-proof-counter=42", "signature-input=input", "signature=signed"]
        #expect(fields(LoadRequest(template: template, proof: android), in: &block) == counted)
        let head = String(decoding: LoadRequest(template: template, proof: android).bytes, as: UTF8.self)
        #expect(head.contains("\r\nAttest-Proof-Counter: 42\r\nSignature-Input: input\r\n"))
    }
}
