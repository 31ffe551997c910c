import Testing
import Vocabulary

@testable import TLS

@Suite("Client certificate admission")
struct ClientAdmissionTests {
    private let now: Int64 = 1_000

    @Test("a client certificate that is expired or not yet valid is refused")
    func validity() {
        let admission = ClientAdmission()
        #expect(admission.objection(to: identity(from: 1_000, to: 1_001), at: now) == nil)
        #expect(admission.objection(to: identity(from: 0, to: 1_000), at: now)?.kind == .outsideValidity)
        #expect(admission.objection(to: identity(from: 1_001, to: 2_000), at: now)?.kind == .outsideValidity)
    }

    @Test("a barred key is refused with the reason, and others are admitted")
    func barred() {
        let revoked = key(1)
        let ended = key(2)
        let admission = ClientAdmission().asking { key in
            key == revoked ? .deviceRevoked : key == ended ? .bindingEnded : nil
        }
        #expect(admission.objection(to: identity(revoked), at: now)?.kind == .deviceRevoked)
        #expect(admission.objection(to: identity(ended), at: now)?.kind == .bindingEnded)
        #expect(admission.objection(to: identity(key(3)), at: now) == nil)
        // A key on another curve cannot be bound to a device.
        #expect(admission.objection(to: identity(nil), at: now) == nil)
    }

    @Test("each handshake checks again")
    func askedAnew() {
        let counter = Counter()
        let admission = ClientAdmission().asking { _ in
            counter.count += 1
            return counter.count == 2 ? .deviceRevoked : nil
        }
        let client = identity(key(1))
        #expect(admission.objection(to: client, at: now) == nil)
        #expect(admission.objection(to: client, at: now)?.kind == .deviceRevoked)
        #expect(admission.objection(to: client, at: now) == nil)
    }

    @Test("a self-signed client's key is checked as well, after the listener's pins")
    func everyKind() {
        let admission = ClientAdmission(selfSigned: true, pins: [key(1)]).asking { _ in .deviceRevoked }
        #expect(admission.objection(to: identity(key(1), kind: .selfSigned), at: now)?.kind == .deviceRevoked)
        #expect(admission.objection(to: identity(key(2), kind: .selfSigned), at: now)?.kind == .notPinned)
    }

    /// A counter for closures of one thread.
    private final class Counter: @unchecked Sendable {
        var count = 0
    }

    private func key(_ number: UInt8) -> KeyID {
        let bytes = [UInt8](repeating: number, count: 32)
        guard let key = KeyID(digest: bytes.span) else { preconditionFailure("32 bytes are a key id") }
        return key
    }

    private func identity(
        _ key: KeyID? = nil, kind: ClientIdentity.Kind = .issued, from notBefore: Int64 = 0, to notAfter: Int64 = 2_000
    ) -> ClientIdentity {
        ClientIdentity(kind: kind, keyID: key, thumbprint: [], notBefore: notBefore, notAfter: notAfter, chain: [])
    }
}
