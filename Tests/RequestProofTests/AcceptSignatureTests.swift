import RequestProof
import Testing
import Vocabulary

@Suite("Accept-Signature")
struct AcceptSignatureTests {
    private static let prefix = #"attest=("@method" "@path");created"#
    private static let rest = #";nonce="abc";tag="attestgate-request""#

    private func parse(_ text: String) throws(ProofFault) -> AcceptSignature {
        try AcceptSignature(parsing: Array(text.utf8).span)
    }

    private func fault(_ text: String) -> Malformation? {
        do throws(ProofFault) {
            _ = try parse(text)
            return nil
        } catch {
            if case .malformed(.acceptSignature, let malformation) = error { return malformation }
            Issue.record("refused as \(error)")
            return nil
        }
    }

    @Test("a challenge has RFC 9421's form, with created and the challenge as nonce")
    func form() throws {
        let components = Coverage().components(for: .content)
        let request = try AcceptSignature(components: components, nonce: Array("abc".utf8))
        #expect(
            Parsing.text(request.fieldValue)
                == #"attest=("@method" "@authority" "@path" "@query" "content-digest");created;nonce="abc";"#
                + #"tag="attestgate-request""#)
        let full = try AcceptSignature(
            components: [.method], nonce: Array("n".utf8), keyID: try Sample.keyID(), algorithm: .appleAttest)
        #expect(
            Parsing.text(full.fieldValue)
                == #"attest=("@method");created;keyid="\#(Sample.keyIDText)";nonce="n";alg="apple-attest";"#
                + #"tag="attestgate-request""#)
        for request in [request, full] { #expect(try AcceptSignature(parsing: request.fieldValue.span) == request) }
    }

    @Test("a client ignores other signature requests and spellings")
    func tolerated() throws {
        let plain = try parse(Self.prefix + Self.rest)
        for text in [
            #"sig1=("@method" "@target-uri" "cache-control");keyid="test-key-rsa-pss";created;tag="app-123", "#
                + Self.prefix + Self.rest,
            #"attest=(  "@method"  "@path" ); tag="attestgate-request"; nonce="abc";created=?1"#,
        ] {
            #expect(try parse(text) == plain)
        }
        #expect(plain.components == [.method, .path] && plain.nonce == Array("abc".utf8))
        #expect(plain.keyID == nil && plain.algorithm == nil)
    }

    @Test("without a member attest nothing is requested", arguments: ["", "sig1=()", "attests=()"])
    func missing(_ text: String) {
        #expect(throws: ProofFault.missing(.acceptSignature)) { try parse(text) }
    }

    @Test("a request that a client cannot fulfil or may misread is refused")
    func refused() throws {
        let whole = Self.prefix + Self.rest
        #expect(fault("\(whole), \(whole)") == .labelRepeated)
        #expect(fault("attest=1") == .notAnInnerList)
        #expect(fault("attest=(a)" + Self.rest) == .componentNotAString)
        #expect(fault(#"attest=("@target-uri");created"# + Self.rest) == .componentUnknown)
        #expect(fault(#"attest=("Date");created"# + Self.rest) == .componentUnknown)
        #expect(fault(#"attest=("date";sf);created"# + Self.rest) == .componentWithParameters)
        #expect(fault(#"attest=("x" "x");created"# + Self.rest) == .componentRepeated)
        #expect(fault(whole + ";expires") == .parameterUnknown)
        #expect(fault(whole + ";x=1") == .parameterUnknown)
        #expect(fault(whole + ";created") == .parameter(.created, .repeated))
        #expect(fault(#"attest=();created=1"# + Self.rest) == .parameter(.created, .type))
        #expect(fault("attest=()" + Self.rest) == .parameter(.created, .missing))
        #expect(fault(Self.prefix + #";tag="attestgate-request""#) == .parameter(.nonce, .missing))
        #expect(fault(Self.prefix + #";nonce="abc""#) == .parameter(.tag, .missing))
        #expect(fault(Self.prefix + #";nonce="abc";tag="x""#) == .parameter(.tag, .value))
        #expect(fault(Self.prefix + #";nonce="a\"c";tag="attestgate-request""#) == .parameter(.nonce, .value))
        #expect(fault(Self.prefix + #";nonce;tag="attestgate-request""#) == .parameter(.nonce, .type))
        #expect(fault(whole + ";keyid") == .parameter(.keyid, .type))
        #expect(fault(whole + #";keyid="AAAA""#) == .parameter(.keyid, .value))
        #expect(fault(whole + #";alg="rsa""#) == .parameter(.alg, .value))
        #expect(fault(whole + ";") == .syntax)
    }

    @Test("a challenge that cannot be written is not created")
    func notMade() throws {
        let twice = [Component.method, .path, .method]
        #expect(throws: ProofFault.malformed(.acceptSignature, .componentRepeated)) {
            try AcceptSignature(components: twice, nonce: [0x61])
        }
        let many = try (0..<65).map { Component.field(try #require(FieldComponent("f\($0)"))) }
        #expect(throws: ProofFault.malformed(.acceptSignature, .tooMany)) {
            try AcceptSignature(components: many, nonce: [0x61])
        }
        for nonce in [[], [0x22], [0x5c], [0x0a], [0x80], [UInt8](repeating: 0x61, count: 513)] {
            #expect(throws: ProofFault.malformed(.acceptSignature, .parameter(.nonce, .value))) {
                try AcceptSignature(components: [], nonce: nonce)
            }
        }
    }
}
