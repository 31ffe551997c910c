import HTTP
import Testing
import Vocabulary

@testable import Gateway

@Suite("Fields passed to the upstream")
struct FieldPolicyTests {
    private let policy = FieldPolicy(stripped: ["X-Internal-User"])

    private func verdict(_ name: String) -> FieldPolicy.Verdict { policy.verdict(Array(name.utf8).span, .other) }

    @Test(
        "identity fields are removed in every spelling of their case",
        arguments: [
            "Client-Cert", "client-cert-chain", "CLIENT-CERT", "Attest-Device", "attest-anything", "Attest-Subject",
            "Attest-Posture", "X-Forwarded-For",
            "x-forwarded-client-cert", "Forwarded", "X-Real-IP", "X-Client-Cert", "X-Client-Certificate-Subject",
            "X-SSL-Client-Verify", "SSL-Client-Cert", "X-Amzn-Mtls-Clientcert", "X-Device-Token", "ZETA-User-Info",
            "X-Internal-User", "x-internal-USER", "X-Forwarded", "True-Client-IP", "X-Client-IP", "X-Cluster-Client-IP",
            "CF-Connecting-IP", "Remote-User", "X-Remote-User", "X-ARR-ClientCert", "X-Client-Verify", "X-Client-DN",
            "X-Original-Host",
        ])
    func stripped(_ name: String) {
        #expect(verdict(name) == .strip)
        #expect(verdict(name.uppercased()) == .strip)
        #expect(verdict(name.lowercased()) == .strip)
    }

    @Test(
        "fields that change the method or path are refused",
        arguments: ["X-HTTP-Method-Override", "x-http-method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL"])
    func refused(_ name: String) {
        #expect(verdict(name) == .refuse)
        #expect(verdict(name.lowercased()) == .refuse)
    }

    @Test(
        "ordinary fields are passed on, and so are those that only look alike",
        arguments: [
            "X-Request-Id", "Client-Hint", "X-Forwardedly", "Attestation", "SSL-Session", "X-Real-IPs", "Zebra", "_x",
            "A",
            "Signature-Agent", "X-SS",
        ])
    func forwarded(_ name: String) {
        #expect(verdict(name) == .forward)
    }

    @Test("every protected field is removed or refused")
    func listed() {
        for pattern in ProtectedFields.own + ProtectedFields.removed {
            // X-Original-URL and its like are refused.
            #expect(verdict(pattern.text + (pattern.isPrefix ? "any" : "")) == .strip, "\(pattern.text)")
        }
        for pattern in ProtectedFields.refused { #expect(verdict(pattern.text) == .refuse, "\(pattern.text)") }
    }

    @Test("the conf file can pass fields on, but none of the gateway's own")
    func passed() {
        let policy = FieldPolicy(
            stripped: ["X-A"], forwarded: ["X-Host", "x-override-url", "Attest-Device", "forwarded"])
        func verdict(_ name: String) -> FieldPolicy.Verdict { policy.verdict(Array(name.utf8).span, .other) }
        #expect(verdict("x-HOST") == .forward && verdict("X-Override-URL") == .forward)
        let isRefused = policy.refuses(Array("X-Override-URL".utf8).span, .other)
        #expect(!isRefused)
        #expect(verdict("X-Hosts") == .forward && verdict("X-Original-Host") == .strip)
        #expect(verdict("Attest-Device") == .strip && verdict("Forwarded") == .strip)
        #expect(policy.verdict(Array("Forwarded".utf8).span, .forwarded) == .strip)
    }

    @Test("hop-by-hop fields, framing and expectations are never passed on")
    func hopByHop() {
        let name = Array("Any".utf8)
        for known in FieldName.allCases where known.isHopByHop {
            #expect(policy.verdict(name.span, known) == .strip)
        }
        #expect(policy.verdict(name.span, .contentLength) == .strip)
        #expect(policy.verdict(name.span, .expect) == .strip)
    }

    @Test("the conf file can strip fields that HTTP defines")
    func configured() {
        let policy = FieldPolicy(stripped: ["Cookie"])
        #expect(policy.verdict(Array("Cookie".utf8).span, .cookie) == .strip)
        #expect(self.policy.verdict(Array("Cookie".utf8).span, .cookie) == .forward)
    }
}
