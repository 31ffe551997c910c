import Testing
import TrustClient
import Vocabulary

@Suite("Requests of an app")
struct AttestedClientTests {
    private struct Key: HardwareKey {
        let keyID = Sample.keyID
        func assertion(clientDataHash: [UInt8]) async throws -> [UInt8] { clientDataHash }
    }

    /// A gateway that answers from a list and stores the requests.
    private actor Gateway {
        private var answers: [GatewayAnswer]
        private(set) var sent: [ProofFields] = []
        private(set) var fetches = 0

        init(_ answers: [GatewayAnswer]) { self.answers = answers }

        func challenge() -> GatewayAnswer {
            fetches += 1
            return answers.removeFirst()
        }

        func take(_ fields: ProofFields) -> AttestedClient<Key>.Answered<Int> {
            sent.append(fields)
            return (answers.removeFirst(), sent.count)
        }
    }

    private let client = AttestedClient(key: Key(), clock: { 1_763_690_000 })

    private func perform(_ gateway: Gateway, isIdempotent: Bool = false) async throws -> Int {
        try await client.perform(
            AttestedRequest(method: "GET", target: Sample.target()), isIdempotent: isIdempotent,
            fetchChallenge: { await gateway.challenge() }, send: { await gateway.take($0) })
    }

    @Test("one challenge serves many requests")
    func challenges() async throws {
        let gateway = Gateway([Sample.answer(204, challenge: "a"), Sample.answer(200), Sample.answer(200)])
        _ = try await perform(gateway)
        _ = try await perform(gateway)
        #expect(await gateway.fetches == 1)
        #expect(await gateway.sent.allSatisfy { Sample.text($0.signatureInput).contains(#"nonce="a""#) })
    }

    @Test("a denial that a new proof repairs is not passed to the caller")
    func repaired() async throws {
        let gateway = Gateway([
            Sample.answer(204, challenge: "a"), Sample.answer(401, "challenge_required", challenge: "b"),
            Sample.answer(200),
        ])
        #expect(try await perform(gateway) == 2)
        #expect(await Sample.text(gateway.sent[1].signatureInput).contains(#"nonce="b""#))
    }

    @Test(
        "a gRPC denial that a new proof repairs is not passed to the caller either",
        arguments: ["challenge_required", "proof_stale"])
    func repairedCall(_ denial: String) async throws {
        let gateway = Gateway([
            Sample.answer(204, challenge: "a"),
            GatewayAnswer(denial: denial, acceptSignature: [Sample.acceptSignature("b")], date: nil),
            GatewayAnswer(denial: nil, acceptSignature: [], date: nil),
        ])
        #expect(try await perform(gateway) == 2)
        let last = try #require(await gateway.sent.last)
        #expect(Sample.text(last.signatureInput).contains(#"nonce="b""#))
    }

    @Test("a counter denial is passed to the caller unless the request is idempotent")
    func counters() async throws {
        let answers = [
            Sample.answer(204, challenge: "a"), Sample.answer(401, "counter_replayed", challenge: "b"),
            Sample.answer(200),
        ]
        #expect(try await perform(Gateway(answers)) == 1)
        #expect(try await perform(Gateway(Array(answers.dropFirst())), isIdempotent: true) == 2)
    }

    @Test("a gateway without a challenge is an error with its answer")
    func noChallenge() async throws {
        let refusal = Sample.answer(403, "device_revoked")
        await #expect(throws: AttestedClientError.noChallenge(refusal)) { try await perform(Gateway([refusal])) }
    }
}
