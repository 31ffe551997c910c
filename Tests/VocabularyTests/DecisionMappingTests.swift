import Testing
import Vocabulary

@Suite("Templates of paths")
struct PathTemplateTests {
    private func match(_ template: String, _ path: String) -> [String]? {
        PathTemplate(template)?.match(path)?.map { "\($0.name)=\($0.value)" }
    }

    @Test("segments and variables match whole segments")
    func matches() {
        let cases: [(String, String, [String]?)] = [
            ("/", "/", []), ("/", "/a", nil), ("/todos", "/todos", []), ("/todos", "/todos/", nil),
            ("/todos", "/todosx", nil), ("/todos", "/Todos", nil), ("/todos/{id}", "/todos/7", ["id=7"]),
            ("/todos/{id}", "/todos/", nil), ("/todos/{id}", "/todos/7/8", nil), ("/todos/{id}", "/todos", nil),
            ("/u/{a}/t/{b}", "/u/x%40y/t/%C3%A9", ["a=x@y", "b=é"]), ("/{a}", "/a+b", ["a=a+b"]),
            // A value that a service could read as more than one segment, or as none.
            ("/{a}", "/x%2Fy", nil), ("/{a}", "/%00", nil), ("/{a}", "/%0a", nil), ("/{a}", "/%7f", nil),
            ("/{a}", "/%ff", nil), ("/{a}", "/%", nil), ("/{a}", "/%4", nil), ("/{a}", "/%zz", nil),
            ("/a/b", "/a//b", nil), ("/a", "a", nil), ("/a", "", nil),
        ]
        for (template, path, values) in cases { #expect(match(template, path) == values, "\(template) \(path)") }
    }

    @Test(
        "other texts are no templates",
        arguments: [
            "", "a", "//", "/a/", "/a//b", "/{}", "/{a", "/a}", "/{a}{b}", "/x{a}", "/{a}/{a}", "/{a-b}", "/{a b}",
            "/a b", "/a?b", "/a#b", "/é", "/{\(String(repeating: "a", count: 33))}", String(repeating: "/a", count: 33),
        ])
    func refused(_ text: String) {
        #expect(PathTemplate(text) == nil)
    }
}

@Suite("Sources of ids")
struct DecisionIdentifierTests {
    @Test("each has one spelling")
    func spellings() {
        let cases: [(String, DecisionIdentifier?)] = [
            ("device", .device), ("subject", .subject), ("app", .app), ("route", .route), ("host", .host),
            ("path", .path), ("path-template", .pathTemplate), ("{id}", .variable("id")), ("=todo-1", .text("todo-1")),
            ("==", .text("=")), ("", nil), ("=", nil), ("Device", nil), ("id", nil), ("{}", nil), ("{a}/{b}", nil),
            ("{a}x", nil), ("=é", nil), ("=\n", nil), ("=" + String(repeating: "x", count: 129), nil),
        ]
        for (text, identifier) in cases { #expect(DecisionIdentifier(text) == identifier, "\(text)") }
        #expect(DecisionIdentifier.pathTemplate.needsTemplate && DecisionIdentifier.variable("a").needsTemplate)
        #expect(!DecisionIdentifier.path.needsTemplate)
    }
}

@Suite("Fields that decision points never receive")
struct SecretFieldTests {
    @Test(
        "credentials, proofs and certificates are secret in every spelling",
        arguments: [
            "Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "Set-Cookie", "Signature", "Signature-Input",
            "Accept-Signature", "Content-Digest", "Attest-Proof-Counter", "Attest-Device", "Client-Cert",
            "Client-Cert-Chain", "DPoP", "X-API-Key", "X-Auth-Request", "X-Device-Token", "X_Auth_Token",
            "Private-Token", "X-CSRF-Token", "OAuth-Client-Attestation-PoP", "X-Forwarded-Client-Cert",
            "X-SSL-Client-Cert", "Forwarded", "X-Amzn-Oidc-Data", "Sec-WebSocket-Protocol", "X-My-Secret",
        ])
    func secret(_ name: String) {
        #expect(ProtectedFields.isSecret(name))
        #expect(ProtectedFields.isSecret(name.uppercased()))
        #expect(ProtectedFields.isSecret(name.lowercased()))
    }

    @Test("others are not", arguments: ["Accept-Language", "User-Agent", "X-Tenant", "X-Country-Code", "Content-Type"])
    func open(_ name: String) {
        #expect(!ProtectedFields.isSecret(name))
    }
}
