import Encoding
import Foundation
import Testing

@testable import Administration

@Suite("Decisions as JSON")
struct DecisionDocumentTests {
    private static func decision(detail: String?) -> DecisionDocument {
        DecisionDocument(
            number: 7, time: InternetTime.text(ofMicroseconds: 1_795_000_000_042_999), event: "request",
            client: "192.0.2.0/24",
            route: "records", method: "GET", protocol: "HTTP/2", decision: "denied", status: 401, denial: "proof_stale",
            fault: "client", sentence: "Too old.", detail: detail, device: "9719b119971b79e4", deviceNumber: 3,
            app: "A.b",
            upstream: nil, server: nil, durationUs: 12, traceID: nil, aborted: nil)
    }

    private static func answer(_ decisions: [DecisionDocument]) -> DecisionAnswer {
        DecisionAnswer(
            run: "1-2", generation: 1, ready: true, silentWorkers: [],
            page: DecisionPage(last: 7, leftOut: 2, decisions: decisions))
    }

    @Test("decisions are one JSON object without the members that do not apply")
    func form() {
        #expect(
            String(decoding: JSONText.encode(Self.answer([Self.decision(detail: nil)])), as: UTF8.self)
                == #"{"decisions":[{"app":"A.b","client":"192.0.2.0/24","decision":"denied","denial":"proof_stale","#
                + #""device":"9719b119971b79e4","device_number":3,"duration_us":12,"event":"request","fault":"client","#
                + #""method":"GET","number":7,"protocol":"HTTP/2","route":"records","sentence":"Too old.","status":401,"#
                + #""time":"2026-11-18T11:06:40.042Z"}],"generation":1,"last":7,"left_out":2,"ready":true,"run":"1-2","#
                + #""silent_workers":[]}"#)
    }

    @Test(
        "text that a client chose is carried as JSON text",
        arguments: [
            #"</script><script>alert(1)</script>"#, "\"}],\"x\":[{\"", "\u{0}\u{1b}\u{2028}\u{202e}", #"\u0022\"#,
        ])
    func hostile(_ detail: String) throws {
        let text = JSONText.encode(Self.answer([Self.decision(detail: detail)]))
        let read = try JSONText.decode(DecisionAnswer.self, from: text)
        #expect(read == Self.answer([Self.decision(detail: detail)]))
    }

    @Test(
        "decisions are requested after the last number already seen",
        arguments: ["x", "-1", "+1", "01", "", "99999999999999999999"])
    func after(_ text: String) throws {
        let served = try TestAdministration(endpoints: {
            [
                .decisions { after, completion in
                    completion(
                        DecisionAnswer(
                            run: "r", generation: 1, ready: true, silentWorkers: [],
                            page: DecisionPage(last: after, leftOut: 0, decisions: [])))
                }
            ]
        })
        #expect(try served.refusal("GET /decisions?after=\(text)") == "400 bad_request")
        #expect(try served.ask("GET /decisions?after=12").content.contains("\"last\":12"))
        #expect(try served.ask("GET /decisions").content.contains("\"last\":0"))
    }
}
