import RequestProof
import Testing
import TrustClient
import Vocabulary

@Suite("Requests covered by a proof")
struct AttestedRequestTests {
    @Test(
        "a URL is parsed and spelt as it is sent",
        arguments: [
            ("https://a.example/b/c?d=e&f", "a.example", "/b/c", "d=e&f"),
            ("https://a.example", "a.example", "/", ""),
            ("HTTPS://A.Example:443/%2a?", "A.Example:443", "/%2a", ""),
            ("https://[::1]:8443?q", "[::1]:8443", "/", "q"),
            ("https://a/b?c?d#e?f", "a", "/b", "c?d"), ("https://a/b#?", "a", "/b", ""),
        ])
    func targets(_ url: String, _ authority: String, _ path: String, _ query: String) throws {
        let target = try #require(RequestTarget(url: url))
        #expect(Sample.text(target.authority) == authority)
        #expect(Sample.text(target.path) == path)
        #expect(Sample.text(target.query) == query)
    }

    @Test(
        "a URL that cannot be sent unchanged is refused",
        arguments: [
            "", "https://", "https:///a", "http://a/", "https://user@a/", "https://a/b c", "https://a/\u{e4}",
            "https://a/\r\nX: y", "/a", "https:/a",
        ])
    func noTargets(_ url: String) {
        #expect(RequestTarget(url: url) == nil)
    }

    @Test("every proof covers the target, and those of the four fields that the request has")
    func required() throws {
        let bare = try AttestedRequest(method: "GET", target: Sample.target())
        #expect(bare.components() == [.method, .authority, .path, .query])
        let full = try AttestedRequest(
            method: "POST", target: Sample.target(),
            fields: [("Content-Type", "a/b"), ("AUTHORIZATION", "Bearer x"), ("Content-Encoding", "gzip"), ("X", "1")],
            content: .bytes([1]))
        #expect(
            full.components().map(\.description) == [
                "@method", "@authority", "@path", "@query", "content-digest", "authorization", "content-type",
                "content-encoding",
            ])
    }

    @Test("requested components are covered where the request has them")
    func asked() throws {
        let challenge = try Sample.challenge("n", extra: #" "content-digest" "x-location" "x-absent""#)
        let request = try AttestedRequest(
            method: "GET", target: Sample.target(), fields: [("X-Location", "52.5")])
        #expect(
            request.components(asked: challenge.request.components).map(\.description)
                == ["@method", "@authority", "@path", "@query", "x-location"])
    }

    @Test("content has a digest, and empty content has none")
    func content() throws {
        func digest(_ content: AttestedRequest.Content) throws -> String? {
            try AttestedRequest(method: "PUT", target: Sample.target(), content: content).contentDigest.map(Sample.text)
        }
        // RFC 9530 appendix B.7.
        let hello = #"{"hello": "world"}"# + "\n"
        let expected = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"
        #expect(try digest(.bytes(Array(hello.utf8))) == expected)
        #expect(try digest(.none) == nil)
        #expect(try digest(.bytes([])) == nil)
        let zeros = [UInt8](repeating: 0, count: 32)
        #expect(try digest(.sha256(zeros)) == "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:")
        #expect(throws: RequestFault.digestLength) { try digest(.sha256([1])) }
    }

    @Test("the counter of an Android device is a covered field, and an app of Apple's has none")
    func counter() throws {
        let challenge = try Sample.challenge("n", extra: #" "attest-proof-counter""#)
        let request = try AttestedRequest(method: "GET", target: Sample.target())
        let android = try ProofDraft(request, answering: challenge, keyID: Sample.keyID, created: 7, counter: 42)
        let base = Sample.text(android.signatureBase)
        #expect(base.contains("\n\"attest-proof-counter\": 42\n"))
        #expect(base.contains(#"" "attest-proof-counter");created=7;"#) && base.contains(#";alg="ecdsa-p256-sha256";"#))
        let fields = try android.fields(assertion: [UInt8](repeating: 1, count: 64))
        #expect(fields.lines.map(\.name) == ["Attest-Proof-Counter", "Signature-Input", "Signature"])
        #expect(fields.lines[0].value == "42")
        let apple = try ProofDraft(request, answering: challenge, keyID: Sample.keyID, created: 7)
        #expect(!Sample.text(apple.signatureBase).contains("attest-proof-counter"))
        #expect(try apple.fields(assertion: [1]).lines.map(\.name) == ["Signature-Input", "Signature"])
    }

    @Test(
        "a caller cannot set the proof's own fields",
        arguments: ["Content-Digest", "signature", "SIGNATURE-INPUT", "Attest-Proof-Counter"])
    func reserved(_ name: String) {
        #expect(throws: RequestFault.fieldReserved) {
            try AttestedRequest(method: "GET", target: Sample.target(), fields: [(name, "x")])
        }
    }

    @Test("an invalid field name is refused", arguments: ["", "a b", "a:", "@method", "\u{e4}"])
    func names(_ name: String) {
        #expect(throws: RequestFault.fieldName) {
            try AttestedRequest(method: "GET", target: Sample.target(), fields: [(name, "x")])
        }
    }
}

/// Typical values of a client.
enum Sample {
    static let keyID: KeyID = {
        let bytes = [UInt8](repeating: 7, count: 32)
        guard let keyID = KeyID(digest: bytes.span) else { preconditionFailure("32 bytes are a key id") }
        return keyID
    }()

    static func target(_ url: String = "https://records.example:8443/patients/1?view=full") -> RequestTarget {
        guard let target = RequestTarget(url: url) else { preconditionFailure("no target: \(url)") }
        return target
    }

    /// Returns the value of Accept-Signature with this challenge.
    static func acceptSignature(_ nonce: String, extra: String = "", parameters: String = "") -> String {
        #"attest=("@method" "@authority" "@path" "@query"\#(extra));created;nonce="\#(nonce)"\#(parameters);"#
            + #"tag="attestgate-request""#
    }

    static func challenge(_ nonce: String, extra: String = "", receivedAt: Int64 = 0) throws -> ReceivedChallenge {
        let text = Array(acceptSignature(nonce, extra: extra).utf8)
        return ReceivedChallenge(try AcceptSignature(parsing: text.span), receivedAt: receivedAt)
    }

    static func answer(
        _ status: Int, _ denial: String? = nil, challenge: String? = nil, date: String? = nil
    ) -> GatewayAnswer {
        let content = denial.map { #"{"error":"\#($0)","error_description":"...","trace_id":"1"}"# } ?? ""
        return GatewayAnswer(
            status: status, acceptSignature: challenge.map { [acceptSignature($0)] } ?? [], date: date,
            content: Array(content.utf8))
    }

    static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
