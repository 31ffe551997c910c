import Registry
import Testing

@testable import Enrolment

@Suite("The decision log")
struct EnrolmentDecisionTests {
    /// The lines of the audit, for a value that is copied.
    private final class RecordedLines {
        var lines: [String] = []
    }

    private static let subject = EnrolmentSubject(device: "0123456789abcdef", app: "TEAM123456.com.example.app")

    @Test("a decision is one line with action, subject and reason")
    func lines() {
        let recorded = RecordedLines()
        var audit = EnrolmentAudit { recorded.lines.append($0.description) }
        audit.decided(.keyBinding, Self.subject, .granted("rotation", serial: "01AB"), now: 1)
        audit.decided(.keyBinding, EnrolmentSubject(), .refused(.tokenSignature), now: 1)
        #expect(
            recorded.lines == [
                "key-binding decision=granted what=rotation serial=01AB device=0123456789abcdef "
                    + "app=TEAM123456.com.example.app",
                "key-binding decision=refused error=invalid_request: the JWT's signature does not verify with cnf.jwk",
            ])
    }

    @Test("refusals write at most twenty lines a second, and the omitted ones are counted")
    func flood() {
        let recorded = RecordedLines()
        var audit = EnrolmentAudit { recorded.lines.append($0.description) }
        for _ in 0..<1_000 { audit.decided(.initialization, EnrolmentSubject(), .refused(.nonceRefused), now: 7) }
        #expect(recorded.lines.count == 20)
        audit.decided(.initialization, EnrolmentSubject(), .refused(.nonceRefused), now: 8)
        #expect(recorded.lines.count == 21)
        #expect(recorded.lines[20].contains("omitted=980"))
    }

    @Test("every admission is logged")
    func granted() {
        let recorded = RecordedLines()
        var audit = EnrolmentAudit { recorded.lines.append($0.description) }
        for _ in 0..<100 { audit.decided(.keyBinding, Self.subject, .granted("first", serial: "1"), now: 7) }
        #expect(recorded.lines.count == 100)
    }

    @Test("every refusal by the registry has its error code")
    func rows() {
        for refusal in InitializationRefusal.allCases { #expect(EnrolmentFault(refusal).error == .invalidRequest) }
        for refusal in KeyBindingRefusal.allCases {
            let expected: EnrolmentError =
                switch refusal {
                case .deviceUnknown: .notFound
                case .admissionRequired: .badRequest
                case .extensionWithheld: .integrityCheck
                case .serialUsed: .server
                default: .invalidRequest
                }
            #expect(EnrolmentFault(refusal).error == expected)
        }
        #expect(EnrolmentFault(StoreError.deviceUnknown).error == .notFound)
        #expect(EnrolmentFault(StoreError.unavailable).error == .temporarilyUnavailable)
    }
}
