import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Enrolment: key binding")
struct KeyBindingTests {
    private let scratch: Scratch
    private let store: RegistryStore

    init() throws {
        scratch = try Scratch()
        store = try RegistryStore(path: scratch.file(), creating: true)
        try store.initializeAll(2)
    }

    private func bind(
        _ device: Int, key: Int, nonce: Int, counter: UInt32, mode: CounterMode = .strict,
        admission: AdmissionGrant = .open,
        overlap: Int64 = 100, at time: Int64 = 1_100
    ) throws -> KeyBindingVerdict {
        let request = store.keyBinding(
            device, key: key, nonce: nonce, counter: counter, mode: mode, admission: admission, overlap: overlap)
        return try store.bindKey(request, at: time)
    }

    private func value(_ counter: UInt32, of device: Int, key: Int) -> CounterOutcome {
        let entry = store.entry(device, counter)
        return store.commit([
            CounterEntry(
                device: entry.device, binding: Fixture.bindingKey(key), counter: counter, epoch: entry.epoch,
                shown: [], mode: .strict)
        ])[0]
    }

    @Test("the first binding activates the device and uses nonce and counter")
    func first() throws {
        let verdict = try bind(1, key: 1, nonce: 1, counter: 3)
        #expect(verdict.kind == .first)
        let details = try #require(verdict.details)
        #expect(details.device.state == .active)
        #expect(details.device.highestCounter == 3)
        #expect(details.bindings.map(\.key) == [Fixture.bindingKey(1)])
        #expect(try store.pendingDevices(after: nil, limit: 9).map(\.identity) == [Fixture.identity(2)])
        #expect(value(3, of: 1, key: 1) == .replayed)
        #expect(value(4, of: 1, key: 1) == .committed)
        #expect(try bind(2, key: 2, nonce: 1, counter: 1).refusal == .nonceUsed)
        #expect(try bind(1, key: 3, nonce: 2, counter: 4).refusal == .counterReplayed)
        #expect(try bind(1, key: 3, nonce: 2, counter: 2).refusal == .counterLate)
        #expect(try bind(1, key: 3, nonce: 2, counter: 2, mode: window(8)).kind == .rotation)
    }

    @Test("a rotation keeps the old key valid until its overlap ends")
    func rotation() throws {
        #expect(try bind(1, key: 1, nonce: 1, counter: 1).kind == .first)
        let details = try #require(try bind(1, key: 5, nonce: 2, counter: 2, overlap: 60, at: 1_200).details)
        #expect(details.bindings.map(\.endsAt) == [1_260, nil])
        #expect(details.bindings.map(\.isActive) == [true, true])
        #expect(try store.endDueBindings(at: 1_259, limit: 10).isEmpty)
        #expect(value(3, of: 1, key: 1) == .committed)
        #expect(try store.endDueBindings(at: 1_260, limit: 10) == [Fixture.bindingKey(1)])
        #expect(try store.endDueBindings(at: 1_260, limit: 10).isEmpty)
        #expect(value(4, of: 1, key: 1) == .bindingEnded)
        #expect(value(4, of: 1, key: 5) == .committed)
        #expect(try store.show(.hardwareKey(Fixture.hardwareKey(1))).bindings.map(\.endedAt) == [1_260, nil])
    }

    @Test("an overlap is at least zero and at most a year")
    func overlapBounds() throws {
        _ = try bind(1, key: 1, nonce: 1, counter: 1)
        let second = try bind(1, key: 5, nonce: 2, counter: 2, overlap: .max, at: 1_200)
        #expect(second.details?.bindings.map(\.endsAt) == [31_623_600, nil])
        let third = try bind(1, key: 6, nonce: 3, counter: 3, overlap: -5, at: 1_300)
        #expect(third.details?.bindings.map(\.endsAt) == [1_300, 1_300, nil])
    }

    @Test("a device at its limit of keys can only renew certificates of the newest key")
    func keyLimit() throws {
        for number in 1...BindingRequest.keyLimit {
            let verdict = try bind(1, key: 1_000 + number, nonce: number, counter: UInt32(number))
            #expect(verdict.kind == (number == 1 ? .first : .rotation))
        }
        let counter = UInt32(BindingRequest.keyLimit + 1)
        #expect(try bind(1, key: 1, nonce: 5_000, counter: counter).refusal == .tooManyKeys)
        // Nothing is spent by that.
        #expect(try bind(1, key: 1_000 + BindingRequest.keyLimit, nonce: 5_000, counter: counter).kind == .renewal)
        #expect(try bind(2, key: 1, nonce: 5_001, counter: 1).kind == .first, "others are none the worse for it")
    }

    @Test("a second rotation ends the newer key and extends no older one")
    func secondRotation() throws {
        _ = try bind(1, key: 1, nonce: 1, counter: 1)
        _ = try bind(1, key: 5, nonce: 2, counter: 2, overlap: 60, at: 1_200)
        let third = try #require(try bind(1, key: 6, nonce: 3, counter: 3, overlap: 60, at: 1_210).details)
        #expect(third.bindings.map(\.endsAt) == [1_260, 1_270, nil])
        let fourth = try #require(try bind(1, key: 7, nonce: 4, counter: 4, overlap: 0, at: 1_220).details)
        #expect(fourth.bindings.map(\.endsAt) == [1_220, 1_220, 1_220, nil])
        #expect(try store.endDueBindings(at: 1_220, limit: 2).count == 2)
        #expect(try store.endDueBindings(at: 1_220, limit: 2).count == 1)
    }

    @Test("binding the newest key again changes nothing and renews its certificate")
    func renewal() throws {
        let details = try #require(try bind(1, key: 1, nonce: 1, counter: 1).details)
        let renewed = try bind(1, key: 1, nonce: 2, counter: 2)
        #expect(renewed.kind == .renewal)
        #expect(renewed.details?.bindings == details.bindings)
        // Nonce and counter are spent like any.
        #expect(try bind(1, key: 1, nonce: 2, counter: 3).refusal == .nonceUsed)
        #expect(try bind(1, key: 1, nonce: 3, counter: 2).refusal == .counterReplayed)
    }

    @Test("an mTLS key is bound to one device ever, and not again once it is to end")
    func keyOnce() throws {
        _ = try bind(1, key: 1, nonce: 1, counter: 1)
        #expect(try bind(2, key: 1, nonce: 2, counter: 1).refusal == .keyBound)
        _ = try bind(1, key: 5, nonce: 3, counter: 2, at: 1_200)
        #expect(try bind(1, key: 1, nonce: 4, counter: 3).refusal == .keyBound)
        _ = try store.endDueBindings(at: 1_300, limit: 9)
        #expect(try bind(1, key: 1, nonce: 4, counter: 3).refusal == .keyBound)
        #expect(try bind(2, key: 1, nonce: 2, counter: 1).refusal == .keyBound)
        // Refusals have spent neither nonce nor counter.
        #expect(try bind(2, key: 2, nonce: 2, counter: 1).kind == .first)
        #expect(try bind(1, key: 6, nonce: 4, counter: 3).kind == .rotation)
    }

    @Test("unknown and revoked devices, expired nonces and other epochs are refused")
    func refusals() throws {
        #expect(try bind(9, key: 1, nonce: 1, counter: 1).refusal == .deviceUnknown)
        #expect(try bind(1, key: 1, nonce: 1, counter: 1, at: 2_000).refusal == .nonceExpired)
        let id = try store.show(.hardwareKey(Fixture.hardwareKey(1))).device.id
        _ = try store.revoke(id)
        #expect(try bind(1, key: 1, nonce: 1, counter: 1).refusal == .deviceRevoked)
        let request = store.keyBinding(2, key: 1, nonce: 1, counter: 1)
        _ = try store.renewEpoch()
        #expect(try store.bindKey(request, at: 1_100).refusal == .epochChanged)
        #expect(throws: StoreError.devicePending) {
            try store.bind(Fixture.bindingKey(1), to: try store.show(.hardwareKey(Fixture.hardwareKey(2))).device.id)
        }
    }

    @Test("the first key must be the attested one, and later keys are free")
    func attestedKey() throws {
        let attestation = Fixture.attestation(3, certificateKey: Fixture.bindingKey(30))
        _ = try store.initialize(store.initialization(3, attestation: attestation), at: 1_000)
        #expect(try bind(3, key: 31, nonce: 1, counter: 1).refusal == .keyMismatch)
        #expect(try bind(3, key: 30, nonce: 1, counter: 1).kind == .first)
        #expect(try bind(3, key: 31, nonce: 2, counter: 2).kind == .rotation)
    }

    @Test("a device registered without a key gets its first by assertion and stays active")
    func operatorsDevice() throws {
        _ = try store.register(Fixture.identity(4), binding: nil)
        #expect(try bind(4, key: 4, nonce: 1, counter: 1, admission: .approval).kind == .first)
    }

    @Test("bindings, pending ends and used counters survive a crash")
    func crash() throws {
        _ = try bind(1, key: 1, nonce: 1, counter: 1)
        let details = try #require(try bind(1, key: 5, nonce: 2, counter: 2, overlap: 60, at: 1_200).details)
        let other = try RegistryStore(path: try scratch.copy(to: "crashed.db"), creating: false)
        #expect(try other.show(.hardwareKey(Fixture.hardwareKey(1))) == details)
        let replay = other.keyBinding(1, key: 6, nonce: 3, counter: 2)
        #expect(try other.bindKey(replay, at: 1_200).refusal == .counterReplayed)
        let used = other.keyBinding(1, key: 6, nonce: 2, counter: 3)
        #expect(try other.bindKey(used, at: 1_200).refusal == .nonceUsed)
        #expect(try other.endDueBindings(at: 1_260, limit: 9) == [Fixture.bindingKey(1)])
    }
}
