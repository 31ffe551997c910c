import RequestProof
import Testing
import Vocabulary

@Suite("Signature-Input")
struct SignatureInputTests {
    @Test("the documented proof is read")
    func whole() throws {
        let text =
            #"attest=("@method" "@authority" "@path" "@query" "content-digest");created=1763690000;"#
            + #"keyid="\#(Sample.keyIDText)";nonce="abc-_123";alg="apple-attest";tag="attestgate-request""#
        let input = try Parsing.input(text)
        #expect(
            input.componentNames.map(\.description) == ["@method", "@authority", "@path", "@query", "content-digest"])
        #expect(input.created == 1_763_690_000)
        #expect(input.expires == nil)
        #expect(input.keyID == (try Sample.keyID()))
        #expect(input.algorithm == .appleAttest)
        let nonce = input.nonce
        #expect(Parsing.text(nonce.indices.map { nonce[$0] }) == "abc-_123")
        #expect(Parsing.text(input.signatureParameters) == String(text.dropFirst("attest=".count)))
    }

    @Test("parameters come in any order, and the order is kept")
    func order() throws {
        let parameters = [
            "created=0", #"keyid="\#(Sample.keyIDText)""#, #"nonce="n""#, #"tag="attestgate-request""#,
            "expires=999999999999999", #"alg="ecdsa-p256-sha256""#,
        ]
        for rotation in parameters.indices {
            let rotated = parameters[rotation...] + parameters[..<rotation]
            let text = "(\"a\")" + rotated.map { ";" + $0 }.joined()
            let input = try Parsing.input("attest=" + text)
            #expect(Parsing.text(input.signatureParameters) == text)
            #expect(input.created == 0 && input.expires == 999_999_999_999_999)
            #expect(input.algorithm == .ecdsaP256SHA256)
        }
    }

    @Test("other labels are ignored, before and after ours")
    func otherLabels() throws {
        let plain = try Parsing.input(Sample.input)
        let other = #"sig1=("date";sf "@query-param";name="Pet");created=1;keyid="k";tag="other""#
        for text in [
            "\(other), \(Sample.input)", "\(Sample.input), \(other)", "x=1;tag=1, \(Sample.input),y=(1 2.5 a), z;tag",
            "*=:AA==:, \(Sample.input) , attests=?0",
        ] {
            #expect(try Parsing.input(text) == plain, "\(text)")
        }
    }

    @Test("other members in the field are noticed")
    func company() throws {
        #expect(try Parsing.input(Sample.input).isAlone)
        for text in ["sig1=(), \(Sample.input)", "\(Sample.input), sig1=()", "a, \(Sample.input)"] {
            #expect(try !Parsing.input(text).isAlone, "\(text)")
        }
        let lines = Parsing.combined([Sample.input, "sig1=()"])
        #expect(try !SignatureInput(parsing: lines.span, reusing: Parsing.input(Sample.input)).isAlone)
    }

    @Test("several lines are read as one field")
    func lines() throws {
        let plain = try Parsing.input(Sample.input)
        let bytes = Parsing.combined(["sig1=()", "  \(Sample.input)\t", "sig2=()"])
        #expect(Parsing.text(bytes) == "sig1=(), \(Sample.input), sig2=()")
        #expect(try SignatureInput(parsing: bytes.span) == plain)
    }

    @Test("a reused value contains nothing of the previous one")
    func reuse() throws {
        let long = try Parsing.input(
            Sample.input(#""a" "b" "c" "@path""#, #";expires=5;alg="apple-attest""# + Sample.parameters))
        let again = try SignatureInput(parsing: Array(Sample.input.utf8).span, reusing: long)
        #expect(again == (try Parsing.input(Sample.input)))
        #expect(again.expires == nil && again.algorithm == nil)
        #expect(long.componentNames.count == 4)
    }

    @Test(
        "without a member attest there is no proof",
        arguments: ["", "  ", "sig1=()", "attests=()", "a, b;attest=1"])
    func missing(_ text: String) {
        #expect(throws: ProofFault.missing(.signatureInput)) { try Parsing.input(text) }
    }

    @Test("field names must be tokens in lower case")
    func fieldNames() throws {
        let names = ["content-type", "x", "a!#$%&'*+-.^_`|~9", "authorization", "*"]
        let input = try Parsing.input(Sample.input(names.map { "\"\($0)\"" }.joined(separator: " ")))
        #expect(input.componentNames.map(\.description) == names)
        for name in names { #expect(input.covers(try #require(FieldComponent(name)))) }
        #expect(!input.covers(try #require(FieldComponent("y"))))
    }
}
