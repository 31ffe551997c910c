import Testing
import TrustClient

@Suite("Sending a request with a proof")
struct ProofExchangeTests {
    private static let time: Int64 = 1_763_690_000

    /// The session has a fresh challenge, and the request was sent with it.
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
        // An hour behind the gateway.
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
