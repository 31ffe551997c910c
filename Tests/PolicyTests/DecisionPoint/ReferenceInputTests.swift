import Registry
import Testing
import Vocabulary

@testable import Policy

@Suite("The input of the reference system's policies")
struct ReferenceInputTests {
    private let settings = DecisionSettings(
        format: .opaReference, facts: SampleQuestion.every, headers: SampleQuestion.headers)

    @Test("an iPhone has an assertion and attributes")
    func apple() throws {
        var question = SampleQuestion.make()
        question.path = "/a%20b"
        question.query = "b=2&a=%C3%A9+1&b=3&c&d;e=1&%zz=1&=x&&"
        question.country = "DE"
        #expect(
            try text(question, settings) == """
                {"input":{"request":{"method":"PUT","headers":{"X-Tenant":["north","south"]},"path":"/a b",\
                "query":{"":["x"],"a":["é 1"],"b":["2","3"],"c":[""]},\
                "url":"/a%20b?b=2&a=%C3%A9+1&b=3&c&d;e=1&%zz=1&=x&&","clientIP":"192.0.2.0/24","countryCode":"DE"},\
                "deviceTokenValid":true,"deviceTokenPayload":{"type":"IOS","userIdentifier":"p-1","sub":"d-1",\
                "deviceHealth":{"assertion":{"rpID":"//////////////////////////////////////////8","riskMetric":"3"},\
                "deviceAttributes":{"systemVersion":"17.4"}}}}}
                """)
    }

    @Test("an Android phone has a verdict, an attestation and attributes")
    func android() throws {
        let document = try text(SampleQuestion.make(.android), settings)
        #expect(
            document.hasSuffix(
                """
                "deviceTokenPayload":{"type":"ANDROID","userIdentifier":"p-1","sub":"d-1","deviceHealth":{\
                "integrityVerdict":{"appIntegrity":{"packageName":"org.example.app","versionCode":1042},\
                "deviceIntegrity":{"deviceRecognitionVerdict":["MEETS_BASIC_INTEGRITY","MEETS_STRONG_INTEGRITY"]}},\
                "keyIdAttestation":{"attestationSecurityLevel":2,"teeEnforced":{"rootOfTrust":{"deviceLocked":true,\
                "verifiedBootState":"SELF_SIGNED"},"osPatchLevel":202601,"vendorPatchLevel":20260105}},\
                "deviceAttributes":{"build":{"version":{"release":"16.0","securityPatch":"2026-01-01"}}}}}}}
                """))
    }

    @Test("a client without a device has no valid token, and facts that are not named are not sent")
    func least() throws {
        var question = SampleQuestion.make()
        let none = DecisionSettings(format: .opaReference, facts: [])
        #expect(
            try text(question, none)
                == #"{"input":{"request":{"headers":{}},"deviceTokenValid":true,"deviceTokenPayload":{}}}"#)
        question.client = .certificate("c-1")
        #expect(try text(question, none) == #"{"input":{"request":{"headers":{}},"deviceTokenValid":false}}"#)
    }

    @Test(
        "names of fields are spelt as Go spells them",
        arguments: [("x-tenant", "X-Tenant"), ("ETAG", "Etag"), ("x-2a-b_c", "X-2a-B_c"), ("-a--b", "-A--B"), ("", "")])
    func canonical(_ name: String, _ expected: String) {
        #expect(DecisionQuestion.canonical(name) == expected)
    }

    @Test("names that are not UTF-8 are one name after their repair")
    func repaired() {
        let parameters = DecisionQuestion.parameters(of: "%ff=1&%fe=2&%EF%BF%BD=3")
        #expect(parameters.map(\.name) == ["\u{fffd}"])
        #expect(parameters.map(\.values) == [["1", "2", "3"]])
        // Names that look alike are different names.
        #expect(DecisionQuestion.parameters(of: "%C3%A9=1&e%CC%81=2").count == 2)
    }
}
