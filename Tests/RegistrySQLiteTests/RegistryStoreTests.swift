import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("The store: devices and bindings")
struct RegistryStoreTests {
    private let scratch: Scratch
    private let store: RegistryStore

    init() throws {
        scratch = try Scratch()
        store = try RegistryStore(path: scratch.file(), creating: true)
    }

    @Test("a device is registered as given, active, at counter 0")
    func register() throws {
        let details = try store.register(Fixture.identity(1), binding: Fixture.bindingKey(1), at: 77)
        #expect(details.device.identity == Fixture.identity(1))
        #expect(details.device.state == .active)
        #expect(details.device.registeredAt == 77)
        #expect(details.device.revokedAt == nil)
        #expect(details.device.highestCounter == 0)
        let binding = Binding(
            key: Fixture.bindingKey(1), device: details.device.id, createdAt: 77, endedAt: nil, endsAt: nil)
        #expect(details.bindings == [binding])
        #expect(try store.show(.id(details.device.id)) == details)
        #expect(try store.show(.hardwareKey(Fixture.hardwareKey(1))) == details)
        #expect(try store.show(.binding(Fixture.bindingKey(1))) == details)
    }

    @Test("a hardware key is registered once, revoked or not")
    func hardwareKeyOnce() throws {
        let id = try store.register(Fixture.identity(1), binding: nil).device.id
        #expect(throws: StoreError.keyRegistered) { try store.register(Fixture.identity(1), binding: nil) }
        _ = try store.revoke(id)
        #expect(throws: StoreError.keyRegistered) {
            try store.register(Fixture.identity(1), binding: Fixture.bindingKey(9))
        }
        // Refused as a whole: the key was not bound.
        #expect(throws: StoreError.bindingUnknown) { try store.show(.binding(Fixture.bindingKey(9))) }
        #expect(store.isAvailable)
    }

    @Test("several devices are registered up to the first refusal, which changes nothing")
    func registerSeveral() throws {
        try store.populate(1)
        func several(_ numbers: [(identity: Int, binding: Int?)]) throws -> (registered: Int, refusal: StoreError?) {
            try store.register(
                numbers.map { (Fixture.identity($0.identity), $0.binding.map(Fixture.bindingKey)) }, at: 5)
        }
        #expect(try several([(2, 2), (3, nil), (1, 9), (4, 4)]) == (2, .keyRegistered))
        #expect(try several([(4, 4), (5, 1), (6, 6)]) == (1, .keyBound))
        #expect(try several([]) == (0, nil))
        #expect(try several([(5, 9)]) == (1, nil))
        let devices = try store.devices(after: nil, limit: 10)
        #expect(devices.map(\.identity) == (1...5).map(Fixture.identity))
        #expect(devices.map(\.registeredAt) == [1_000, 5, 5, 5, 5])
        #expect(try store.show(.binding(Fixture.bindingKey(9))).device.identity == Fixture.identity(5))
        #expect(store.commit(4, 1) == .committed)
    }

    @Test("an mTLS key is bound only once, even after its binding has ended")
    func bindingOnce() throws {
        let ids = try store.populate(2)
        let key = Fixture.bindingKey(1)
        #expect(throws: StoreError.keyBound) { try store.bind(key, to: ids[1]) }
        #expect(throws: StoreError.keyBound) { try store.bind(key, to: ids[0]) }
        _ = try store.endBinding(key)
        #expect(throws: StoreError.keyBound) { try store.bind(key, to: ids[0]) }
        #expect(throws: StoreError.keyBound) { try store.register(Fixture.identity(3), binding: key) }
        #expect(throws: StoreError.deviceUnknown) { try store.show(.hardwareKey(Fixture.hardwareKey(3))) }
    }

    @Test("an ended binding stays ended, with the time of its first end")
    func endBinding() throws {
        try store.populate(1)
        #expect(try store.endBinding(Fixture.bindingKey(1), at: 500).bindings[0].endedAt == 500)
        #expect(try store.endBinding(Fixture.bindingKey(1), at: 600).bindings[0].endedAt == 500)
        #expect(throws: StoreError.bindingUnknown) { try store.endBinding(Fixture.bindingKey(2)) }
    }

    @Test("a device may have several bindings, but no new ones once revoked")
    func severalBindings() throws {
        let id = try store.populate(1)[0]
        let details = try store.bind(Fixture.bindingKey(50), to: id, at: 2_000)
        #expect(details.bindings.map(\.key) == [Fixture.bindingKey(1), Fixture.bindingKey(50)])
        _ = try store.revoke(id)
        #expect(throws: StoreError.deviceRevoked) { try store.bind(Fixture.bindingKey(51), to: id) }
        #expect(throws: StoreError.deviceUnknown) {
            try store.bind(Fixture.bindingKey(51), to: try #require(DeviceID(99)))
        }
    }

    @Test("only restoring reactivates a revoked device, with its counters unchanged")
    func revokeRestore() throws {
        let id = try store.populate(1)[0]
        #expect(store.commit(1, 5) == .committed)
        #expect(try store.revoke(id, at: 300).device.revokedAt == 300)
        #expect(try store.revoke(id, at: 400).device.revokedAt == 300)
        #expect(store.commit(1, 6) == .deviceRevoked)
        #expect(try store.show(.id(id)).device.highestCounter == 5)
        let restored = try store.restore(id).device
        #expect(restored.state == .active)
        #expect(restored.revokedAt == nil)
        #expect(store.commit(1, 5) == .replayed)
        // Refused while it was revoked, so not spent.
        #expect(store.commit(1, 6) == .committed)
        let unknown = try #require(DeviceID(99))
        #expect(throws: StoreError.deviceUnknown) { try store.revoke(unknown) }
        #expect(throws: StoreError.deviceUnknown) { try store.restore(unknown) }
    }

    @Test("pages of the list have no gaps or repetitions")
    func list() throws {
        let ids = try store.populate(25)
        var seen: [DeviceID] = []
        while true {
            let page = try store.devices(after: seen.last, limit: 10)
            if page.isEmpty { break }
            seen += page.map(\.id)
        }
        #expect(seen == ids)
        #expect(try store.devices(after: nil, limit: 0).isEmpty)
        #expect(try store.devices(after: nil, limit: -1).isEmpty)
    }

    @Test("commands have the effect of the operations they name")
    func commands() throws {
        guard case .success(.device(let added)) = store.perform(.register(Fixture.identity(1), binding: nil)) else {
            Issue.record("not registered")
            return
        }
        let id = added.device.id
        #expect(store.perform(.register(Fixture.identity(1), binding: nil)) == .failure(.keyRegistered))
        guard case .success(.device(let bound)) = store.perform(.bind(Fixture.bindingKey(1), to: id)),
            case .success(.device(let revoked)) = store.perform(.revoke(id)),
            case .success(.device(let restored)) = store.perform(.restore(id)),
            case .success(.device(let ended)) = store.perform(.endBinding(Fixture.bindingKey(1))),
            case .success(.devices(let devices)) = store.perform(.list(after: nil, limit: 5))
        else {
            Issue.record("refused")
            return
        }
        #expect(bound.bindings.count == 1)
        #expect(revoked.device.state == .revoked)
        #expect(restored.device.state == .active)
        #expect(ended.bindings[0].isActive == false)
        #expect(devices == [ended.device])
        #expect(store.perform(.show(.id(id))) == .success(.device(ended)))
        let before = store.identity
        guard case .success(.identity(let after)) = store.perform(.renewEpoch) else {
            Issue.record("no epoch")
            return
        }
        #expect(after.store == before.store)
        #expect(after.epoch != before.epoch)
    }

    @Test("registrations, store id and epoch survive reopening")
    func persists() throws {
        let scratch = try Scratch()
        var first: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true)
        try first?.populate(3)
        let identity = first?.identity
        let page = try first?.devices(after: nil, limit: 10)
        first = nil
        let second = try RegistryStore(path: scratch.file(), creating: false)
        #expect(second.identity == identity)
        #expect(try second.devices(after: nil, limit: 10) == page)
    }

    @Test("two stores have different ids and epochs")
    func ids() throws {
        let other = try RegistryStore(path: scratch.file("other.db"), creating: true)
        #expect(other.identity.store != store.identity.store)
        #expect(other.identity.epoch != store.identity.epoch)
        #expect(RandomID(other.identity.store.bytes) == other.identity.store)
    }
}
