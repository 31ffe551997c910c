import RequestProof
import Testing
import TrustClient
import Vocabulary

@Suite("Sending a request with a proof")
struct ProofExchangeTests {
    private static let time: Int64 = 1_763_690_000

    /// Returns an exchange whose request was sent, with a fresh challenge in the session.
    private func sent(isIdempotent: Bool = false) throws -> (ProofExchange, ProofSession) {
        let challenge = try Sample.challenge("first", receivedAt: Self.time)
        let session = ProofSession(keyID: Sample.keyID, challenge: challenge)
        var exchange = ProofExchange(isIdempotent: isIdempotent)
        #expect(exchange.begin(session, now: Self.time) == .send(challenge, created: Self.time))
        return (exchange, session)
    }

    @Test("without a challenge one is fetched first, then the request is sent")
    func fetches() throws {
        var session = ProofSession(keyID: Sample.keyID)
        var exchange = ProofExchange(isIdempotent: false)
        #expect(exchange.begin(session, now: Self.time) == .fetchChallenge)
        let challenge = try Sample.challenge("new", receivedAt: Self.time + 1)
        #expect(
            exchange.challengeAnswered(Sample.answer(204, challenge: "new"), &session, now: Self.time + 1)
                == .send(challenge, created: Self.time + 1))
        #expect(exchange.answered(Sample.answer(200), &session, now: Self.time + 2) == .deliver)
    }

    @Test("a challenge that is too old or from the future is not used", arguments: [240, 100_000, -1])
    func stale(_ age: Int64) throws {
        let challenge = try Sample.challenge("old", receivedAt: Self.time - age)
        var exchange = ProofExchange(isIdempotent: false)
        let session = ProofSession(keyID: Sample.keyID, challenge: challenge)
        #expect(exchange.begin(session, now: Self.time) == .fetchChallenge)
        #expect(session.usableChallenge(now: Self.time - age + 239) == challenge)
    }

    @Test("a gateway that gives no challenge is not asked twice")
    func noChallenge() throws {
        for answer in [Sample.answer(403, "device_revoked"), Sample.answer(204), Sample.answer(404, "route_unknown")] {
            var session = ProofSession(keyID: Sample.keyID)
            var exchange = ProofExchange(isIdempotent: true)
            _ = exchange.begin(session, now: Self.time)
            #expect(exchange.challengeAnswered(answer, &session, now: Self.time) == .fail)
        }
    }

    @Test("challenge_required with a new challenge is retried once")
    func challengeRequired() throws {
        var (exchange, session) = try sent()
        let refusal = Sample.answer(401, "challenge_required", challenge: "second")
        #expect(
            exchange.answered(refusal, &session, now: Self.time + 5)
                == .send(try Sample.challenge("second", receivedAt: Self.time + 5), created: Self.time + 5))
        let again = Sample.answer(401, "challenge_required", challenge: "third")
        #expect(exchange.answered(again, &session, now: Self.time + 6) == .deliver)
        #expect(session.challenge == (try Sample.challenge("third", receivedAt: Self.time + 6)))
    }

    @Test("challenge_required without a new challenge is not retried")
    func challengeRequiredBare() throws {
        var (exchange, session) = try sent()
        #expect(exchange.answered(Sample.answer(401, "challenge_required"), &session, now: Self.time) == .deliver)
    }

    @Test("proof_stale corrects the clock from Date for this and later requests")
    func proofStale() throws {
        var (exchange, session) = try sent()
        // The clock is an hour behind the gateway's.
        let refusal = Sample.answer(401, "proof_stale", challenge: "second", date: "Fri, 21 Nov 2025 02:53:20 GMT")
        let gatewayTime: Int64 = 1_763_693_600
        #expect(
            exchange.answered(refusal, &session, now: Self.time)
                == .send(try Sample.challenge("second", receivedAt: Self.time), created: gatewayTime))
        #expect(session.created(now: Self.time + 10) == gatewayTime + 10)
        #expect(exchange.answered(refusal, &session, now: Self.time) == .deliver)
    }

    @Test("proof_stale without Date is retried only with a new challenge")
    func proofStaleBare() throws {
        var (exchange, session) = try sent()
        let refusal = Sample.answer(401, "proof_stale", challenge: "second", date: "yesterday")
        #expect(
            exchange.answered(refusal, &session, now: Self.time)
                == .send(try Sample.challenge("second", receivedAt: Self.time), created: Self.time))
        (exchange, session) = try sent()
        #expect(exchange.answered(Sample.answer(401, "proof_stale"), &session, now: Self.time) == .deliver)
    }

    @Test(
        "a counter denial is not retried unless idempotent: the request may have been executed",
        arguments: ["counter_replayed", "counter_late"])
    func counters(_ denial: String) throws {
        let refusal = Sample.answer(401, denial, challenge: "second")
        var (exchange, session) = try sent()
        #expect(exchange.answered(refusal, &session, now: Self.time) == .deliver)
        #expect(session.challenge == (try Sample.challenge("second", receivedAt: Self.time)))

        (exchange, session) = try sent(isIdempotent: true)
        #expect(
            exchange.answered(refusal, &session, now: Self.time)
                == .send(try Sample.challenge("second", receivedAt: Self.time), created: Self.time))
        #expect(exchange.answered(refusal, &session, now: Self.time) == .deliver)
    }

    @Test("a denial that a new proof cannot repair is delivered", arguments: [false, true])
    func delivered(isIdempotent: Bool) throws {
        let answers = [
            Sample.answer(200), Sample.answer(200, challenge: "x"), Sample.answer(401, challenge: "x"),
            Sample.answer(401, "proof_required", challenge: "x"), Sample.answer(401, "proof_invalid", challenge: "x"),
            Sample.answer(401, "proof_incomplete", challenge: "x"), Sample.answer(401, "device_unknown"),
            Sample.answer(400, "body_digest_mismatch"), Sample.answer(403, "device_revoked"),
            Sample.answer(403, "challenge_required", challenge: "x"), Sample.answer(503, "store_unavailable"),
        ]
        for answer in answers {
            var (exchange, session) = try sent(isIdempotent: isIdempotent)
            #expect(exchange.answered(answer, &session, now: Self.time) == .deliver, "\(answer)")
        }
    }

    @Test("every response may bring a challenge, and the newest is used")
    func renewed() throws {
        var (exchange, session) = try sent()
        _ = exchange.answered(Sample.answer(200, challenge: "next"), &session, now: Self.time + 160)
        #expect(session.usableChallenge(now: Self.time + 300)?.request.nonce == Array("next".utf8))
    }

    @Test("nothing is sent after the end")
    func over() throws {
        var (exchange, session) = try sent()
        _ = exchange.answered(Sample.answer(200), &session, now: Self.time)
        let refusal = Sample.answer(401, "challenge_required", challenge: "x")
        #expect(exchange.answered(refusal, &session, now: Self.time) == .deliver)
        #expect(exchange.challengeAnswered(refusal, &session, now: Self.time) == .fail)
    }
}

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
