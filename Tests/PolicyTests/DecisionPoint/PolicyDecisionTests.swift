import Chance
import Encoding
import Policy
import Testing

@Suite("The answer of a decision point")
struct DecisionTests {
    private func parse(
        _ text: String, _ format: DecisionFormat = .authzen, status: UInt16 = 200, type: String? = "application/json"
    ) -> Result<PolicyDecision, DecisionFault> {
        let bytes = Array(text.utf8)
        return PolicyDecision.parse(status: status, contentType: type, content: bytes.span, format: format)
    }

    private static let allowed = Result<PolicyDecision, DecisionFault>.success(PolicyDecision(isAllowed: true))
    private static let denied = Result<PolicyDecision, DecisionFault>.success(PolicyDecision(isAllowed: false))

    @Test("AuthZEN: a Boolean decides, and unknown members are ignored")
    func evaluation() {
        #expect(parse(#"{"decision":true}"#) == Self.allowed)
        #expect(parse(#" {"x":[null,{"decision":true}],"decision":false,"context":{"id":"1"}} "#) == Self.denied)
        #expect(parse(#"{"decision":true,"context":7}"#) == Self.allowed)
    }

    @Test(
        "another type of decision is a fault, never a decision",
        arguments: [#""true""#, "1", "0", "null", "[]", "[true]", "{}", #"{"decision":true}"#, "\"\""])
    func types(_ value: String) {
        #expect(parse(#"{"decision":\#(value)}"#) == .failure(.decisionType))
        #expect(parse(#"{"result":{"allow":\#(value)}}"#, .opa) == .failure(.decisionType))
        #expect(parse(#"{"result":{"allow":\#(value)}}"#, .opaReference) == .failure(.decisionType))
        let part = #"{"result":{"allow":true,"device":{"allow":\#(value)}}}"#
        #expect(parse(part, .opaReference) == .failure(.decisionType))
        guard !value.hasPrefix("{") else { return }
        #expect(parse(#"{"result":\#(value)}"#, .opa) == .failure(.resultType))
        #expect(parse(#"{"result":{"allow":true,"security":\#(value)}}"#, .opaReference) == .failure(.resultType))
    }

    @Test("other statuses and media types are faults, whatever the content")
    func envelope() {
        for status: UInt16 in [0, 199, 201, 204, 206, 302, 304, 400, 401, 403, 404, 500, 503] {
            #expect(parse(#"{"decision":true}"#, status: status) == .failure(.status(status)))
        }
        for type in [
            nil, "", "text/html", "application/jsonx", "application/json-seq", "application/problem+json", "json",
            "text/application/json", "application/json application/json", ";application/json", "application /json",
        ] {
            #expect(parse(#"{"decision":true}"#, type: type) == .failure(.contentType), "\(type ?? "none")")
        }
        for type in ["Application/JSON", "application/json; charset=utf-8", " application/json\t;x"] {
            #expect(parse(#"{"decision":true}"#, type: type) == Self.allowed, "\(type)")
        }
    }

    @Test("what is not one object of JSON within the limits is a fault")
    func malformed() {
        let cases: [(String, JSONFault)] = [
            ("", .malformed), (#"{"decision":true"#, .malformed), (#"{"decision":tru}"#, .malformed),
            (#"{"decision":true}x"#, .trailingBytes), (#"{"decision":true}{"decision":false}"#, .trailingBytes),
            (#"{"decision":true,"decision":false}"#, .duplicateName),
            (#"{"decision":true,"\u0064ecision":false}"#, .duplicateName),
            (#"{"decision":true,"context":{"a":1,"a":1}}"#, .duplicateName), ("true", .notAnObject),
            ("[true]", .notAnObject), ("\u{feff}{\"decision\":true}", .malformed),
        ]
        for (text, fault) in cases { #expect(parse(text) == .failure(.malformed(fault)), "\(text)") }
        let bytes = Array(#"{"decision":true,"x":""#.utf8) + [0xff] + Array(#""}"#.utf8)
        #expect(
            PolicyDecision.parse(status: 200, contentType: "application/json", content: bytes.span, format: .authzen)
                == .failure(.malformed(.notUTF8)))
        func nested(_ depth: Int) -> String {
            let inner = depth - 1
            return #"{"decision":true,"x":"# + String(repeating: "[", count: inner)
                + String(repeating: "]", count: inner) + "}"
        }
        #expect(parse(nested(PolicyDecision.depthLimit)) == Self.allowed)
        #expect(parse(nested(PolicyDecision.depthLimit + 1)) == .failure(.malformed(.tooDeep)))
        #expect(parse(nested(10_000)) == .failure(.malformed(.tooDeep)))
        let text = #"{"decision":true}"#
        let filled = text + String(repeating: " ", count: PolicyDecision.contentLimit - text.utf8.count)
        #expect(parse(filled) == Self.allowed)
        #expect(parse(filled + " ") == .failure(.malformed(.tooLong)))
    }

    @Test("a missing decision is a fault; OPA's undefined result is a denial")
    func missing() {
        #expect(parse("{}") == .failure(.decisionMissing))
        #expect(parse(#"{"result":true}"#) == .failure(.decisionMissing))
        for format in [DecisionFormat.opa, .opaReference] {
            #expect(parse("{}", format) == Self.denied)
            #expect(parse(#"{"decision":true,"decision_id":"x"}"#, format) == Self.denied)
            #expect(parse(#"{"result":{}}"#, format) == .failure(.decisionMissing))
            #expect(parse(#"{"result":null}"#, format) == .failure(.resultType))
        }
    }

    @Test("AuthZEN: reasons are texts, or the English or first of an object of texts")
    func reasons() {
        func reasons(_ context: String) -> [String?] {
            guard case .success(let decision) = parse(#"{"decision":false,"context":\#(context)}"#) else {
                return ["?"]
            }
            return [decision.userReason, decision.adminReason]
        }
        #expect(reasons(#"{"reason_user":"Update.","reason_admin":"rule 7"}"#) == ["Update.", "rule 7"])
        #expect(
            reasons(#"{"reason_user":{"de":"Nein","en":"No"},"reason_admin":{"403":"a","200":"b"}}"#) == ["No", "b"])
        #expect(reasons(#"{"reason_user":{"de-403":"Nein","en-403":"No"}}"#) == ["No", nil])
        for other in ["7", "null", "[]", "{}", #"["a"]"#, #"{"en":7}"#, #"{"a":"b","en":{}}"#, "\"\"", #""\n ""#] {
            #expect(reasons(#"{"reason_user":\#(other),"reason_admin":\#(other)}"#) == [nil, nil], "\(other)")
        }
    }

    @Test("a reason is bounded, and safe in JSON, logs and terminals")
    func shown() throws {
        func shown(_ text: String) throws -> String? {
            let content = #"{"decision":false,"context":{"reason_user":\#(JSONWriter.quoted(text))}}"#
            return try parse(content).get().userReason
        }
        #expect(try shown("a\"b\\c\r\n\td\u{1b}[31m\u{202e}e\u{2028}f\u{feff} \u{a0} g ") == "a'b/c d [31m e f g")
        #expect(try shown("Größe 漢字 𝄞 %") == "Größe 漢字 𝄞 %")
        #expect(try shown(String(repeating: "x", count: 300))?.utf8.count == PolicyDecision.reasonLimit)
        // The last scalar is left out whole.
        #expect(try shown("x" + String(repeating: "é", count: 300))?.utf8.count == PolicyDecision.reasonLimit - 1)
        #expect(PolicyDecision.messageForGRPC("Größe 5 %\n") == "Gr%C3%B6%C3%9Fe 5 %25%0A")
    }

    @Test("OPA: a Boolean, or an object with violations of either form")
    func opa() throws {
        #expect(parse(#"{"result":true}"#, .opa) == Self.allowed)
        #expect(parse(#"{"result":false,"decision_id":"1"}"#, .opa) == Self.denied)
        #expect(parse(#"{"result":true}"#, .opaReference) == .failure(.resultType))
        #expect(parse(#"{"result":{"allow":true,"violations":7}}"#, .opa) == Self.allowed)
        let decision = try parse(
            #"""
            {"result":{"allow":false,"violations":["old","old",{"errorCode":"message_not_match",
            "description":"X-Message is wrong"},{"errorCode":7,"errorDescription":"second"},{},7,null,"","a\nb","é","a\"b"]}}
            """#, .opa
        ).get()
        let expected = PolicyDecision(
            isAllowed: false, violations: ["old", "message_not_match"], userReason: "X-Message is wrong",
            adminReason: "X-Message is wrong; second")
        #expect(decision == expected)
        #expect(
            try parse(#"{"result":{"allow":false,"reason_user":"Ask.","reason_admin":{"en":"r"}}}"#, .opa).get()
                == PolicyDecision(isAllowed: false, userReason: "Ask.", adminReason: "r"))
    }

    @Test("violations are bounded")
    func bounded() throws {
        let codes = (0..<100).map { "code-\($0)" } + [String(repeating: "x", count: 65)]
        let list = codes.reversed().map { "\"\($0)\"" }.joined(separator: ",")
        let decision = try parse(#"{"result":{"allow":false,"violations":[\#(list)]}}"#, .opa).get()
        #expect(decision.violations == codes.dropLast().suffix(PolicyDecision.violationLimit).reversed())
        let long = String(repeating: "x", count: 64)
        #expect(try parse(#"{"result":{"allow":false,"violations":["\#(long)"]}}"#, .opa).get().violations == [long])
    }

    @Test("the reference system's verdict: all parts must allow, and security is not for the client")
    func reference() throws {
        let verdict = #"""
            {"result":{"allow":false,"device":{"allow":false,"violations":[{"errorCode":"device_system_version_not_match",
            "errorDescription":"iOS: 15"}]},"security":{"allow":false,"violations":[{"errorCode":"request_client_ip_blocked",
            "description":"listed"}]}}}
            """#
        #expect(
            try parse(verdict, .opaReference).get()
                == PolicyDecision(
                    isAllowed: false, violations: ["device_system_version_not_match", "request_client_ip_blocked"],
                    userReason: "iOS: 15", adminReason: "iOS: 15; listed"))
        for (all, device, security) in [
            (true, true, true), (true, false, true), (true, true, false), (false, true, true),
        ] {
            let text = #"{"result":{"allow":\#(all),"device":{"allow":\#(device)},"security":{"allow":\#(security)}}}"#
            #expect(try parse(text, .opaReference).get().isAllowed == (all && device && security))
        }
        #expect(parse(#"{"result":{"allow":true,"device":{}}}"#, .opaReference) == .failure(.decisionMissing))
        #expect(parse(#"{"result":{"allow":true}}"#, .opaReference) == Self.allowed)
    }

    @Test("every truncated answer is a fault")
    func truncated() {
        let text = #"{"result":{"allow":true,"violations":["a"]},"decision_id":"é"}"#
        let bytes = Array(text.utf8)
        for count in bytes.indices {
            let part = Array(bytes[..<count])
            let parsed = PolicyDecision.parse(
                status: 200, contentType: "application/json", content: part.span, format: .opa)
            #expect(throws: DecisionFault.self) { try parsed.get() }
        }
    }

    @Test("random answers never crash, and only a true Boolean allows")
    func random() throws {
        let seed = RunSeed.tell()
        var random = SeededGenerator(seed: seed)
        let names = [
            "decision", "result", "allow", "context", "device", "security", "violations", "errorCode", "en", "x",
        ]
        let scalars = [
            "true", "false", "null", "1", "-0.5e3", "\"true\"", "\"\\ud800\"", "\"\\n\\u0000\"", "\"é\"", "", "tru",
        ]
        func value(_ depth: Int) -> String {
            switch depth > 5 ? 2 : Int.random(in: 0..<6, using: &random) {
            case 0:
                let members = (0..<Int.random(in: 0..<5, using: &random)).map { _ in
                    "\"\(names.randomElement(using: &random) ?? "")\":\(value(depth + 1))"
                }
                return "{\(members.joined(separator: ","))}"
            case 1:
                return
                    "[\((0..<Int.random(in: 0..<4, using: &random)).map { _ in value(depth + 1) }.joined(separator: ","))]"
            default: return scalars.randomElement(using: &random) ?? ""
            }
        }
        for round in 0..<5_000 {
            var bytes = Array(value(0).utf8)
            if round % 3 == 0, !bytes.isEmpty {
                bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(in: .min ... .max, using: &random)
            }
            for format in DecisionFormat.allCases {
                let parsed = PolicyDecision.parse(
                    status: 200, contentType: "application/json", content: bytes.span, format: format)
                guard case .success(let decision) = parsed, decision.isAllowed else { continue }
                #expect(String(decoding: bytes, as: UTF8.self).contains("true"))
            }
        }
    }

    @Test("each fault has a reason")
    func faults() {
        let faults: [DecisionFault] =
            [.status(500), .contentType, .decisionMissing, .decisionType, .resultType, .metadata]
            + JSONFault.allCases.map(DecisionFault.malformed)
        #expect(Set(faults.map(\.reason)).count == faults.count)
        #expect(faults.allSatisfy { !$0.reason.isEmpty && $0.reason.utf8.count < 60 })
    }
}
