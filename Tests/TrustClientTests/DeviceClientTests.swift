import Encoding
import Testing
import Vocabulary

@testable import TrustClient

@Suite("An app at the listener for enrolled devices")
struct DeviceClientTests {
    private struct Key: HardwareKey {
        let keyID = Sample.keyID
        func assertion(clientDataHash: [UInt8]) async throws -> [UInt8] { clientDataHash }
    }

    /// A listener that answers from a list and records the requests.
    private actor Listener {
        private var answers: [EnrolmentAnswer]
        private(set) var requests: [EnrolmentRequest] = []

        init(_ answers: [EnrolmentAnswer]) { self.answers = answers }

        func answer(_ request: EnrolmentRequest) -> EnrolmentAnswer {
            requests.append(request)
            return answers.removeFirst()
        }

        var lines: [String] { requests.map { "\($0.method) \($0.url)" } }
    }

    private static let url = "https://devices.example.org"
    private static let id = Base64URL.encode([UInt8](repeating: 7, count: 32))
    private static let nonce = answer(200, #"{"nonce":"EBESExQVFhcYGRobHB0eHw"}"#)

    private static func answer(_ status: Int, _ content: String = "", challenge: String? = nil) -> EnrolmentAnswer {
        EnrolmentAnswer(
            status: status, date: nil, acceptSignature: challenge.map { [Sample.acceptSignature($0)] } ?? [],
            content: Array(content.utf8))
    }

    private func client(_ listener: Listener) throws -> DeviceClient<Key> {
        let client = DeviceClient(
            devices: Self.url + "/", key: Key(), clock: { 1_763_690_000 }, send: { await listener.answer($0) })
        return try #require(client)
    }

    @Test("a new posture goes with a nonce, signals and a proof, and brings a device token")
    func attest() async throws {
        let content = #"{"posture":{"platform":"ios"},"device_token":"e30.e30.AAAA"}"#
        let listener = Listener([Self.nonce, Self.answer(204, challenge: "a"), Self.answer(200, content)])
        let posture = try await client(listener).attest(signals: Array(#"{"systemVersion":"27.0"}"#.utf8))
        #expect(posture.deviceToken == "e30.e30.AAAA" && posture.json == Array(content.utf8))
        #expect(
            await listener.lines == [
                "GET \(Self.url)/nonce", "GET \(Self.url)/.well-known/attestgate/challenge",
                "POST \(Self.url)/attestation",
            ])
        let requests = await listener.requests
        #expect(requests.allSatisfy { $0.presentsCertificate })
        #expect(requests[0].fields.isEmpty && requests[1].fields.isEmpty)
        #expect(
            requests[2].fields.map(\.name) == ["Content-Type", "Content-Digest", "Signature-Input", "Signature"])
        #expect(
            Sample.text(try #require(requests[2].content))
                == #"{"nonce":"EBESExQVFhcYGRobHB0eHw","signals":{"systemVersion":"27.0"}}"#)
    }

    @Test(
        "signals that are no JSON object are not sent",
        arguments: ["", "[]", "{}}", #"{"a":1},"nonce":{"#, #"{"a":""# + String(repeating: "a", count: 4_096) + #""}"#])
    func signals(_ text: String) async throws {
        let listener = Listener([Self.nonce])
        let client = try client(listener)
        await #expect(throws: EnrolmentFailure.signalsMalformed) { try await client.attest(signals: Array(text.utf8)) }
        #expect(await listener.requests.count == 1)
    }

    @Test("a proof that a new challenge repairs is made again for the same nonce")
    func repaired() async throws {
        let listener = Listener([
            Self.nonce, Self.answer(204, challenge: "a"),
            Self.answer(401, #"{"error":"challenge_required"}"#, challenge: "b"), Self.answer(200, #"{"posture":{}}"#),
        ])
        #expect(try await client(listener).attest().deviceToken == nil)
        let requests = await listener.requests
        #expect(requests[2].content == requests[3].content && requests[2].fields.last != nil)
        #expect(requests[3].fields.contains { $0.value.contains(#"nonce="b""#) })
    }

    @Test("the devices of a person are listed")
    func instances() async throws {
        let listener = Listener([
            Self.answer(
                200,
                #"[{"id":"\#(Self.id)","platform":"ios","app":"T.a","status":"ACTIVE","created_at":5,"current":true,"x":1}]"#
            )
        ])
        let expected = DeviceInstance(
            id: Self.id, platform: "ios", app: "T.a", status: "ACTIVE", createdAt: 5, isCurrent: true)
        #expect(try await client(listener).instances() == [expected])
        #expect(await listener.lines == ["GET \(Self.url)/instances"])
        let malformed = try client(Listener([Self.answer(200, #"[{"id":1}]"#)]))
        await #expect(throws: EnrolmentFailure.answerUnreadable(.instances)) { try await malformed.instances() }
    }

    @Test("a lost phone is revoked with a proof, and no other text than an id goes into the URL")
    func revoke() async throws {
        let listener = Listener([Self.answer(204, challenge: "a"), Self.answer(204)])
        let client = try client(listener)
        try await client.revoke(Self.id)
        let requests = await listener.requests
        #expect(requests[1].method == "PATCH" && requests[1].url == "\(Self.url)/instances/\(Self.id)")
        #expect(requests[1].content == Array(#"{"status":"REVOKED"}"#.utf8))
        #expect(requests[1].fields.last?.name == "Signature")
        for other in ["", "a", Self.id + "/..", "../" + Self.id] {
            await #expect(throws: EnrolmentFailure.instanceMalformed) { try await client.revoke(other) }
        }
        #expect(await listener.requests.count == 2)
    }

    @Test("a refusal of the service or of the gateway has its code and advice")
    func refused() async throws {
        for (status, code, advice) in [
            (403, "invalid_request", EnrolmentAdvice.giveUp), (404, "not_found", .giveUp),
            (503, "temporarily_unavailable", .later), (403, "device_mismatch", .giveUp), (429, "rate_limited", .later),
        ] {
            let answer = Self.answer(status, #"{"error":"\#(code)"}"#)
            let client = try client(Listener([Self.answer(204, challenge: "a"), answer]))
            do {
                try await client.revoke(Self.id)
                Issue.record("\(code) was no failure")
            } catch EnrolmentFailure.refused(let refusal, let advised) {
                #expect(advised == advice && "\(refusal)" == "\(status) \(code)")
                #expect(refusal.denial == (refusal.code == nil ? code : nil))
            }
        }
        let unknown = Self.answer(401, #"{"error":"device_unknown"}"#)
        let client = try client(Listener([unknown]))
        await #expect(throws: AttestedClientError.noChallenge(unknown.statements)) { try await client.revoke(Self.id) }
    }

    @Test("a URL that is no address of a service makes no client")
    func addresses() {
        for url in ["http://a", "https://a?b", ""] {
            let client = DeviceClient(devices: url, key: Key(), clock: { 0 }, send: { _ in Self.nonce })
            #expect(client == nil)
        }
    }
}
