import Registry
import Testing

@testable import Enrolment

@Suite("Decisions for the log")
struct EnrolmentDecisionTests {
    /// What was told, for a value that is copied.
    private final class Told {
        var lines: [String] = []
    }

    private static let subject = EnrolmentSubject(device: "0123456789abcdef", app: "TEAM123456.com.example.app")

    @Test("a decision is one line: what, whom, why")
    func lines() {
        let told = Told()
        var audit = EnrolmentAudit { told.lines.append($0.description) }
        audit.decided(.keyBinding, Self.subject, .granted("rotation", serial: "01AB"), now: 1)
        audit.decided(.keyBinding, EnrolmentSubject(), .refused(.tokenSignature), now: 1)
        #expect(
            told.lines == [
                "key-binding decision=granted what=rotation serial=01AB device=0123456789abcdef "
                    + "app=TEAM123456.com.example.app",
                "key-binding decision=refused error=invalid_request: the JWT's signature is not one of cnf.jwk",
            ])
    }

    @Test("a flood of refusals writes twenty lines a second, and says how many it left out")
    func flood() {
        let told = Told()
        var audit = EnrolmentAudit { told.lines.append($0.description) }
        for _ in 0..<1_000 { audit.decided(.initialization, EnrolmentSubject(), .refused(.nonceRefused), now: 7) }
        #expect(told.lines.count == 20)
        audit.decided(.initialization, EnrolmentSubject(), .refused(.nonceRefused), now: 8)
        #expect(told.lines.count == 21)
        #expect(told.lines[20].contains("untold=980"))
    }

    @Test("who is let in is always told")
    func granted() {
        let told = Told()
        var audit = EnrolmentAudit { told.lines.append($0.description) }
        for _ in 0..<100 { audit.decided(.keyBinding, Self.subject, .granted("first", serial: "1"), now: 7) }
        #expect(told.lines.count == 100)
    }

    @Test("every refusal of the registry has its row of the table")
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
