import Policy
import Testing

@Suite("The metadata of a decision point")
struct DecisionMetadataTests {
    private func endpoint(
        _ url: String, _ point: String? = nil, at endpoint: String, status: UInt16 = 200
    ) -> Result<String, DecisionFault> {
        let text = #"""
            {"policy_decision_point":"\#(point ?? url)","access_evaluation_endpoint":"\#(endpoint)",
            "search_subject_endpoint":"http://elsewhere/"}
            """#
        let bytes = Array(text.utf8)
        return DecisionMetadata.endpoint(
            status: status, contentType: "application/json", content: bytes.span, url: url)
    }

    @Test("its place follows from the URL, which is an https one")
    func place() {
        let cases: [(String, String?)] = [
            ("https://pdp.example", "/.well-known/authzen-configuration"),
            ("https://pdp.example:8181/", "/.well-known/authzen-configuration"),
            ("https://pdp.example/tenant", "/.well-known/authzen-configuration/tenant"),
            ("http://pdp.example", nil), ("https://", nil), ("https:///x", nil), ("https://a@b", nil),
            ("https://pdp.example?x", nil), ("https://pdp.example/?x", nil), ("https://pdp.example/#x", nil),
            ("https://pdp.example/a b", nil), ("https://pdp.example/\r\n", nil), ("pdp.example", nil),
        ]
        for (url, path) in cases { #expect(DecisionMetadata.path(of: url) == path, "\(url)") }
    }

    @Test("an endpoint on the same origin is accepted")
    func accepted() {
        let url = "https://pdp.example"
        #expect(endpoint(url, at: "https://pdp.example/access/v1/evaluation") == .success("/access/v1/evaluation"))
        #expect(endpoint(url, at: "HTTPS://PDP.example:443/e?x=1") == .success("/e?x=1"))
        #expect(endpoint("https://pdp.example:8443/t", at: "https://pdp.example:8443/t/e") == .success("/t/e"))
    }

    @Test(
        "an endpoint elsewhere, or in the clear, is a fault",
        arguments: [
            "http://pdp.example/e", "https://other.example/e", "https://pdp.example:8443/e", "https://pdp.example",
            "https://pdp.example.evil/e", "https://pdp.example@evil.example/e",
            "https://pdp.example\\u000d\\u000aX: y/e",
            "https://pdp.example/a b", "https://pdp.example?/e", "/e", "", "//pdp.example/e", "https://pdp.example/e#f",
        ])
    func refused(_ text: String) {
        #expect(endpoint("https://pdp.example", at: text) == .failure(.metadata))
    }

    @Test("metadata of another decision point is a fault, in any spelling")
    func foreign() {
        for point in ["https://pdp.example/", "https://PDP.example", "https://pdp.example:443", "https://other", ""] {
            let found = endpoint("https://pdp.example", point, at: "https://pdp.example/e")
            #expect(found == .failure(.metadata), "\(point)")
        }
    }

    @Test("missing members, other types and statuses are faults")
    func malformed() {
        for text in ["{}", #"{"policy_decision_point":"https://a"}"#, #"{"access_evaluation_endpoint":"https://a/e"}"#]
        {
            let bytes = Array(text.utf8)
            #expect(
                DecisionMetadata.endpoint(
                    status: 200, contentType: "application/json", content: bytes.span, url: "https://a")
                    == .failure(.metadata))
        }
        #expect(endpoint("https://a", at: "https://a/e", status: 404) == .failure(.status(404)))
    }
}
