import EventLoop
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Every store: devices and bindings")
struct DeviceConformanceTests {
    @Test(
        "a device is registered as given, active, at counter 0, and found by its keys",
        arguments: StoreKind.allCases)
    func register(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let details = try store.details(.register(Fixture.identity(1), binding: Fixture.bindingKey(1)), at: 77)
        let id = details.device.id
        #expect(details.device.identity == Fixture.identity(1))
        #expect(details.device.state == .active)
        #expect(details.device.registeredAt == 77)
        #expect(details.device.highestCounter == 0)
        #expect(details.device.subject == nil)
        #expect(details.attestation == nil)
        #expect(details.refresh == nil)
        #expect(
            details.bindings == [
                Binding(key: Fixture.bindingKey(1), device: id, createdAt: 77, endedAt: nil, endsAt: nil)
            ])
        #expect(try store.details(.show(.id(id))) == details)
        #expect(try store.details(.show(.hardwareKey(Fixture.hardwareKey(1)))) == details)
        #expect(try store.details(.show(.binding(Fixture.bindingKey(1)))) == details)
        let found = try #require(try store.find(1))
        #expect(found.id == id)
        #expect(found.identity == Fixture.identity(1))
        #expect(found.isBound)
        #expect(!found.isRevoked)
        #expect(found.window == CounterWindow())
        var posture = Posture(platform: Fixture.identity(1).platform, enrolledAt: 77)
        posture.boundAt = 77
        #expect(found.posture == posture)
        #expect(try store.find(2) == nil)
    }

    @Test("devices are counted by state, in slices or at once", arguments: StoreKind.allCases)
    func count(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        func count(after: DeviceID?, limit: Int) throws -> DeviceCount? {
            guard case .count(let count) = try store.perform(.count(after: after, limit: limit)) else { return nil }
            return count
        }
        #expect(try count(after: nil, limit: 10) == DeviceCount())
        let ids = try store.populate(3)
        #expect(try store.initialize(store.initialization(4)).refusal == nil)
        try store.perform(.revoke(ids[1]))
        #expect(try count(after: nil, limit: 10) == DeviceCount(active: 2, pending: 1, revoked: 1))
        #expect(try count(after: nil, limit: 2) == DeviceCount(active: 1, revoked: 1, next: ids[1]))
        #expect(try count(after: ids[1], limit: 3) == DeviceCount(active: 1, pending: 1))
        try store.perform(.restore(ids[1]))
        #expect(try count(after: nil, limit: 10) == DeviceCount(active: 3, pending: 1))
    }

    @Test(
        "a hardware key is registered once, revoked or not, and a refusal changes nothing",
        arguments: StoreKind.allCases)
    func hardwareKeyOnce(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let id = try store.details(.register(Fixture.identity(1), binding: nil)).device.id
        #expect(throws: StoreError.keyRegistered) { try store.perform(.register(Fixture.identity(1), binding: nil)) }
        try store.perform(.revoke(id))
        #expect(throws: StoreError.keyRegistered) {
            try store.perform(.register(Fixture.identity(1), binding: Fixture.bindingKey(9)))
        }
        #expect(throws: StoreError.bindingUnknown) { try store.perform(.show(.binding(Fixture.bindingKey(9)))) }
        #expect(store.backend.isAvailable)
    }

    @Test(
        "an mTLS key is bound only once, even after its binding has ended",
        arguments: StoreKind.allCases)
    func bindingOnce(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let ids = try store.populate(2)
        let key = Fixture.bindingKey(1)
        #expect(throws: StoreError.keyBound) { try store.perform(.bind(key, to: ids[1])) }
        try store.perform(.endBinding(key))
        #expect(throws: StoreError.keyBound) { try store.perform(.bind(key, to: ids[0])) }
        #expect(throws: StoreError.keyBound) { try store.perform(.register(Fixture.identity(3), binding: key)) }
        #expect(throws: StoreError.deviceUnknown) {
            try store.perform(.show(.hardwareKey(Fixture.hardwareKey(3))))
        }
        #expect(try store.find(1)?.isBound == false)
    }

    @Test("an ended binding stays ended, with the time of its first end", arguments: StoreKind.allCases)
    func endBinding(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        try store.populate(1)
        #expect(try store.details(.endBinding(Fixture.bindingKey(1)), at: 500).bindings[0].endedAt == 500)
        #expect(try store.details(.endBinding(Fixture.bindingKey(1)), at: 600).bindings[0].endedAt == 500)
        #expect(throws: StoreError.bindingUnknown) { try store.perform(.endBinding(Fixture.bindingKey(2))) }
    }

    @Test("a device may have several bindings, but no new ones once revoked", arguments: StoreKind.allCases)
    func severalBindings(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let id = try store.populate(1)[0]
        let details = try store.details(.bind(Fixture.bindingKey(50), to: id), at: 2_000)
        #expect(details.bindings.map(\.key) == [Fixture.bindingKey(1), Fixture.bindingKey(50)])
        #expect(
            try store.commit([store.entry(id, 50, 1), store.entry(id, 1, 2), store.entry(id, 50, 3)])
                == [.committed, .committed, .committed])
        try store.perform(.revoke(id))
        #expect(throws: StoreError.deviceRevoked) { try store.perform(.bind(Fixture.bindingKey(51), to: id)) }
        let unknown = try #require(DeviceID(99_999))
        #expect(throws: StoreError.deviceUnknown) { try store.perform(.bind(Fixture.bindingKey(51), to: unknown)) }
        #expect(throws: StoreError.deviceUnknown) { try store.perform(.revoke(unknown)) }
        #expect(throws: StoreError.deviceUnknown) { try store.perform(.restore(unknown)) }
        #expect(throws: StoreError.deviceUnknown) { try store.perform(.approve(unknown)) }
    }

    @Test("only restoring reactivates a revoked device, with its counters unchanged", arguments: StoreKind.allCases)
    func revokeRestore(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let id = try store.populate(1)[0]
        #expect(try store.commit(id, 1, 5) == .committed)
        #expect(try store.details(.revoke(id), at: 300).device.revokedAt == 300)
        #expect(try store.details(.revoke(id), at: 400).device.revokedAt == 300)
        #expect(store.closed.contains(Fixture.bindingKey(1)))
        #expect(try store.find(1)?.isRevoked == true)
        #expect(try store.commit(id, 1, 6) == .deviceRevoked)
        let restored = try store.details(.restore(id)).device
        #expect(restored.state == .active)
        #expect(restored.revokedAt == nil)
        #expect(restored.highestCounter == 5)
        #expect(try store.commit(id, 1, 5) == .replayed)
        #expect(try store.commit(id, 1, 6) == .committed)
    }

    @Test("memory learns of a revocation before the caller is answered", arguments: StoreKind.allCases)
    func heardBeforeAnswer(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let ids = try store.populate(20)
        for (index, id) in ids.enumerated() {
            var heard: Bool?
            store.backend.perform(.revoke(id), at: 1_000) { [unowned store] _ in
                heard = store.closed.contains(Fixture.bindingKey(index + 1))
            }
            store.run { heard != nil }
            #expect(heard == true)
        }
    }

    @Test("revoking a subject revokes its devices and bars new ones", arguments: StoreKind.allCases)
    func subjects(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        for number in 1...3 {
            guard case .registered = try store.initialize(store.initialization(number)) else {
                throw AskedStore.OtherReply()
            }
        }
        func admitted(_ number: Int, for subject: Int, nonce: Int) throws -> KeyBindingVerdict {
            try store.bind(
                store.keyBinding(
                    number, key: number, nonce: nonce, counter: 1,
                    admission: .token(Fixture.token(nonce), subject: Fixture.subject(subject))))
        }
        let first = try #require(try admitted(1, for: 1, nonce: 1).details)
        let second = try #require(try admitted(2, for: 2, nonce: 2).details)
        #expect(first.device.subject == Fixture.subject(1))
        guard case .revoked(let revoked) = try store.perform(.revokeSubject(Fixture.subject(1)), at: 1_500) else {
            throw AskedStore.OtherReply()
        }
        #expect(revoked.map(\.device.id) == [first.device.id])
        #expect(revoked.map(\.device.revokedAt) == [1_500])
        #expect(store.closed == [Fixture.bindingKey(1)])
        #expect(try store.perform(.revokeSubject(Fixture.subject(1)), at: 1_600) == .revoked([]))
        #expect(try store.commit(first.device.id, 1, 2) == .deviceRevoked)
        #expect(try store.commit(second.device.id, 2, 2) == .committed)
        #expect(try admitted(3, for: 1, nonce: 3).refusal == .subjectRevoked)
    }

    @Test(
        "pages of the list have no gaps or repetitions, for pending devices too",
        arguments: StoreKind.allCases)
    func list(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        var ids = try store.populate(11)
        var pending: [DeviceID] = []
        for number in 12...18 {
            guard case .registered(let details) = try store.initialize(store.initialization(number)) else {
                throw AskedStore.OtherReply()
            }
            pending.append(details.device.id)
        }
        ids += pending
        func all(_ page: (DeviceID?) -> RegistryCommand) throws -> [DeviceID] {
            var seen: [DeviceID] = []
            while true {
                guard case .devices(let devices) = try store.perform(page(seen.last)) else {
                    throw AskedStore.OtherReply()
                }
                if devices.isEmpty { return seen }
                #expect(devices.count <= 4)
                seen += devices.map(\.id)
            }
        }
        #expect(try all { .list(after: $0, limit: 4) } == ids)
        #expect(try all { .listPending(after: $0, limit: 4) } == pending)
        #expect(try store.perform(.list(after: nil, limit: 0)) == .devices([]))
        #expect(try store.perform(.list(after: nil, limit: -1)) == .devices([]))
    }

    @Test("a search finds what meets all conditions, in bounded pages", arguments: StoreKind.allCases)
    func searches(_ kind: StoreKind) throws {
        let store = try AskedStore(try kind.makePlace())
        let ids = try store.populate(6)
        guard case .registered(let waiting) = try store.initialize(store.initialization(7)) else {
            throw AskedStore.OtherReply()
        }
        try store.perform(.revoke(ids[5]))
        func find(_ limit: Int = 100, after: DeviceID? = nil, _ set: (inout DeviceSearch) -> Void) throws
            -> FoundDevices
        {
            var search = DeviceSearch()
            set(&search)
            guard case .found(let found) = try store.perform(.search(search, after: after, limit: limit)) else {
                throw AskedStore.OtherReply()
            }
            #expect(found.devices.allSatisfy(search.admits))
            return found
        }
        func numbers(_ found: FoundDevices) -> [DeviceID] { found.devices.map(\.id) }
        func shown(_ id: DeviceID) throws -> Device {
            guard case .device(let details) = try store.perform(.show(.id(id))) else { throw AskedStore.OtherReply() }
            return details.device
        }
        let all = ids + [waiting.device.id]
        #expect(numbers(try find { _ in }) == all)
        #expect(numbers(try find { $0.state = .revoked }) == [ids[5]])
        #expect(numbers(try find { $0.state = .pending }) == [waiting.device.id])
        #expect(numbers(try find { $0.state = .active }) == Array(ids[..<5]))
        let identity = try shown(ids[0]).identity
        #expect(numbers(try find { ($0.app, $0.platform) = (identity.app, identity.platform) }).contains(ids[0]))
        #expect(numbers(try find { $0.app = AppID("ZZZZZZZZZZ.none") }).isEmpty)
        #expect(numbers(try find { $0.subject = Fixture.fingerprint(1, kind: 77) }).isEmpty)
        // A later day stays, and a device may be noted twice.
        #expect(
            try store.perform(.noteSeen(SeenDevices([ids[0], ids[1], ids[0]].map { SeenDevice($0) }, day: 20_000)))
                == .noted)
        #expect(
            try store.perform(.noteSeen(SeenDevices([ids[1], ids[2]].map { SeenDevice($0) }, day: 20_002))) == .noted)
        #expect(try store.perform(.noteSeen(SeenDevices([ids[2]].map { SeenDevice($0) }, day: 20_001))) == .noted)
        #expect(try store.perform(.noteSeen(SeenDevices([], day: 20_001))) == .noted)
        #expect(try ids.map { try shown($0).lastSeen } == [20_000, 20_002, 20_002, nil, nil, nil])
        #expect(numbers(try find { $0.seenSince = 20_001 }) == [ids[1], ids[2]])
        #expect(numbers(try find { ($0.seenSince, $0.seenBefore) = (20_000, 20_002) }) == [ids[0]])
        #expect(numbers(try find { ($0.seenBefore, $0.state) = (20_001, .active) }) == [ids[0], ids[3], ids[4]])
        let page = try find(2) { $0.state = .active }
        #expect(numbers(page) == Array(ids[..<2]) && page.next == ids[1])
        #expect(numbers(try find(2, after: page.next) { $0.state = .active }) == Array(ids[2..<4]))
        #expect(try find { $0.state = .revoked }.next == nil)
        for limit in [0, -1] { #expect(try find(limit) { _ in }.devices.isEmpty) }
    }

    @Test(
        "registrations, store id and epoch survive reopening; another place has others",
        arguments: StoreKind.allCases)
    func persists(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        var store: AskedStore? = try AskedStore(place)
        try store?.populate(3)
        let identity = store?.identity
        let page = try store?.perform(.list(after: nil, limit: 10))
        store = nil
        store = try AskedStore(place)
        #expect(store?.identity == identity)
        #expect(try store?.perform(.list(after: nil, limit: 10)) == page)
        let otherPlace = try kind.makePlace()
        let other = try AskedStore(otherPlace)
        #expect(other.identity.store != identity?.store)
        #expect(other.identity.epoch != identity?.epoch)
    }
}
