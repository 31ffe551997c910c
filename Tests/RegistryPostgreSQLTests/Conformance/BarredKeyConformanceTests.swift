import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Every store: keys barred by the revocation journal")
struct BarredKeyConformanceTests {
    /// A store with device 1, and these keys barred.
    private func open(_ kind: StoreKind, _ keys: [(KeyID, BarredKeyKind)]) throws -> AskedStore {
        let place = try kind.makePlace()
        try AskedStore(place).populate(1)
        for (key, kind) in keys { try place.bar(key, kind) }
        return try AskedStore(place)
    }

    @Test("a device registered under a revoked key is revoked", arguments: StoreKind.allCases)
    func register(_ kind: StoreKind) throws {
        let store = try open(kind, [(Fixture.hardwareKey(2), .hardware)])
        let details = try store.details(.register(Fixture.identity(2), binding: Fixture.bindingKey(2)), at: 1_500)
        #expect(details.device.state == .revoked)
        #expect(details.device.revokedAt == 1_500)
        #expect(try store.commit(details.device.id, 2, 1) == .deviceRevoked)
        #expect(try store.find(2)?.isRevoked == true)
        // Others come in as ever.
        #expect(try store.details(.register(Fixture.identity(3), binding: nil)).device.state == .active)
    }

    @Test(
        "restoring such a device also unbars its key", arguments: StoreKind.allCases)
    func restore(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        try AskedStore(place).populate(1)
        try place.bar(Fixture.hardwareKey(2), .hardware)
        var store: AskedStore? = try AskedStore(place)
        let id = try #require(
            try store?.details(.register(Fixture.identity(2), binding: Fixture.bindingKey(2))).device.id)
        #expect(try store?.details(.restore(id)).device.state == .active)
        #expect(try store?.commit(id, 2, 1) == .committed)
        store = nil
        // Nothing is left of it: what would be the second row of its key is the only one.
        try place.bar(Fixture.hardwareKey(2), .hardware)
        store = try AskedStore(place)
        #expect(try store?.commit(id, 2, 2) == .committed)
    }

    @Test("a revoked phone is not admitted again by its attestation", arguments: StoreKind.allCases)
    func initialize(_ kind: StoreKind) throws {
        let store = try open(kind, [(Fixture.hardwareKey(2), .hardware)])
        #expect(try store.initialize(store.initialization(2)).refusal == .deviceRevoked)
        #expect(throws: StoreError.deviceUnknown) { try store.perform(.show(.hardwareKey(Fixture.hardwareKey(2)))) }
        // The nonce is not spent.
        #expect(try store.initialize(store.initialization(3, nonce: Fixture.nonce(2))).refusal == nil)
    }

    @Test("an mTLS key whose binding ended is refused for a new binding", arguments: StoreKind.allCases)
    func bind(_ kind: StoreKind) throws {
        let store = try open(kind, [(Fixture.bindingKey(2), .mTLS)])
        let id = try store.details(.show(.hardwareKey(Fixture.hardwareKey(1)))).device.id
        let key = Fixture.bindingKey(2)
        #expect(throws: StoreError.keyBound) { try store.perform(.bind(key, to: id)) }
        #expect(throws: StoreError.keyBound) { try store.perform(.register(Fixture.identity(2), binding: key)) }
        let refused = try store.bind(store.keyBinding(1, key: 2, nonce: 1, counter: 1))
        #expect(refused.refusal == .keyBound)
        #expect(try store.bind(store.keyBinding(1, key: 3, nonce: 1, counter: 1)).kind == .rotation)
    }

    @Test(
        "a key is barred only in its kind: as hardware key or as mTLS key",
        arguments: StoreKind.allCases)
    func kinds(_ kind: StoreKind) throws {
        let store = try open(kind, [(Fixture.hardwareKey(2), .mTLS), (Fixture.bindingKey(2), .hardware)])
        let details = try store.details(.register(Fixture.identity(2), binding: Fixture.bindingKey(2)))
        #expect(details.device.state == .active)
    }
}
