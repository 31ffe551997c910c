import Foundation
import GRDB
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

/// Every write of an enrolment is made to fail in turn, by a trigger in the file.
@Suite("Enrolment with a failing store")
struct EnrolmentFailureTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// A store with device 1 bound to key 1 by counter 1, and device 2 pending, in which the next write of this kind fails.
    private func store(failing write: String) throws -> RegistryStore {
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true)
        try store?.initializeAll(2)
        _ = try store.map { try $0.bindKey($0.keyBinding(1, key: 1, nonce: 1, counter: 1), at: 1_000) }
        store = nil
        try edit("CREATE TRIGGER failure BEFORE \(write) BEGIN SELECT RAISE(ABORT, 'made to fail'); END")
        return try RegistryStore(path: scratch.file(), creating: false)
    }

    private func edit(_ sql: String) throws {
        let queue = try DatabaseQueue(path: scratch.file())
        try queue.inDatabase { try $0.execute(sql: sql) }
        try queue.close()
    }

    @Test(
        "an initialization that fails at any write changes nothing and later succeeds with its nonce",
        arguments: ["INSERT ON used_nonce", "INSERT ON device", "INSERT ON counter", "INSERT ON attestation"])
    func initialization(_ write: String) throws {
        var store: RegistryStore? = try store(failing: write)
        #expect(throws: StoreError.unavailable) { try store.map { try $0.initialize($0.initialization(3), at: 1_000) } }
        #expect(store?.isAvailable == false)
        store = nil
        try edit("DROP TRIGGER failure")
        let next = try RegistryStore(path: scratch.file(), creating: false)
        #expect(throws: StoreError.deviceUnknown) { try next.show(.hardwareKey(Fixture.hardwareKey(3))) }
        guard case .registered = try next.initialize(next.initialization(3), at: 1_000) else {
            Issue.record("half done")
            return
        }
    }

    @Test(
        "a rotation that fails at any write uses only the counter",
        arguments: [
            "INSERT ON journal", "INSERT ON used_nonce", "INSERT ON used_token", "UPDATE OF subject ON device",
            "UPDATE OF ends_at ON binding", "INSERT ON binding",
        ])
    func rotation(_ write: String) throws {
        let store = try store(failing: write)
        let before = try store.show(.hardwareKey(Fixture.hardwareKey(1)))
        func request(counter: UInt32) -> BindingRequest {
            store.keyBinding(
                1, key: 5, nonce: 2, counter: counter,
                admission: .token(Fixture.token(1), subject: Fixture.subject(1)))
        }
        #expect(throws: StoreError.unavailable) { try store.bindKey(request(counter: 2), at: 1_000) }
        #expect(!store.isAvailable)
        // What is owed goes to the journal too.
        if write.hasSuffix("journal") {
            #expect(throws: StoreOpenError.self) { try store.reopen() }
            #expect(!store.isAvailable)
            return
        }
        try store.reopen()
        let after = try store.show(.hardwareKey(Fixture.hardwareKey(1)))
        #expect(after.bindings == before.bindings)
        #expect(after.device.subject == nil)
        #expect(throws: StoreError.bindingUnknown) { try store.show(.binding(Fixture.bindingKey(5))) }
        #expect(try store.bindKey(request(counter: 2), at: 1_000).refusal == .counterReplayed)
        #expect(store.commit(1, 2) == .replayed)
        #expect(store.commit(1, 3) == .committed)
    }

    @Test("a first binding that cannot activate its device binds nothing")
    func activation() throws {
        let store = try store(failing: "UPDATE OF activated_at ON device")
        #expect(throws: StoreError.unavailable) {
            try store.bindKey(store.keyBinding(2, key: 2, nonce: 2, counter: 1), at: 1_000)
        }
        try store.reopen()
        let details = try store.show(.hardwareKey(Fixture.hardwareKey(2)))
        #expect(details.device.state == .pending)
        #expect(details.bindings.isEmpty)
    }

    @Test("a binding end that cannot be written closes the store")
    func end() throws {
        let store = try store(failing: "UPDATE OF ended_at ON binding")
        _ = try store.bindKey(store.keyBinding(1, key: 5, nonce: 2, counter: 2, overlap: 10), at: 1_000)
        #expect(throws: StoreError.unavailable) { try store.endDueBindings(at: 1_010, limit: 9) }
        #expect(store.commit(1, 3) == .storeUnavailable)
    }

    @Test("a subject whose devices cannot all be revoked is not barred")
    func subject() throws {
        let store = try store(failing: "UPDATE OF revoked_at ON device WHEN NEW.id = 2")
        for number in 1...2 {
            let token = AdmissionGrant.token(Fixture.token(number), subject: Fixture.subject(1))
            let request = store.keyBinding(
                number, key: 10 + number, nonce: 10 + number, counter: 2, admission: token)
            #expect(try store.bindKey(request, at: 1_000).refusal == nil)
        }
        #expect(throws: StoreError.unavailable) { try store.revokeSubject(Fixture.subject(1)) }
        try store.reopen()
        #expect(try store.devices(after: nil, limit: 9).map(\.state) == [.active, .active])
        let token = AdmissionGrant.token(Fixture.token(9), subject: Fixture.subject(1))
        let request = store.keyBinding(1, key: 20, nonce: 20, counter: 9, admission: token)
        #expect(try store.bindKey(request, at: 1_000).kind == .rotation)
    }
}
