import RequestProof
import Testing
import TrustClient
import Vocabulary

@Suite("Parsing gateway responses")
struct GatewayAnswerTests {
    @Test("status, challenge, time and code are read")
    func read() {
        let answer = Sample.answer(401, "proof_stale", challenge: "abc", date: "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(answer.status == 401 && answer.denial == "proof_stale" && answer.date == 784_111_777)
        #expect(answer.challenge?.nonce == Array("abc".utf8))
        #expect(answer.challenge?.components == [.method, .authority, .path, .query])
    }

    @Test("the challenge is found among other lines and members")
    func lines() {
        let lines = [#"sig1=("@status");created;tag="other""#, "  " + Sample.acceptSignature("abc") + "\t"]
        let answer = GatewayAnswer(status: 200, acceptSignature: lines, date: nil, content: [])
        #expect(answer.challenge?.nonce == Array("abc".utf8))
    }

    @Test(
        "an unreadable challenge is ignored",
        arguments: [
            [], [""], ["attest"], ["attest=("], [#"attest=();nonce="x";tag="attestgate-request""#],
            [Sample.acceptSignature("a\u{e4}")], [Sample.acceptSignature("")],
            [Sample.acceptSignature("a"), Sample.acceptSignature("b")],
            [Sample.acceptSignature("a", parameters: ";unheard-of")], [String(repeating: "a", count: 20_000)],
            [Sample.acceptSignature(String(repeating: "a", count: 513))], ["attest=\u{0}"],
        ])
    func malformed(_ lines: [String]) {
        let answer = GatewayAnswer(status: 200, acceptSignature: lines, date: nil, content: [])
        #expect(answer.challenge == nil)
        var session = ProofSession(keyID: Sample.keyID)
        let isNoted = session.note(answer, now: 0)
        #expect(!isNoted && session.challenge == nil)
    }

    @Test("a challenge for another key or algorithm is ignored")
    func others() {
        let other = String(repeating: "A", count: 43) + "="
        for parameters in [#";keyid="\#(other)""#, #";alg="ecdsa-p256-sha256""#] {
            let line = Sample.acceptSignature("abc", parameters: parameters)
            let answer = GatewayAnswer(status: 200, acceptSignature: [line], date: nil, content: [])
            #expect(answer.challenge != nil)
            var session = ProofSession(keyID: Sample.keyID)
            let isNoted = session.note(answer, now: 0)
            #expect(!isNoted)
        }
        let own = Sample.acceptSignature("abc", parameters: #";keyid="\#(Sample.keyID.base64)";alg="apple-attest""#)
        var session = ProofSession(keyID: Sample.keyID)
        let answer = GatewayAnswer(status: 200, acceptSignature: [own], date: nil, content: [])
        let isNoted = session.note(answer, now: 0)
        #expect(isNoted)
    }

    @Test("an Android key answers the challenges that ask for its algorithm, and those that ask for none")
    func android() {
        for (parameters, expected) in [
            (#";alg="ecdsa-p256-sha256""#, true), ("", true), (#";alg="apple-attest""#, false),
        ] {
            let line = Sample.acceptSignature("abc", parameters: parameters)
            var session = ProofSession(keyID: Sample.keyID, algorithm: .ecdsaP256SHA256)
            let isNoted = session.note(
                GatewayAnswer(status: 200, acceptSignature: [line], date: nil, content: []), now: 0)
            #expect(isNoted == expected)
        }
    }

    @Test(
        "content that is not a denial has no code",
        arguments: ["", "<html>", "{}", #"{"error":1}"#, #"["error"]"#, #"{"error":"x""#])
    func content(_ text: String) {
        let answer = GatewayAnswer(status: 401, acceptSignature: [], date: nil, content: Array(text.utf8))
        #expect(answer.denial == nil)
    }

    @Test("a service's content is never read as a denial")
    func ofServices() {
        let refusal = Array(#"{"error":"challenge_required"}"#.utf8)
        #expect(GatewayAnswer(status: 200, acceptSignature: [], date: nil, content: refusal).denial == nil)
        #expect(GatewayAnswer(status: 401, acceptSignature: [], date: nil, content: refusal).denial != nil)
        let long = [UInt8](repeating: 0x20, count: GatewayAnswer.denialLimit) + refusal
        #expect(GatewayAnswer(status: 401, acceptSignature: [], date: nil, content: long).denial == nil)
    }

    @Test("gRPC metadata gives the same answer as status and content", arguments: Denial.allCases)
    func metadata(_ denial: Denial) throws {
        guard let status = denial.status else { return }
        let code = String(describing: denial.row.code)
        // An alert, whose status a proxy has, may share its code with a status.
        guard denial.row.answer == .status(status) || denial == .certificateExpired else { return }
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let answer = GatewayAnswer(denial: code, acceptSignature: [Sample.acceptSignature("abc")], date: date)
        // One code has three statuses, of which the first is used.
        let expected = code == "too_large" ? 413 : Int(status)
        #expect(answer == Sample.answer(expected, code, challenge: "abc", date: date))
        #expect(answer.challenge != nil && answer.date == 784_111_777)
        let shown = GatewayAnswer(status: Int(status), denial: code, acceptSignature: [], date: nil)
        #expect(shown == Sample.answer(Int(status), code))
    }

    @Test("a gRPC call that was not denied, or with an unknown code, needs no new proof")
    func unrefused() {
        let answer = GatewayAnswer(denial: nil, acceptSignature: [Sample.acceptSignature("abc")], date: nil)
        #expect(answer == Sample.answer(200, challenge: "abc"))
        let unknown = GatewayAnswer(denial: "unheard_of", acceptSignature: [], date: nil)
        #expect(unknown == Sample.answer(400, "unheard_of"))
    }

    @Test(
        "HTTP dates are read",
        arguments: [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199),
            ("Fri, 21 Nov 2025 01:53:20 GMT", 1_763_690_000), ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
        ])
    func dates(_ text: String, _ seconds: Int64) {
        #expect(Sample.answer(200, date: text).date == seconds)
    }

    @Test(
        "other date texts are refused",
        arguments: [
            "", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Xxx 1994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT ", "Sun, 06 Nov 199\u{e4} 08:49:37 GMT",
        ])
    func noDates(_ text: String) {
        #expect(Sample.answer(200, date: text).date == nil)
    }
}
