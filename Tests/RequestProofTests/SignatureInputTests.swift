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

@Suite("Attacks on Signature-Input")
struct SignatureInputAttackTests {
    private static let key = #";keyid="\#(Sample.keyIDText)""#
    private static let tag = #";tag="attestgate-request""#
    private static let rest = #";nonce="n"\#(tag)"#

    @Test("a repeated label is refused, in one line or two")
    func labelRepeated() {
        #expect(Parsing.fault("\(Sample.input), \(Sample.input)") == .labelRepeated)
        #expect(Parsing.fault("\(Sample.input), attest") == .labelRepeated)
        #expect(Parsing.fault("attest=1, \(Sample.input)") == .notAnInnerList)
        #expect(Parsing.fault(Parsing.combined([Sample.input, Sample.input])) == .labelRepeated)
    }

    @Test("our tag under another label is refused")
    func tagElsewhere() {
        let other = "sig1=" + Sample.components + Sample.parameters
        #expect(Parsing.fault("\(Sample.input), \(other)") == .tagElsewhere)
        #expect(Parsing.fault("\(other), \(Sample.input)") == .tagElsewhere)
        #expect(Parsing.fault(other) == .tagElsewhere)
        #expect(Parsing.fault("\(Sample.input), x=()\(Self.tag);tag=\"other\"") == .tagElsewhere)
        #expect(Parsing.fault("\(Sample.input), x=()\(Self.tag)=1") == .tagElsewhere)
        #expect(Parsing.fault("\(Sample.input), x=1\(Self.tag)") == .tagElsewhere)
        #expect(Parsing.fault("\(Sample.input), x\(Self.tag)") == .tagElsewhere)
    }

    @Test("our label with another tag or none is refused")
    func foreignTag() {
        let parameters = ";created=1\(Self.key);nonce=\"n\""
        #expect(Parsing.fault(Sample.input("", parameters)) == .parameter(.tag, .missing))
        for tag in ["", "attestgate", "attestgate-request ", "Attestgate-Request", "attestgate-request2"] {
            #expect(Parsing.fault(Sample.input("", "\(parameters);tag=\"\(tag)\"")) == .parameter(.tag, .value))
        }
        #expect(Parsing.fault(Sample.input("", "\(parameters);tag=attestgate-request")) == .parameter(.tag, .type))
    }

    @Test("a label in another case is refused", arguments: ["Attest", "ATTEST", "attesT"])
    func labelCase(_ label: String) {
        #expect(Parsing.fault(label + Sample.input.dropFirst(6)) == .syntax)
    }

    @Test(
        "a component with parameters is refused",
        arguments: ["sf", "bs", "req", "tr", #"key="a""#, #"name="q""#, "sf=?0"])
    func parameterisedComponent(_ parameter: String) {
        for name in ["@query", "content-digest", "@query-param"] where name != "@query-param" {
            #expect(Parsing.fault(Sample.input("\"\(name)\";\(parameter)")) == .componentWithParameters)
        }
        #expect(Parsing.fault(Sample.input("\"@query-param\";\(parameter)")) == .componentUnknown)
    }

    @Test(
        "a repeated component is refused",
        arguments: ["@method", "@authority", "@path", "@query", "content-digest", "x"])
    func componentRepeated(_ name: String) {
        #expect(Parsing.fault(Sample.input("\"\(name)\" \"a\" \"\(name)\"")) == .componentRepeated)
    }

    @Test(
        "an unknown component is refused",
        arguments: [
            "", "@", "@signature-params", "@target-uri", "@scheme", "@request-target", "@status", "@query-param",
            "@METHOD", "Content-Digest", "content-Type", "a b", "a:", "a,b", "a\\\\b", "a\\\"", "(", "é",
        ])
    func componentUnknown(_ name: String) {
        let expected: Malformation = name == "é" ? .syntax : .componentUnknown
        #expect(Parsing.fault(Sample.input("\"\(name)\"")) == expected)
        #expect(Parsing.fault(Sample.input("\"\(String(repeating: "a", count: 257))\"")) == .componentUnknown)
    }

    @Test("a component that is not a string is refused", arguments: ["a", "1", ":YQ==:", "?1", "1.5"])
    func componentType(_ item: String) {
        #expect(Parsing.fault(Sample.input(item)) == .componentNotAString)
    }

    @Test("a member that is not an inner list is refused")
    func notAnInnerList() {
        for value in ["", "=1", "=\"@method\"", "=:YQ==:", "=a"] {
            #expect(Parsing.fault("attest\(value)\(Sample.parameters)") == .notAnInnerList)
        }
    }

    @Test(
        "an unknown parameter is refused", arguments: ["x", "Created=1", "exp=1", "created2=1", "key-id=\"a\"", "sf"])
    func parameterUnknown(_ parameter: String) {
        let expected: Malformation = parameter.first == "C" ? .syntax : .parameterUnknown
        #expect(Parsing.fault(Sample.input + ";" + parameter) == expected)
    }

    @Test("a repeated parameter is refused")
    func parameterRepeated() {
        let all = Sample.parameters + #";expires=5;alg="apple-attest""#
        for (parameter, text) in [
            (SignatureParameter.created, ";created=1763690000"), (.expires, ";expires=5"), (.keyid, Self.key),
            (.nonce, #";nonce="abc""#), (.alg, #";alg="apple-attest""#), (.tag, Self.tag),
        ] {
            #expect(Parsing.fault(Sample.input("", all + text)) == .parameter(parameter, .repeated))
        }
    }

    @Test("a missing parameter is refused")
    func parameterMissing() {
        #expect(Parsing.fault(Sample.input("", Self.key + Self.rest)) == .parameter(.created, .missing))
        #expect(Parsing.fault(Sample.input("", ";created=1" + Self.rest)) == .parameter(.keyid, .missing))
        #expect(Parsing.fault(Sample.input("", ";created=1\(Self.key)\(Self.tag)")) == .parameter(.nonce, .missing))
        #expect(Parsing.fault("attest=()") == .parameter(.created, .missing))
    }

    @Test("a time that is not a whole number of seconds since 1970 is refused")
    func times() {
        for name in [SignatureParameter.created, .expires] {
            let others = Self.key + Self.rest + (name == .created ? "" : ";created=1")
            func fault(_ value: String) -> Malformation? {
                Parsing.fault(Sample.input("", others + ";\(name)\(value)"))
            }
            #expect(fault("=-1") == .parameter(name, .value))
            #expect(fault("=-999999999999999") == .parameter(name, .value))
            #expect(fault("=1000000000000000") == .numberTooLong)
            #expect(fault("=18446744073709551617") == .numberTooLong)
            #expect(fault("=1.0") == .parameter(name, .type))
            #expect(fault("=\"1\"") == .parameter(name, .type))
            #expect(fault("") == .parameter(name, .type))
            #expect(fault("=?0") == .parameter(name, .type))
            #expect(fault("=@1") == .syntax)
            #expect(fault("=01") == .notCanonical)
            #expect(fault("=-0") == .notCanonical)
        }
    }

    @Test("a key id that is not the canonical form of 32 bytes is refused")
    func keyIDs() {
        func fault(_ text: String) -> Malformation? {
            Parsing.fault(Sample.input("", ";created=1;keyid=\(text)" + Self.rest))
        }
        let text = Sample.keyIDText
        let bare = String(text.dropLast())
        #expect(fault("\"\(text)\"") == nil)
        #expect(fault("\"\(bare)\"") == .parameter(.keyid, .value))  // without padding
        // 'h8=' ends in two zero bits; these are the three other spellings of the same 32 bytes.
        for last in ["9", "+", "/"] {
            #expect(fault("\"\(bare.dropLast())\(last)=\"") == .parameter(.keyid, .value))
        }
        let urlSafe = "-_" + text.dropFirst(2)
        for wrong in [
            urlSafe, "AA" + text, text + "AAAA", "", " " + text.dropLast(), bare + "A", bare.dropLast() + "==",
        ] {
            #expect(fault("\"\(wrong)\"") == .parameter(.keyid, .value), "\(wrong)")
        }
        #expect(fault(":\(text):") == .parameter(.keyid, .type))
        #expect(fault("abc") == .parameter(.keyid, .type))
    }

    @Test("an empty or too long nonce, or one that needs escapes, is refused")
    func nonces() {
        func fault(_ text: String) -> Malformation? {
            Parsing.fault(Sample.input("", ";created=1\(Self.key)\(Self.tag);nonce=\(text)"))
        }
        #expect(fault("\"\(String(repeating: "n", count: 512))\"") == nil)
        #expect(fault("\"\(String(repeating: "n", count: 513))\"") == .parameter(.nonce, .value))
        #expect(fault(#""""#) == .parameter(.nonce, .value))
        #expect(fault(#""a\"b""#) == .parameter(.nonce, .value))
        #expect(fault(#""a\\b""#) == .parameter(.nonce, .value))
        #expect(fault(":YQ==:") == .parameter(.nonce, .type))
    }

    @Test("an unknown algorithm is refused")
    func algorithms() {
        for name in ["", "none", "hmac-sha256", "ed25519", "Apple-Attest", "apple-attest "] {
            #expect(Parsing.fault(Sample.input + ";alg=\"\(name)\"") == .parameter(.alg, .value))
        }
        #expect(Parsing.fault(Sample.input + ";alg=apple-attest") == .parameter(.alg, .type))
    }

    @Test("white space outside the canonical form is refused")
    func whitespace() {
        for components in [#"( "a")"#, #"("a" )"#, #"("a"  "b")"#, "( )"] {
            #expect(Parsing.fault("attest=" + components + Sample.parameters) == .notCanonical, "\(components)")
        }
        #expect(Parsing.fault("attest=(); created=1\(Self.key)\(Self.rest)") == .notCanonical)
        #expect(Parsing.fault("attest=();  created=1\(Self.key)\(Self.rest)") == .notCanonical)
        for text in [
            "attest =()", "attest= ()", "attest=() ;created=1", "attest=();created =1", "attest=();created= 1",
            "attest=(\"a\"\t\"b\")", "attest=();\tcreated=1", "\t" + Sample.input,
        ] {
            #expect(Parsing.fault(text) != nil, "\(text)")
        }
    }

    @Test("trailing bytes, and control characters anywhere, are refused")
    func trailing() {
        for end in [",", ", ", ";", "=", "\"", ")", " x", ",,", "\r\n", "\n", "\0", "\u{7f}", "é"] {
            #expect(Parsing.fault(Sample.input + end) == .syntax, "\(end)")
        }
        let bytes = Array(Sample.input.utf8)
        for place in 0...bytes.count {
            for control: UInt8 in [0x00, 0x0a, 0x0d, 0x1f, 0x7f, 0x80, 0xff] {
                let broken = Array(bytes[..<place]) + [control] + Array(bytes[place...])
                #expect(Parsing.fault(broken) != nil)
            }
        }
    }

    @Test("a truncated proof is refused")
    func truncated() {
        let bytes = Array(Sample.input.utf8)
        for count in 0..<bytes.count {
            #expect(throws: ProofFault.self, "cut at \(count)") {
                try SignatureInput(parsing: bytes.span.extracting(first: count))
            }
        }
    }

    @Test("a very large field is refused")
    func huge() {
        let many = (0..<65).map { "\"f\($0)\"" }.joined(separator: " ")
        #expect(Parsing.fault(Sample.input(many)) == .tooMany)
        #expect(Parsing.fault(String(repeating: "a, ", count: 16) + Sample.input) == .tooMany)
        #expect(Parsing.fault("x=\"\(String(repeating: "y", count: 20_000))\", " + Sample.input) == .tooLong)
        #expect(Parsing.fault(String(repeating: "(", count: 10_000)) == .syntax)
        #expect(Parsing.fault("attest=" + String(repeating: "(", count: 10_000)) == .syntax)
    }
}

@Suite("Other members of the signature fields")
struct ForeignMembersTests {
    private func foreign(_ line: String) -> String {
        let line = Array(line.utf8)
        var bytes = Array("before ".utf8)
        ForeignMembers.append(of: line.span, to: &bytes)
        return String(decoding: bytes.dropFirst(7), as: UTF8.self)
    }

    @Test("our member is removed, and the others stay unchanged")
    func others() {
        #expect(foreign("attest=:AA==:") == "")
        #expect(foreign("sig1=:AA==:") == "sig1=:AA==:")
        #expect(foreign("a=:AA==:,  attest=:BB==: ,b=:CC==:") == "a=:AA==:, b=:CC==:")
        let input = #"sig=("@method" "x");created=1;keyid="k""#
        #expect(foreign(#"attest=("@path");tag="attestgate-request", "# + input) == input)
        #expect(foreign("attest=:AA==:, attest=:BB==:") == "")
    }

    @Test(
        "a line that is not a dictionary has no members",
        arguments: ["a=:AA==:, ", "=", "a=:AA==:;;", "A=1", "a=\"", "a=1 b"])
    func malformed(_ line: String) {
        #expect(foreign(line) == "")
    }
}
