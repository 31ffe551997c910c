import Attestation
import Cryptography
import Foundation
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
        let audit = EnrolmentAudit { recorded.lines.append($0.description) }
        audit.decided("key-binding", Self.subject, .granted("rotation", serial: "01AB"), now: 1)
        audit.decided("key-binding", EnrolmentSubject(), .refused(.tokenSignature), now: 1)
        #expect(
            recorded.lines == [
                "key-binding decision=granted what=rotation serial=01AB device=0123456789abcdef "
                    + "app=TEAM123456.com.example.app",
                "key-binding decision=refused error=invalid_request: the JWT's signature does not verify with cnf.jwk",
            ])
    }

    @Test("programs read the same facts as members")
    func members() {
        let granted = EnrolmentDecision(
            event: "key-binding", device: "0123456789abcdef", app: "TEAM123456.com.example.app", target: nil,
            outcome: .granted("rotation", serial: "01AB"), omitted: 3)
        #expect(
            granted.members == [
                "event": "enrolment", "endpoint": "key-binding", "decision": "granted", "what": "rotation",
                "serial": "01AB", "device": "0123456789abcdef", "app": "TEAM123456.com.example.app", "omitted": "3",
            ])
        let refused = EnrolmentDecision(
            event: "instance-initialization", device: nil, app: nil, target: nil,
            outcome: .refused(.attestation(.rpIDMismatch)),
            omitted: 0)
        #expect(refused.members["decision"] == "refused")
        #expect(refused.members["step"] != nil && refused.members["reason"]?.isEmpty == false)
        let receipt = EnrolmentNotice(.info, "refreshed", device: "ab", app: "a", risk: 3, because: "for \"x\"")
        #expect(receipt.description == "outcome=refreshed device=ab app=a risk=3: for \"x\"")
        #expect(
            receipt.members == [
                "event": "receipts", "outcome": "refreshed", "device": "ab", "app": "a", "risk": "3",
                "reason": "for \"x\"",
            ])
    }

    @Test("refusals write at most twenty lines a second, and the omitted ones are counted")
    func flood() {
        let recorded = RecordedLines()
        let audit = EnrolmentAudit { recorded.lines.append($0.description) }
        for _ in 0..<1_000 {
            audit.decided("instance-initialization", EnrolmentSubject(), .refused(.nonceRefused), now: 7)
        }
        #expect(recorded.lines.count == 20)
        audit.decided("instance-initialization", EnrolmentSubject(), .refused(.nonceRefused), now: 8)
        #expect(recorded.lines.count == 21)
        #expect(recorded.lines[20].contains("omitted=980"))
    }

    @Test("every admission is logged")
    func granted() {
        let recorded = RecordedLines()
        let audit = EnrolmentAudit { recorded.lines.append($0.description) }
        for _ in 0..<100 { audit.decided("key-binding", Self.subject, .granted("first", serial: "1"), now: 7) }
        #expect(recorded.lines.count == 100)
    }

    @Test("every refusal by the registry has its error code")
    func rows() {
        for refusal in InitializationRefusal.allCases {
            #expect(EnrolmentFault(refusal).error == (refusal == .serialUsed ? .server : .invalidRequest))
        }
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

@Suite("The enrolment error table")
struct EnrolmentErrorTests {
    private static let failed = CryptographyError(doing: "be tested")

    @Test("the table has exactly these statuses and codes")
    func rows() {
        let rows = EnrolmentError.own.map { "\($0.row.status) \($0.row.code)" }
        #expect(
            rows == [
                "400 bad_request", "403 invalid_request", "403 integrity_check_error", "403 os_outdated",
                "404 not_found", "422 validation_error", "500 server_error", "503 temporarily_unavailable",
            ])
    }

    @Test("each fault maps to its error")
    func faults() {
        let expected: [(EnrolmentFault, EnrolmentError)] = [
            (.contentMalformed(.malformed), .badRequest), (.memberMissing(.type), .badRequest),
            (.memberUnknown, .badRequest), (.tokenMalformed, .badRequest), (.valueFormat(.nonce), .validation),
            (.tokenMembers, .badRequest), (.tokenAlgorithm, .invalidRequest), (.tokenType, .invalidRequest),
            (.tokenKey, .invalidRequest), (.tokenKeyID, .invalidRequest), (.tokenAudience, .invalidRequest),
            (.tokenIssuer, .invalidRequest), (.tokenIssuedAt, .invalidRequest), (.tokenExpiry, .invalidRequest),
            (.tokenSignature, .invalidRequest), (.admission(.signature), .invalidRequest),
            (.admission(.used), .invalidRequest), (.admission(.checkFailed(Self.failed)), .server),
            (.attestation(.malformed(.truncated)), .validation), (.attestation(.nonceMismatch), .invalidRequest),
            (.attestation(.validationCategory(.notAdmitted)), .integrityCheck),
            (.attestation(.bundleVersion(.absent)), .integrityCheck),
            (.attestation(.systemVersion(.notAdmitted)), .osOutdated),
            (.attestation(.systemVersion(.absent)), .osOutdated),
            (.attestation(.systemVersion(.unreadable)), .osOutdated), (.systemOutdated, .osOutdated),
            (.extensions(.validationCategory(.withheld)), .integrityCheck), (.extensionWithheld, .integrityCheck),
            (.attestation(.checkFailed(.chain, Self.failed)), .server), (.attestation(.rpIDMismatch), .invalidRequest),
            (.assertion(.signatureInvalid), .invalidRequest), (.assertion(.tooLong), .invalidRequest),
            (.assertion(.checkFailed(Self.failed)), .server), (.nonceRefused, .invalidRequest),
            (.instanceKnown, .invalidRequest), (.tagTaken, .invalidRequest), (.instanceUnknown, .notFound),
            (.instanceRevoked, .invalidRequest),
            (.counterSpent, .invalidRequest), (.keyRefused, .invalidRequest),
            (.storeUnavailable, .temporarilyUnavailable), (.checkFailed(Self.failed), .server),
            (.keyAttestation(.certificateUnreadable(1)), .validation), (.keyAttestation(.rootUnknown), .invalidRequest),
            (.keyAttestation(.patchLevelTooOld(.boot)), .osOutdated), (.keyAttestation(.revoked(1)), .integrityCheck),
            (.keyAttestation(.bootloaderUnlocked), .integrityCheck), (.attestationRevoked, .integrityCheck),
            (.keyAttestation(.statusListMissing), .temporarilyUnavailable), (.hardwareSignature, .invalidRequest),
            (.certificateKeyMismatch, .invalidRequest), (.integrity(.device), .integrityCheck),
            (.integrity(.notForKey), .invalidRequest), (.integrity(.signature), .server),
            (.integrity(.malformed), .validation), (.instanceOfAnother, .invalidRequest),
            (.renewalElsewhere, .invalidRequest),
            (.denied(.proofStale, detail: nil, component: nil), .denied(.proofStale)),
        ]
        for (fault, error) in expected {
            #expect(fault.error == error, "\(fault)")
            #expect(!fault.reason.isEmpty && fault.reason.allSatisfy(\.isASCII))
        }
        #expect(Set(expected.map(\.1)) == Set(EnrolmentError.own + [.denied(.proofStale)]))
    }

    @Test("a refusal is JSON of two members, is not cached, and reveals no internal fault")
    func refusals() throws {
        let faults: [EnrolmentFault] = [
            .tokenType, .nonceRefused, .contentMalformed(.duplicateName), .storeUnavailable, .checkFailed(Self.failed),
        ]
        for fault in faults {
            let response = EnrolmentResponse.refusal(fault)
            let members = try JSONDecoder().decode([String: String].self, from: Data(response.content))
            #expect(response.status == fault.error.row.status)
            #expect(members.count == 2 && members["error"] == "\(fault.error.row.code)")
            let description = try #require(members["error_description"])
            #expect(description.contains(fault.reason) == !fault.error.isOurs)
            #expect(!description.contains("be tested"))
            #expect(response.fields.contains { $0.name == "Cache-Control" && $0.value == "no-store" })
            #expect(response.fields.contains { $0.name == "Content-Type" && $0.value == "application/json" })
        }
    }

    @Test("the answers have exactly these bytes")
    func answers() throws {
        let nonce = try #require(IssuedNonce(Array(KeyBindingDraft.nonce.utf8)))
        let issued = EnrolmentResponse.nonce(nonce)
        #expect(issued.status == 200)
        #expect(String(decoding: issued.content, as: UTF8.self) == #"{"nonce":"\#(KeyBindingDraft.nonce)"}"#)
        let done = EnrolmentResponse.initialized
        #expect(done.status == 204 && done.content.isEmpty)
        #expect(done.fields.map(\.name) == ["Cache-Control"])
    }
}
