import Attestation
import Cryptography
import DeviceSimulator
import RequestProof
import Testing
import TrustClient
import Vocabulary

/// The gateway's verdict on each alteration, in the order of its checks.
@Suite("Deliberately altered proofs")
struct AlteredProofTests {
    private let library: LibraryContext
    private let maker: AssertionMaker
    private let created: Int64 = 1_763_690_000

    init() throws {
        library = try LibraryContext()
        maker = try AssertionMaker(PrivateKey.generateP256(library), rpID: Sample.appID.description, library)
    }

    private func fields(_ alter: (inout ProofAlterations) -> Void = { _ in }) throws -> ProofFields {
        var alterations = ProofAlterations()
        alter(&alterations)
        let proof = try AlteredProof(
            Sample.request(), answering: Sample.challenge(), keyID: maker.keyID, created: created, alterations,
            library)
        return try proof.fields(assertion: maker.assertion(counter: 5, clientDataHash: proof.clientDataHash))
    }

    private enum Verdict: Equatable {
        case accepted(SignatureInput)
        case proof(ProofFault)
        case assertion(AssertionFault)
        case digest
    }

    /// Returns the gateway's verdict on the sent request with these fields.
    private func verdict(_ fields: ProofFields) throws -> Verdict {
        let sent = try Sample.request()
        do throws(ProofFault) {
            let input = try SignatureInput(parsing: fields.signatureInput.span)
            let signature = try ProofSignature(parsing: fields.signature.span)
            let digestField = fields.contentDigest ?? []
            let digest = try ContentDigest(parsing: digestField.span)
            try Coverage().check(input, for: [.content, .authorization, .contentType])
            var base = SignatureBase()
            let parts = RequestParts(
                method: sent.method.span, authority: sent.target.authority.span, path: sent.target.path.span,
                query: sent.target.query.span)
            try base.build(input, of: parts) { name, value in
                let name = FieldComponent(name)
                if name?.description == "content-digest" { value.add(digestField.span) }
                for field in sent.fields where field.name == name { value.add(field.value.span) }
            }
            let bytes = base.bytes
            guard let hash = try? library.sha256(of: bytes.span).bytes else { return .digest }
            if let fault = Sample.verify(signature.assertion, hash, by: maker, library).failure {
                return .assertion(fault)
            }
            let content = Array("hello".utf8)
            let isMatch = digest.matches { _ in (try? library.sha256(of: content.span).bytes) ?? [] }
            return isMatch ? .accepted(input) : .digest
        } catch {
            return .proof(error)
        }
    }

    @Test("without alterations a proof is what an app sends, byte for byte")
    func genuine() throws {
        let draft = try ProofDraft(
            Sample.request(), answering: Sample.challenge(), keyID: maker.keyID, created: created)
        let proof = try AlteredProof(
            Sample.request(), answering: Sample.challenge(), keyID: maker.keyID, created: created,
            ProofAlterations(), library)
        #expect(proof.clientDataHash == draft.clientDataHash)
        #expect(try proof.fields(assertion: [1, 2, 3]) == draft.fields(assertion: [1, 2, 3]))
        guard case .accepted(let input) = try verdict(fields()) else {
            Issue.record("refused: \(try verdict(fields()))")
            return
        }
        #expect(input.created == created && input.keyID == maker.keyID)
    }

    @Test("a proof for another request is refused for this one")
    func otherRequests() throws {
        let alterations: [(inout ProofAlterations) -> Void] = [
            { $0.method = "GET" }, { $0.authority = "other.example" }, { $0.path = "/other" }, { $0.query = "a=c" },
            { $0.query = "" },
        ]
        for alter in alterations { #expect(try verdict(fields(alter)) == .assertion(.signatureInvalid)) }
    }

    @Test("a proof for other content verifies, but its digest does not match")
    func otherContent() throws {
        #expect(try verdict(fields { $0.content = Array("other".utf8) }) == .digest)
        let digest = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"
        #expect(try verdict(fields { $0.contentDigest = digest }) == .digest)
        #expect(
            try verdict(fields { $0.contentDigest = "md5=:AAAA:" })
                == .proof(.malformed(.contentDigest, .digestAlgorithms)))
    }

    @Test(
        "an omitted component is reported as missing",
        arguments: ["@method", "@authority", "@path", "@query", "content-digest", "authorization", "content-type"])
    func omitted(_ name: String) throws {
        guard case .proof(.incomplete(let component)) = try verdict(fields { $0.omitted = [name] }) else {
            Issue.record("not refused as incomplete")
            return
        }
        #expect(component.description == name)
    }

    @Test("altered times and challenges are signed as given")
    func parameters() throws {
        let sent = try fields {
            $0.createdOffset = -400
            $0.expires = 10
            $0.nonce = "foreign"
        }
        guard case .accepted(let input) = try verdict(sent) else {
            Issue.record("refused: \(try verdict(sent))")
            return
        }
        #expect(input.created == created - 400 && input.expires == created - 390)
        #expect(Sample.text(sent.signatureInput).contains(#";nonce="foreign";"#))
    }

    @Test("parameters that no proof has are refused before the signature is verified")
    func malformed() throws {
        #expect(
            try verdict(fields { $0.algorithm = "rsa" })
                == .proof(.malformed(.signatureInput, .parameter(.alg, .value))))
        #expect(
            try verdict(fields { $0.tag = "x" }) == .proof(.malformed(.signatureInput, .parameter(.tag, .value))))
        #expect(
            try verdict(fields { $0.keyID = "AAAA" })
                == .proof(.malformed(.signatureInput, .parameter(.keyid, .value))))
        #expect(
            try verdict(fields { $0.nonce = "" }) == .proof(.malformed(.signatureInput, .parameter(.nonce, .value))))
        // The protocol's tag with another label is refused.
        #expect(try verdict(fields { $0.label = "other" }) == .proof(.malformed(.signatureInput, .tagElsewhere)))
        #expect(
            try verdict(
                fields {
                    $0.label = "other"
                    $0.tag = "x"
                }) == .proof(.missing(.signatureInput)))
        #expect(
            try verdict(fields { $0.createdOffset = -created - 1 })
                == .proof(.malformed(.signatureInput, .parameter(.created, .value))))
    }

    @Test("each corruption damages the part it names")
    func corrupted() throws {
        #expect(try verdict(fields { $0.corruption = .signature }) == .assertion(.signatureInvalid))
        guard case .assertion(.malformed) = try verdict(fields { $0.corruption = .assertion }) else {
            Issue.record("the assertion is still a map")
            return
        }
        #expect(
            try verdict(fields { $0.corruption = .signatureInput }) == .proof(.malformed(.signatureInput, .syntax)))
    }
}

@Suite("Proofs of a simulated Android phone")
struct AndroidProofTests {
    private let library: LibraryContext
    private let signer: ProofSigner

    init() throws {
        library = try LibraryContext()
        let app = try #require(AppID("android:org.example.app"))
        signer = try ProofSigner(PrivateKey.generateP256(library), of: app, library)
    }

    private func proof(_ alterations: ProofAlterations = ProofAlterations()) throws -> AlteredProof {
        try AlteredProof(
            Sample.request(), answering: Sample.challenge(), keyID: signer.keyID, created: 7,
            counter: signer.stated(42), alterations, library)
    }

    @Test("without alterations a proof is what an app sends, and its signature is of its base")
    func genuine() throws {
        let draft = try ProofDraft(
            Sample.request(), answering: Sample.challenge(), keyID: signer.keyID, created: 7, counter: 42)
        let proof = try proof()
        #expect(proof.clientDataHash == draft.clientDataHash)
        #expect(try proof.fields(assertion: [1, 2, 3]) == draft.fields(assertion: [1, 2, 3]))
        let signature = try signer.sign(counter: 42, clientDataHash: proof.clientDataHash)
        let point = signer.point
        let key = try P256VerificationKey(point: point.span, library)
        let base = draft.signatureBase
        let digest = try library.sha256(of: base.span)
        let isValid = key.verify(digest: digest, fixedWidthSignature: signature.span)
        #expect(signature.count == 64 && isValid && signer.algorithm == .ecdsaP256SHA256)
        let field = try draft.fields(assertion: signature).signatureInput
        let input = try SignatureInput(parsing: field.span)
        #expect(input.algorithm == .ecdsaP256SHA256)
        #expect(throws: Never.self) {
            try Coverage().check(input, for: [.content, .authorization, .contentType, .proofCounter])
        }
    }

    @Test("each corruption damages the part it names")
    func corrupted() throws {
        let signature = [UInt8](repeating: 1, count: 64)
        func sent(_ corruption: ProofAlterations.Corruption) throws -> [UInt8] {
            var alterations = ProofAlterations()
            alterations.corruption = corruption
            let field = try proof(alterations).fields(assertion: signature).signature
            return try ProofSignature(parsing: field.span).assertion
        }
        #expect(try sent(.signature) == signature.dropLast() + [0])
        #expect(try sent(.assertion) == signature.dropLast())
    }

    @Test("a counter that is not covered is missing")
    func omitted() throws {
        var alterations = ProofAlterations()
        alterations.omitted = ["attest-proof-counter"]
        let fields = try proof(alterations).fields(assertion: [1])
        #expect(fields.counter == Array("42".utf8))
        let field = fields.signatureInput
        let input = try SignatureInput(parsing: field.span)
        #expect(throws: ProofFault.self) {
            try Coverage().check(input, for: [.content, .authorization, .contentType, .proofCounter])
        }
    }
}

/// Typical values, with the gateway's part of verifying a proof.
enum Sample {
    static let appID: AppID = {
        guard let id = AppID("ABCDE12345.org.example.app") else { preconditionFailure("this is an app id") }
        return id
    }()

    static let androidAppID: AppID = {
        guard let id = AppID("android:org.example.app") else { preconditionFailure("this is an app id") }
        return id
    }()

    static func challenge(_ nonce: String = "abc", receivedAt: Int64 = 0) throws -> ReceivedChallenge {
        ReceivedChallenge(
            try AcceptSignature(components: Coverage().components(for: []), nonce: Array(nonce.utf8)),
            receivedAt: receivedAt)
    }

    static func request(_ method: String = "POST", content: String? = "hello") throws -> AttestedRequest {
        guard let target = RequestTarget(url: "https://localhost:8443/records?a=b") else {
            preconditionFailure("this is a URL")
        }
        return try AttestedRequest(
            method: method, target: target, fields: [("Content-Type", "text/plain"), ("Authorization", "Bearer x")],
            content: content.map { .bytes(Array($0.utf8)) } ?? .none)
    }

    /// Verifies an assertion as the gateway does.
    static func verify(
        _ assertion: [UInt8], _ clientDataHash: [UInt8], by maker: AssertionMaker, rpID: String = appID.description,
        _ library: LibraryContext
    ) -> Result<VerifiedAssertion, AssertionFault> {
        do {
            let point = maker.point
            let key = try P256VerificationKey(point: point.span, library)
            let text = Array(rpID.utf8)
            let rpIDHash = try library.sha256(of: text.span)
            do throws(AssertionFault) {
                return .success(
                    try AssertionVerifier.verify(
                        assertion.span, clientDataHash: clientDataHash.span, key: key, rpIDHash: rpIDHash.span,
                        digests: library))
            } catch {
                return .failure(error)
            }
        } catch {
            return .failure(.checkFailed(CryptographyError(doing: "\(error)")))
        }
    }

    static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}

extension Result {
    var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}
