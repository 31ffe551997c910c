import Chance
import RequestProof
import Testing
import Vocabulary

@Suite("Signature")
struct ProofSignatureTests {
    private func parse(_ text: String) throws(ProofFault) -> [UInt8] {
        try ProofSignature(parsing: Array(text.utf8).span).assertion
    }

    private func fault(_ text: String) -> Malformation? {
        do throws(ProofFault) {
            _ = try parse(text)
            return nil
        } catch {
            if case .malformed(.signature, let malformation) = error { return malformation }
            Issue.record("refused as \(error)")
            return nil
        }
    }

    @Test("the assertion is read, whatever else is in the field")
    func accepted() throws {
        #expect(try parse("attest=:Zm9v:") == Array("foo".utf8))
        #expect(try parse("sig1=:AA==:;a, attest=:Zm9v:, sig2=(1 2);b, c=1.5") == Array("foo".utf8))
        let lines = Parsing.combined(["sig1=:AA:", "attest=:Zm9v:"])
        #expect(try ProofSignature(parsing: lines.span).assertion == Array("foo".utf8))
    }

    @Test("other members in the field are noticed")
    func company() throws {
        #expect(try ProofSignature(parsing: Array("attest=:Zm9v:".utf8).span).isAlone)
        for lines in [["sig1=:AA==:, attest=:Zm9v:"], ["attest=:Zm9v:, b"], ["attest=:Zm9v:", "sig1=:AA==:"]] {
            #expect(try !ProofSignature(parsing: Parsing.combined(lines).span).isAlone, "\(lines)")
        }
    }

    @Test("a written field reads back unchanged")
    func roundTrip() throws {
        for count in [1, 2, 3, 140, 4_095, 4_096] {
            let signature = try ProofSignature(assertion: (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7) })
            let old = try ProofSignature(assertion: [1, 2, 3])
            #expect(try ProofSignature(parsing: signature.fieldValue.span, reusing: old) == signature)
        }
    }

    @Test("without a member attest there is no proof", arguments: ["", "sig1=:AA==:", "sig1=:AA==:;attest=:AA==:"])
    func missing(_ text: String) {
        #expect(throws: ProofFault.missing(.signature)) { try parse(text) }
    }

    @Test("two members attest are refused, in one line or two")
    func repeated() {
        #expect(fault("attest=:AA==:, attest=:AA==:") == .labelRepeated)
        #expect(fault(Parsing.text(Parsing.combined(["attest=:AA==:", "attest=:AA==:"]))) == .labelRepeated)
    }

    @Test(
        "anything but a byte sequence is refused",
        arguments: ["attest", "attest=()", "attest=AA", #"attest="AA==""#, "attest=1"])
    func type(_ text: String) {
        #expect(fault(text) == .notAByteSequence)
    }

    @Test("parameters are refused")
    func parameters() {
        #expect(fault("attest=:AA==:;a=1") == .parametersRefused)
        #expect(fault("attest=:AA==:; a") == .parametersRefused)
    }

    @Test(
        "second spellings of the bytes are refused", arguments: ["AA", "AA=", "AB==", "AAB=", "A", "AA==AA==", "===="])
    func base64(_ text: String) {
        #expect(fault("attest=:\(text):") == .base64)
    }

    @Test("white space and other alphabets are refused", arguments: ["A A=", "AA==\n", "-_==", " AA==", "AA=="])
    func alphabet(_ text: String) {
        #expect(fault("attest=:\(text)\(text == "AA==" ? "" : ":")") == .syntax)
    }

    @Test("an assertion has 1 to 4,096 bytes")
    func size() throws {
        #expect(fault("attest=::") == .assertionSize)
        // 4,097 and 4,098 bytes need as many characters as 4,096.
        for count in [4_097, 4_098, 4_099, 9_000] {
            let text = Parsing.text(try encoded(count))
            #expect(fault(text) == .assertionSize)
        }
        #expect(throws: ProofFault.malformed(.signature, .assertionSize)) { try ProofSignature(assertion: []) }
        #expect(throws: ProofFault.malformed(.signature, .assertionSize)) {
            try ProofSignature(assertion: [UInt8](repeating: 0, count: 4_097))
        }
        #expect(fault("attest=:" + String(repeating: "A", count: 40_000) + ":") == .tooLong)
    }

    /// Returns a field with this number of zero bytes.
    private func encoded(_ count: Int) throws -> [UInt8] {
        let groups = String(repeating: "AAAA", count: count / 3)
        let end = ["", "AA==", "AAA="][count % 3]
        return Array("attest=:\(groups)\(end):".utf8)
    }
}

@Suite("Building proofs")
struct ProofBuilderTests {
    @Test("the fields have the documented form")
    func form() throws {
        let builder = try ProofBuilder(
            components: Coverage().components(for: .content), keyID: try Sample.keyID(), nonce: Array("abc".utf8),
            created: 1_763_690_000)
        #expect(
            Parsing.text(builder.signatureInput)
                == #"attest=("@method" "@authority" "@path" "@query" "content-digest");created=1763690000;"#
                + #"keyid="\#(Sample.keyIDText)";nonce="abc";alg="apple-attest";tag="attestgate-request""#)
        #expect(Parsing.text(try builder.signature(assertion: Array("foo".utf8))) == "attest=:Zm9v:")
    }

    @Test("a proof that no gateway accepts is not built")
    func refused() throws {
        let keyID = try Sample.keyID()
        func fault(
            _ components: [Component] = [], nonce: [UInt8] = [0x61], created: Int64 = 1, expires: Int64? = nil
        ) -> ProofFault? {
            do throws(ProofFault) {
                _ = try ProofBuilder(
                    components: components, keyID: keyID, nonce: nonce, created: created, expires: expires)
                return nil
            } catch {
                return error
            }
        }
        #expect(fault() == nil)
        #expect(fault([.path, .path]) == .malformed(.signatureInput, .componentRepeated))
        #expect(fault(nonce: []) == .malformed(.signatureInput, .parameter(.nonce, .value)))
        #expect(fault(nonce: [0x22]) == .malformed(.signatureInput, .parameter(.nonce, .value)))
        #expect(fault(created: -1) == .malformed(.signatureInput, .parameter(.created, .value)))
        #expect(fault(expires: 1_000_000_000_000_000) == .malformed(.signatureInput, .parameter(.expires, .value)))
    }

    @Test("random requests verify with the same meaning on both sides")
    func roundTrip() throws {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        for round in 0..<500 {
            let request = RandomRequest(&generator)
            let components = try request.components(&generator)
            let keyBytes = (0..<32).map { _ in UInt8.random(in: 0...255, using: &generator) }
            let keyID = try Sample.keyID(keyBytes)
            let nonce = Array(RandomRequest.text(1...512, except: ["\"", "\\"], &generator).utf8)
            let builder = try ProofBuilder(
                components: components, keyID: keyID, nonce: nonce,
                created: Int64.random(in: 0...999_999_999_999_999, using: &generator),
                expires: Bool.random(using: &generator) ? Int64.random(in: 0...9_999, using: &generator) : nil,
                algorithm: [nil, .appleAttest, .ecdsaP256SHA256].randomElement(using: &generator) ?? nil)
            let parsed = try SignatureInput(parsing: builder.signatureInput.span)
            #expect(parsed == builder.input, "seed \(seed), round \(round)")
            #expect(parsed.componentNames == components)
            #expect(parsed.keyID == keyID && parsed.keyID.bytes == keyBytes)
            let parts = request.parts
            let client = try builder.signatureBase(
                of: RequestParts(
                    method: parts.0.span, authority: parts.1.span, path: parts.2.span, query: parts.3.span),
                fields: Parsing.lookup(request.fields))
            let gateway = try Parsing.base(
                parsed, method: request.method, authority: request.authority, path: request.path,
                query: request.query, fields: request.fields.map { ($0.0.uppercased(), " \($0.1)\t") })
            #expect(Parsing.text(client) == gateway, "seed \(seed), round \(round)")
            #expect(gateway.split(separator: "\n", omittingEmptySubsequences: false).count == components.count + 1)
        }
    }
}

private struct RandomRequest {
    let method: String
    let authority: String
    let path: String
    let query: String
    /// Names in lower case, each one to three times.
    let fields: [(String, String)]

    init(_ generator: inout SeededGenerator) {
        method = ["GET", "POST", "PUT", "DELETE", "PATCH"].randomElement(using: &generator) ?? "GET"
        authority = ["a.example", "A.Example:443", "[::1]:8443"].randomElement(using: &generator) ?? "a"
        path = "/" + Self.text(0...40, except: [" "], &generator)
        query = Self.text(0...40, except: [" "], &generator)
        var fields: [(String, String)] = []
        for name in ["content-digest", "content-type", "x", "y-2"] {
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                fields.append((name, Self.text(0...30, except: [], &generator)))
            }
        }
        self.fields = fields.shuffled(using: &generator)
    }

    var parts: ([UInt8], [UInt8], [UInt8], [UInt8]) {
        (Array(method.utf8), Array(authority.utf8), Array(path.utf8), Array(query.utf8))
    }

    func components(_ generator: inout SeededGenerator) throws -> [Component] {
        var components: [Component] = [.method, .authority, .path, .query]
        for name in Set(fields.map(\.0)).sorted() { components.append(.field(try #require(FieldComponent(name)))) }
        return Array(components.shuffled(using: &generator).dropLast(Int.random(in: 0...8, using: &generator)))
    }

    /// Returns printable ASCII characters.
    static func text(
        _ count: ClosedRange<Int>, except: Set<Character>, _ generator: inout SeededGenerator
    ) -> String {
        let characters = (0x20...0x7e).map { Character(Unicode.Scalar($0)) }.filter { !except.contains($0) }
        return String(
            (0..<Int.random(in: count, using: &generator)).map { _ in
                characters.randomElement(using: &generator) ?? "a"
            })
    }
}

@Suite("Proof faults")
struct ProofFaultTests {
    @Test("the kind of denial follows from the fault")
    func kinds() {
        #expect(ProofFault.missing(.signature).kind == .required)
        #expect(ProofFault.malformed(.signatureInput, .notCanonical).kind == .malformed)
        #expect(ProofFault.incomplete(.query).kind == .incomplete)
        #expect(ProofFault.fieldAbsent(place: 0).kind == .incomplete)
    }

    @Test("descriptions name the field, the component and the parameter")
    func descriptions() {
        #expect("\(ProofFault.missing(.signature))" == "Signature has no member attest")
        #expect("\(ProofFault.incomplete(.query))" == "the proof does not cover @query")
        #expect("\(ProofFault.fieldAbsent(place: 0))" == "the request lacks the field of covered component 1")
        #expect(
            "\(ProofFault.malformed(.signatureInput, .parameter(.keyid, .repeated)))"
                == "Signature-Input: the parameter keyid occurs more than once")
    }

    @Test("a fault contains nothing of the proof")
    func secrecy() {
        let text = Sample.input(#""@method" "x-patient-4711""#, Sample.parameters + ";x=4711")
        do throws(ProofFault) {
            _ = try Parsing.input(text)
            Issue.record("accepted")
        } catch {
            #expect(!"\(error)".contains("4711") && !String(reflecting: error).contains("4711"))
        }
    }
}
