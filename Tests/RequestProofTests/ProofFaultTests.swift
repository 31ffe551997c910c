import RequestProof
import Testing

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
