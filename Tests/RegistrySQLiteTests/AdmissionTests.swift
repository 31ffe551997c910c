import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Enrolment: admission")
struct AdmissionTests {
    private let scratch: Scratch
    private let store: RegistryStore
    private let ids: [DeviceID]

    init() throws {
        scratch = try Scratch()
        store = try RegistryStore(path: scratch.file(), creating: true)
        ids = try store.initializeAll(4)
    }

    private func bind(
        _ device: Int, key: Int, counter: UInt32, _ admission: AdmissionGrant, at time: Int64 = 1_100
    ) throws -> KeyBindingVerdict {
        try store.bindKey(
            store.keyBinding(device, key: key, nonce: key, counter: counter, admission: admission), at: time)
    }

    @Test("with admission by approval a device waits, and its nonce and counter stay unused")
    func approval() throws {
        #expect(try bind(1, key: 1, counter: 1, .approval).refusal == .awaitingApproval)
        let approved = try store.approve(ids[0], at: 1_050)
        #expect(approved.device.state == .pending)
        #expect(approved.device.approvedAt == 1_050)
        #expect(try store.approve(ids[0], at: 1_060) == approved)
        #expect(try bind(1, key: 1, counter: 1, .approval).kind == .first)
        #expect(try bind(1, key: 2, counter: 2, .approval).kind == .rotation)
        // An active one needs none.
        _ = try bind(2, key: 3, counter: 1, .open)
        #expect(try store.approve(ids[1]).device.approvedAt == nil)
        _ = try store.revoke(ids[2])
        #expect(throws: StoreError.deviceRevoked) { try store.approve(ids[2]) }
        #expect(throws: StoreError.deviceUnknown) { try store.approve(try #require(DeviceID(99))) }
    }

    @Test("without a token only previously admitted devices are admitted")
    func earlier() throws {
        #expect(try bind(1, key: 1, counter: 1, .earlier).refusal == .admissionRequired)
        _ = try bind(1, key: 1, counter: 1, .open)
        #expect(try bind(1, key: 2, counter: 2, .earlier).kind == .rotation)
    }

    @Test("a token admits one device once, and the device keeps its subject")
    func token() throws {
        let admission = AdmissionGrant.token(Fixture.token(1), subject: Fixture.subject(1))
        #expect(try bind(1, key: 1, counter: 1, admission, at: 1_999).details?.device.subject == Fixture.subject(1))
        #expect(try bind(2, key: 2, counter: 1, admission).refusal == .tokenUsed)
        let expired = SingleUse(id: Fixture.fingerprint(2, kind: 4), expiresAt: 1_100)
        #expect(try bind(2, key: 2, counter: 1, .token(expired, subject: Fixture.subject(1))).refusal == .tokenExpired)
        // Refused, so not used: the token of a binding that fails is good for the next.
        let second = AdmissionGrant.token(Fixture.token(2), subject: Fixture.subject(1))
        #expect(try bind(2, key: 1, counter: 1, second, at: 1_100).refusal == .nonceUsed)
        #expect(try bind(2, key: 2, counter: 0, second).refusal == .counterReplayed)
        #expect(try bind(2, key: 2, counter: 1, second).kind == .first)
        let other = AdmissionGrant.token(Fixture.token(3), subject: Fixture.subject(2))
        #expect(try bind(2, key: 3, counter: 2, other).refusal == .subjectMismatch)
        _ = try store.removeExpired(at: 3_000)
        #expect(try bind(3, key: 4, counter: 1, admission, at: 1_500).refusal == .nonceExpired)
    }

    @Test("a removed token is refused after the clock went back")
    func removedToken() throws {
        let admission = AdmissionGrant.token(Fixture.token(1), subject: Fixture.subject(1))
        #expect(try bind(1, key: 1, counter: 1, admission).kind == .first)
        _ = try store.removeExpired(at: 2_000)
        let request = BindingRequest(
            hardwareKey: Fixture.hardwareKey(2), key: Fixture.bindingKey(2),
            nonce: SingleUse(id: Fixture.fingerprint(1, kind: 9), expiresAt: 9_000), epoch: store.identity.epoch,
            counter: 1, shown: [], mode: .strict, admission: admission, overlap: 0, serial: Fixture.serial(2),
            notAfter: 9_000)
        #expect(try store.bindKey(request, at: 1_500).refusal == .tokenExpired)
    }

    @Test("revoking a subject revokes its devices and bars new ones; others are unaffected")
    func subject() throws {
        func admission(_ token: Int, _ subject: Int) -> AdmissionGrant {
            .token(Fixture.token(token), subject: Fixture.subject(subject))
        }
        for (device, subject) in [(1, 1), (2, 1), (3, 2)] {
            #expect(try bind(device, key: device, counter: 1, admission(device, subject)).kind == .first)
        }
        let revoked = try store.revokeSubject(Fixture.subject(1), at: 1_500)
        #expect(revoked.map(\.device.id) == [ids[0], ids[1]])
        #expect(revoked.allSatisfy { $0.device.state == .revoked && $0.device.revokedAt == 1_500 })
        #expect(try store.revokeSubject(Fixture.subject(1)).isEmpty)
        #expect(store.commit(1, 2) == .deviceRevoked)
        #expect(store.commit(3, 2) == .committed)
        #expect(try bind(4, key: 4, counter: 1, admission(4, 1)).refusal == .subjectRevoked)
        #expect(try bind(4, key: 4, counter: 1, admission(4, 2)).kind == .first)
        // Somebody never seen can be barred as well.
        #expect(try store.revokeSubject(Fixture.subject(7)).isEmpty)
        #expect(try bind(3, key: 7, counter: 3, admission(7, 7)).refusal == .subjectRevoked)
    }
}
