import Cryptography
import Encoding
import Testing

@testable import Attestation

/// The examples are those of draft-ietf-oauth-attestation-based-client-auth-10, sections 4, 5.1 and 7. The attester's key
/// is not published, so that of its proofs of possession alone can be verified.
@Suite("Client attestations")
struct ClientAttestationTests {
    private static let now: Int64 = 1_772_487_600
    private static let resource = "https://rs.example.com"
    private let library: LibraryContext
    private let attester: P256SigningKey

    init() throws {
        library = try LibraryContext()
        attester = try P256SigningKey(PrivateKey.generateP256(library), library)
    }

    private enum Draft {
        static let attestation =
            "eyJ0eXAiOiJvYXV0aC1jbGllbnQtYXR0ZXN0YXRpb24rand0IiwiYWxnIjoiRVMyNTYiLCJraWQiOiIxMSJ9.eyJzdWIiOiJodHRwczovL2NsaWV"
            + "udC5leGFtcGxlLmNvbSIsImlhdCI6MTc3MjQ4NzU5NSwiZXhwIjoyNTI5ODY2Mzk0LCJjbmYiOnsiandrIjp7Imt0eSI6IkVDIiwidXNlIjoic2l"
            + "nIiwiY3J2IjoiUC0yNTYiLCJ4IjoiVmNLVk5CWjRJYUJBWVczanhNNHczVEpGVkE3bXllVUdReUd0LWdfeXZwUSIsInkiOiJmLUUtaFlFM1RBV0t"
            + "3aFZ2OXBlajlOQUJzOVNYOVhzTk84MHg1N2pGVHlVIn19fQ._TS4d-LAnRlwdN97wiVnl4z7C9gvm45IWr-BvGTzeZaHtZtgNZ88gvzroU3LElUP"
            + "bgF4kWi_DFORnKzsx5yu6A"
        private static let header = "eyJ0eXAiOiJvYXV0aC1jbGllbnQtYXR0ZXN0YXRpb24tcG9wK2p3dCIsImFsZyI6IkVTMjU2In0."
        /// To an authorization server.
        static let first =
            header
            + "eyJhdWQiOiJodHRwczovL2FzLmV4YW1wbGUuY29tIiwianRpIjoiZDI1ZDAwYWItNTUyYi00NmZjLWFlMTktOThmNDQwZjI1MDY0IiwiaWF0Ijox"
            + "NzcyNDg3NTk1LCJjaGFsbGVuZ2UiOiI1YzFhOWUxMC0yOWZmLTRjMmItYWU3My01N2MwOTU3YzA5YzQifQ.M4Uc4rWVAqaLlmDDUXQKkKPbAQKj0"
            + "JrTizLgWhZndmbkvM3VL8y-w_QJr7Z0HZlH94E64cLa8L5fSjJItYv0jg"
        /// To a resource server.
        static let second =
            header
            + "eyJhdWQiOiJodHRwczovL3JzLmV4YW1wbGUuY29tIiwianRpIjoiZDI1ZDAwYWItNTUyYi00NmZjLWFlMTktOThmNDQwZjI1MDY0IiwiaWF0Ijox"
            + "NzcyNDg3NTk1LCJjaGFsbGVuZ2UiOiI1YzFhOWUxMC0yOWZmLTRjMmItYWU3My01N2MwOTU3YzA5YzQifQ.Uh-vRynTGGARZNqijGyovBMm_EsX5"
            + "qu0fg0VGPVRsp1rJdF7rElbZcEv0CAtzm5kXhjSXHYGxEVb0I7HIeUFRg"
    }

    private func verifier(_ resource: String = resource) throws -> ClientAttestationVerifier {
        let jwk = try #require(PublicJWK(point: attester.point))
        let members = JSONWriter.object { jwk.write(to: &$0) }
        return try ClientAttestationVerifier(
            ClientAttestationDemands(resource: resource, maximumAge: 3_600, proofAge: 300),
            keys: Array(#"{"keys":["#.utf8) + members + Array("]}".utf8), library)
    }

    /// Returns the draft's attestation with our attester's signature.
    private func attestation() throws -> [UInt8] {
        let claims = Draft.attestation.split(separator: ".")[1]
        let header = Base64URL.encode(Array(#"{"typ":"oauth-client-attestation+jwt","alg":"ES256"}"#.utf8))
        let input = Array("\(header).\(claims)".utf8)
        let der = try attester.sign(digest: library.sha256(of: input.span))
        let signature = ECDSASignature.fixedWidth(der: der.span)
        return input + Array(".\(Base64URL.encode(try #require(signature)))".utf8)
    }

    private func fault(
        _ pop: [UInt8], _ resource: String = resource, at time: Int64 = now
    ) throws -> ClientAttestationFault? {
        let verifier = try verifier(resource)
        let attestation = try attestation()
        do throws(ClientAttestationFault) {
            let proof = try verifier.proof(pop, at: time)
            #expect(proof.challenge == Array("5c1a9e10-29ff-4c2b-ae73-57c0957c09c4".utf8))
            #expect(proof.id == Array("d25d00ab-552b-46fc-ae19-98f440f25064".utf8))
            try verifier.verify(proof, by: verifier.verify(attestation, at: time))
            return nil
        } catch {
            return error
        }
    }

    @Test("the draft's proofs of possession are accepted as printed, by the audience that they name")
    func printed() throws {
        #expect(try fault(Array(Draft.first.utf8), "https://as.example.com") == nil)
        #expect(try fault(Array(Draft.second.utf8)) == nil)
        #expect(try fault(Array(Draft.first.utf8)) == .audience)
        #expect(try fault(Array(Draft.second.utf8), "https://as.example.com") == .audience)
        #expect(try fault(Array(Draft.second.utf8), at: Self.now + 300) == .proofTime)
        #expect(try fault(Array(Draft.second.utf8), at: Self.now - 100) == .proofTime)
    }

    @Test("the draft's proofs of possession are refused with any one character changed")
    func changed() throws {
        let verifier = try verifier()
        let attested = try verifier.verify(attestation(), at: Self.now)
        let text = Array(Draft.second.utf8)
        for place in text.indices {
            var altered = text
            altered[place] = text[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(throws: ClientAttestationFault.self, "at \(place)") {
                try verifier.verify(verifier.proof(altered, at: Self.now), by: attested)
            }
        }
    }

    @Test("the draft's attestation is read, and refused without its attester's key")
    func draftAttestation() throws {
        let verifier = try verifier()
        let attested = try verifier.verify(attestation(), at: Self.now)
        #expect(attested.client == "https://client.example.com")
        // A life of 24 years counts for an hour.
        #expect(attested.end == 1_772_487_595 + 3_600)
        #expect(throws: ClientAttestationFault.signature(.unknownKey)) {
            try verifier.verify(Array(Draft.attestation.utf8), at: Self.now)
        }
        #expect(throws: ClientAttestationFault.tooOld) {
            try verifier.verify(attestation(), at: Self.now + 3_600)
        }
        #expect(throws: ClientAttestationFault.expired) {
            try verifier.verify(attestation(), at: 2_529_866_394)
        }
    }

    @Test("a proof of possession by another key, or of another algorithm, is refused")
    func otherKey() throws {
        let verifier = try verifier()
        let attested = try verifier.verify(attestation(), at: Self.now)
        let claims = Draft.second.split(separator: ".")[1]
        for (header, fault) in [
            (#"{"typ":"oauth-client-attestation-pop+jwt","alg":"ES256"}"#, ClientAttestationFault.proofSignature),
            (#"{"typ":"oauth-client-attestation-pop+jwt","alg":"none"}"#, .proofAlgorithm),
            (#"{"typ":"oauth-client-attestation-pop+jwt","alg":"HS256"}"#, .proofAlgorithm),
            (#"{"typ":"JWT","alg":"ES256"}"#, .proofType),
        ] {
            let input = Array("\(Base64URL.encode(Array(header.utf8))).\(claims)".utf8)
            let der = try attester.sign(digest: library.sha256(of: input.span))
            let signature = ECDSASignature.fixedWidth(der: der.span)
            let pop = input + Array(".\(Base64URL.encode(try #require(signature)))".utf8)
            #expect(throws: fault) { try verifier.verify(verifier.proof(pop, at: Self.now), by: attested) }
        }
    }
}
