import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Enrolment: initialization")
struct InitializationTests {
    private let scratch: Scratch
    private let store: RegistryStore

    init() throws {
        scratch = try Scratch()
        store = try RegistryStore(path: scratch.file(), creating: true)
    }

    @Test("an attestation makes a pending device with its stored data")
    func initialize() throws {
        guard case .registered(let details) = try store.initialize(store.initialization(1), at: 1_000) else {
            Issue.record("refused")
            return
        }
        #expect(details.device.state == .pending)
        #expect(details.device.identity == Fixture.identity(1))
        #expect(details.device.registeredAt == 1_000)
        #expect(details.device.highestCounter == 0)
        #expect(details.bindings.isEmpty)
        #expect(details.attestation == Fixture.attestation(1))
        #expect(try store.show(.id(details.device.id)) == details)
        #expect(try store.pendingDevices(after: nil, limit: 10) == [details.device])
    }

    @Test("a repeated attestation gets the same answer while its nonce is valid, without a write")
    func repeated() throws {
        let id = try store.initializeAll(1)[0]
        let details = try store.show(.id(id))
        try store.checkpoint()
        #expect(try store.initialize(store.initialization(1), at: 1_999) == .repeated(details))
        #expect(store.logPages == 0)
        #expect(try store.initialize(store.initialization(1), at: 2_000).refusal == .nonceExpired)
    }

    @Test("a known hardware key with other data, bound, or registered by an operator, is refused")
    func knownKey() throws {
        try store.initializeAll(1)
        let other = store.initialization(1, nonce: Fixture.nonce(9), attestation: Fixture.attestation(9))
        #expect(try store.initialize(other, at: 1_000).refusal == .keyRegistered)
        let known = Fixture.identity(1)
        let app = DeviceIdentity(
            app: try #require(AppID("ABCDE12345.org.example.other")), platform: known.platform,
            environment: known.environment, hardwareKey: known.hardwareKey, point: known.point)
        let otherApp = InstanceRegistration(
            identity: app, attestation: Fixture.attestation(1), shown: [], nonce: Fixture.nonce(1),
            epoch: store.identity.epoch)
        #expect(try store.initialize(otherApp, at: 1_000).refusal == .keyRegistered)
        #expect(try store.bindKey(store.keyBinding(1, key: 1, nonce: 1, counter: 1), at: 1_000).kind == .first)
        #expect(try store.initialize(store.initialization(1), at: 1_000).refusal == .keyRegistered)
        _ = try store.register(Fixture.identity(2), binding: nil)
        #expect(try store.initialize(store.initialization(2), at: 1_000).refusal == .keyRegistered)
        // None of these has spent its nonce.
        #expect(try store.initialize(store.initialization(3, nonce: Fixture.nonce(9)), at: 1_000).refusal == nil)
    }

    @Test("the attestation of a revoked device is refused, and restoring makes it pending again")
    func revoked() throws {
        let id = try store.initializeAll(1)[0]
        #expect(try store.revoke(id).device.state == .revoked)
        #expect(try store.initialize(store.initialization(1), at: 1_000).refusal == .deviceRevoked)
        #expect(try store.pendingDevices(after: nil, limit: 10).isEmpty)
        #expect(try store.restore(id).device.state == .pending)
        guard case .repeated = try store.initialize(store.initialization(1), at: 1_000) else {
            Issue.record("refused")
            return
        }
    }

    @Test("a nonce is used only by success, once across initializations and key bindings")
    func nonceOnce() throws {
        try store.initializeAll(1)
        #expect(try store.initialize(store.initialization(2, nonce: Fixture.nonce(1)), at: 1_000).refusal == .nonceUsed)
        let binding = BindingRequest(
            hardwareKey: Fixture.hardwareKey(1), key: Fixture.bindingKey(1), nonce: Fixture.nonce(1),
            epoch: store.identity.epoch, counter: 1, shown: [], mode: .strict, admission: .open, overlap: 0,
            serial: Fixture.serial(1), notAfter: 9_000)
        #expect(try store.bindKey(binding, at: 1_000).refusal == .nonceUsed)
        #expect(throws: StoreError.deviceUnknown) { try store.show(.hardwareKey(Fixture.hardwareKey(2))) }
    }

    @Test("a nonce of another epoch is refused")
    func epoch() throws {
        let request = store.initialization(1)
        _ = try store.renewEpoch()
        #expect(try store.initialize(request, at: 1_000).refusal == .epochChanged)
        #expect(try store.initialize(store.initialization(1), at: 1_000).refusal == nil)
    }

    @Test("a flood of refused attempts writes nothing")
    func flood() throws {
        try store.initializeAll(1)
        try store.checkpoint()
        for number in 2...200 {
            _ = try store.initialize(store.initialization(number, nonce: Fixture.nonce(1)), at: 1_000)
            _ = try store.initialize(store.initialization(number), at: 5_000)
            _ = try store.bindKey(store.keyBinding(number, key: 1, nonce: 1, counter: 1), at: 1_000)
            _ = try store.bindKey(store.keyBinding(1, key: 1, nonce: number, counter: 0), at: 1_000)
            _ = try store.bindKey(
                store.keyBinding(1, key: 1, nonce: number, counter: 1, admission: .approval), at: 1_000)
        }
        #expect(store.logPages == 0)
        #expect(store.journalLength == 0)
    }

    @Test("expired nonces are removed in slices and refused after the clock went back")
    func removal() throws {
        try store.initializeAll(25)
        #expect(try store.removeExpired(at: 1_999, limit: 10) == false)
        #expect(
            try store.initialize(store.initialization(30, nonce: Fixture.nonce(5)), at: 1_500).refusal == .nonceUsed)
        #expect(try store.removeExpired(at: 2_000, limit: 10))
        #expect(try store.removeExpired(at: 2_000, limit: 10))
        #expect(try store.removeExpired(at: 2_000, limit: 10) == false)
        try store.checkpoint()
        #expect(try store.removeExpired(at: 2_000, limit: 10) == false)
        #expect(store.logPages == 0, "written although nothing was left")
        for number in 1...25 {
            let again = store.initialization(100 + number, nonce: Fixture.nonce(number))
            #expect(try store.initialize(again, at: 1_500).refusal == .nonceExpired)
        }
        let later = SingleUse(id: Fixture.fingerprint(1, kind: 9), expiresAt: 2_001)
        #expect(try store.initialize(store.initialization(50, nonce: later), at: 1_500).refusal == nil)
    }

    @Test("a receipt above the size limit is refused")
    func receiptLimit() {
        let digest = Fixture.fingerprint(1, kind: 6)
        #expect(AttestationRecord(digest: digest, receipt: [UInt8](repeating: 0, count: 16_384)) != nil)
        #expect(AttestationRecord(digest: digest, receipt: [UInt8](repeating: 0, count: 16_385)) == nil)
    }

    @Test("a fingerprint has exactly 32 bytes")
    func fingerprint() {
        let bytes = (0..<32).map { UInt8($0 * 7) }
        #expect(Fingerprint(bytes)?.bytes == bytes)
        #expect(Fingerprint(Array(bytes.dropLast())) == nil)
    }
}
