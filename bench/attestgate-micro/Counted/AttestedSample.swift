internal import Attestation
internal import Challenges
internal import Cryptography
internal import DeviceSimulator
internal import HTTP
internal import RequestProof
internal import Vocabulary

/// One request with its proof, as a phone sends it, and what the gateway does with it by means of the lower modules.
final class AttestedSample {
    static let app = "TEAMID1234.org.example.app"
    static let path = "/records/17"
    static let query = "from=2026-01-01"
    private static let created: Int64 = 1_763_690_000
    private static let life: UInt64 = 300

    let library: LibraryContext
    /// The hardware key's point, 65 bytes, and its hash.
    let point: [UInt8]
    let keyID: KeyID
    let signatureInput: [UInt8]
    let signature: [UInt8]
    /// In HTTP/1.1.
    let head: [UInt8]
    private let key: P256VerificationKey
    private let issuer: ChallengeIssuer
    private let challenge: [UInt8]
    private let rpIDHash: Digest256
    private let assertion: [UInt8]
    private let clientDataHash: Digest256
    private let bare: (digest: Digest256, signature: [UInt8])
    /// The same signature in the form of an Android phone.
    private let fixed: [UInt8]

    init() throws {
        let library = try LibraryContext()
        self.library = library
        let secret = [UInt8](repeating: 7, count: 32)
        let id = [UInt8](repeating: 1, count: 16)
        guard let scope = ChallengeScope(purpose: .request, store: id, epoch: id),
            let secret = ChallengeSecret(generation: 1, bytes: secret)
        else { throw Refused(description: "no challenges") }
        issuer = try ChallengeIssuer(scope, current: secret, library)
        let challenge = try issuer.issue(now: UInt64(Self.created)).bytes
        self.challenge = challenge
        let hardwareKey = try PrivateKey.generateP256(library)
        let maker = try AssertionMaker(hardwareKey, rpID: Self.app, form: .iOS27, library)
        point = maker.point
        keyID = maker.keyID
        let builder = try ProofBuilder(
            components: [.method, .authority, .path, .query], keyID: maker.keyID, nonce: challenge,
            created: Self.created)
        let (method, host) = (Array("GET".utf8), Array("health.example".utf8))
        let (path, query) = (Array(Self.path.utf8), Array(Self.query.utf8))
        let parts = RequestParts(method: method.span, authority: host.span, path: path.span, query: query.span)
        let base = try builder.signatureBase(of: parts) { _, _ in }
        let hash = try library.sha256(of: base.span)
        clientDataHash = hash
        assertion = try maker.assertion(counter: 1, clientDataHash: hash.bytes)
        signatureInput = builder.signatureInput
        signature = try builder.signature(assertion: assertion)
        key = try P256VerificationKey(point: maker.point.span, library)
        let rpID = Array(Self.app.utf8)
        rpIDHash = try library.sha256(of: rpID.span)
        let bare = (digest: hash, signature: try P256SigningKey(hardwareKey, library).sign(digest: hash))
        self.bare = bare
        guard let fixed = ECDSASignature.fixedWidth(der: bare.signature.span) else {
            throw Refused(description: "no signature")
        }
        self.fixed = fixed
        let lines =
            Self.fields.map { "\($0): \($1)\r\n" }.joined()
            + "Signature-Input: \(String(decoding: signatureInput, as: UTF8.self))\r\n"
            + "Signature: \(String(decoding: signature, as: UTF8.self))\r\n\r\n"
        head = Array("GET \(Self.path)?\(Self.query) HTTP/1.1\r\nHost: health.example\r\n\(lines)".utf8)
    }

    /// What URLSession sends with a call.
    static let fields = [
        ("Accept", "application/json"), ("Accept-Language", "de-DE,de;q=0.9"), ("Accept-Encoding", "gzip, deflate, br"),
        ("User-Agent", "Records/17 CFNetwork/1568.200.51 Darwin/24.1.0"),
        ("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ]

    var operations: [CountedOperation] {
        [
            CountedOperation(name: "head", times: 1000, repeated: parseHead),
            CountedOperation(name: "challenge", times: 1000, repeated: verifyChallenge),
            CountedOperation(name: "base", times: 1000, repeated: buildBase),
            CountedOperation(name: "cbor", times: 1000, repeated: readAssertion),
            CountedOperation(name: "assertion", times: 30, repeated: verifyAssertion),
            CountedOperation(name: "ecdsa", times: 30, repeated: verifySignature),
            CountedOperation(name: "signature", times: 30, repeated: verifyAndroidSignature),
        ]
    }

    /// The head in HTTP/1.1, of a connection that has had one before.
    private func parseHead(_ times: Int) throws {
        var parser = RequestHeadParser(limits: .standard)
        var parsed = RequestHead()
        let head = head
        for _ in 0..<times {
            guard case .complete = try parser.parse(head.span, into: &parsed) else {
                throw Refused(description: "the head is incomplete")
            }
        }
    }

    private func verifyChallenge(_ times: Int) throws {
        let challenge = challenge
        for _ in 0..<times {
            guard case .fresh = try issuer.verify(challenge.span, now: UInt64(Self.created), life: Self.life) else {
                throw Refused(description: "the challenge is not fresh")
            }
        }
    }

    /// Both fields of the proof read, and the signature base built.
    private func buildBase(_ times: Int) throws {
        let (method, host) = (Array("GET".utf8), Array("health.example".utf8))
        let (path, query) = (Array(Self.path.utf8), Array(Self.query.utf8))
        let parts = RequestParts(method: method.span, authority: host.span, path: path.span, query: query.span)
        var input: SignatureInput?
        var proof: ProofSignature?
        var base = SignatureBase()
        let (signatureInput, signature) = (signatureInput, signature)
        for _ in 0..<times {
            let (oldInput, oldProof) = (input.take(), proof.take())
            let read = try SignatureInput(parsing: signatureInput.span, reusing: consume oldInput)
            proof = try ProofSignature(parsing: signature.span, reusing: consume oldProof)
            try base.build(read, of: parts) { _, _ in }
            input = read
        }
    }

    /// The assertion read, and found to speak for another app: all that precedes cryptography.
    private func readAssertion(_ times: Int) throws {
        let (assertion, hash, other) = (assertion, clientDataHash, keyID.bytes)
        for _ in 0..<times {
            do throws(AssertionFault) {
                _ = try AssertionVerifier.verify(
                    assertion.span, clientDataHash: hash.span, key: key, rpIDHash: other.span, digests: library)
            } catch {
                guard case .rpIDMismatch = error else { throw error }
            }
        }
    }

    private func verifyAssertion(_ times: Int) throws {
        let (assertion, hash, rpID) = (assertion, clientDataHash, rpIDHash)
        for _ in 0..<times {
            _ = try AssertionVerifier.verify(
                assertion.span, clientDataHash: hash.span, key: key, rpIDHash: rpID.span, digests: library)
        }
    }

    /// What an Android phone sends in place of an assertion: its counter and its signature.
    private func verifyAndroidSignature(_ times: Int) throws {
        let (digest, signature, counter) = (bare.digest, fixed, Array("4294967295".utf8))
        for _ in 0..<times {
            guard try ProofCounter.value(of: counter.span) == .max,
                key.verify(digest: digest, fixedWidthSignature: signature.span)
            else { throw Refused(description: "a signature does not verify") }
        }
    }

    /// What of it is OpenSSL's alone.
    private func verifySignature(_ times: Int) throws {
        let (digest, signature) = bare
        for _ in 0..<times {
            guard key.verify(digest: digest, signature: signature.span) else {
                throw Refused(description: "a signature does not verify")
            }
        }
    }
}
