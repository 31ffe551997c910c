import RequestProof
import Testing

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

    /// A field with so many zero bytes.
    private func encoded(_ count: Int) throws -> [UInt8] {
        let groups = String(repeating: "AAAA", count: count / 3)
        let end = ["", "AA==", "AAA="][count % 3]
        return Array("attest=:\(groups)\(end):".utf8)
    }
}
