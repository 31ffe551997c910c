import EventLoop
import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Extensions shown by a key")
struct ShownExtensionsTests {
    private let scratch: Scratch
    private static let both: ShownExtensions = [.validationCategory, .bundleVersion]

    init() throws {
        scratch = try Scratch()
    }

    private func shown(_ device: Int, _ store: RegistryStore) throws -> ShownExtensions {
        try store.show(.hardwareKey(Fixture.hardwareKey(device))).device.shown
    }

    @Test("each shown extension is stored with its counter, and showing less uses no value")
    func sticky() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(2)
        #expect(store.commit(1, 1) == .committed)
        #expect(try shown(1, store) == [])
        #expect(store.commit(1, 2, showing: .bundleVersion) == .committed)
        #expect(store.commit(1, 3) == .extensionWithheld)
        #expect(store.commit(1, 3, showing: .validationCategory) == .extensionWithheld)
        #expect(store.commit(1, 3, showing: Self.both) == .committed)
        #expect(store.commit(1, 4, showing: .bundleVersion) == .extensionWithheld)
        #expect(store.commit(1, 4, showing: Self.both) == .committed)
        #expect(try shown(1, store) == Self.both)
        #expect(store.commit(2, 1) == .committed, "another device is held to nothing")
        #expect(try shown(2, store) == [])
    }

    @Test("shown extensions apply to later values of the same batch")
    func oneBatch() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(1)
        let outcomes = store.commit([
            store.entry(1, 1), store.entry(1, 2, showing: Self.both), store.entry(1, 3),
            store.entry(1, 4, showing: .bundleVersion), store.entry(1, 5, showing: Self.both),
        ])
        #expect(outcomes == [.committed, .committed, .extensionWithheld, .extensionWithheld, .committed])
    }

    @Test("a refused counter stores no shown extension")
    func refused() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(1)
        #expect(store.commit(1, 5) == .committed)
        #expect(store.commit(1, 5, showing: Self.both) == .replayed)
        #expect(try shown(1, store) == [])
    }

    @Test("shown extensions survive restart, crash, fold and eviction")
    func durable() throws {
        var options = StoreOptions()
        options.recordLimit = 1
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true, options: options)
        try store?.populate(3)
        #expect(store?.commit(1, 1, showing: Self.both) == .committed)
        let crashed = try RegistryStore(path: try scratch.copy(to: "crashed.db"), creating: false)
        #expect(crashed.commit(1, 2) == .extensionWithheld)
        while try store?.fold() == true {}
        for device in 2...3 { #expect(store?.commit(device, 1) == .committed) }
        while try store?.fold() == true {}
        #expect(store?.commit(1, 2) == .extensionWithheld)
        store = nil
        store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(store?.commit(1, 2) == .extensionWithheld)
        #expect(store?.commit(1, 2, showing: Self.both) == .committed)
    }

    @Test("neither revoking nor restoring removes shown extensions")
    func restored() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        let device = try store.populate(1)[0]
        #expect(store.commit(1, 1, showing: Self.both) == .committed)
        #expect(try store.revoke(device).device.shown == Self.both)
        #expect(try store.restore(device).device.shown == Self.both)
        #expect(store.commit(1, 2) == .extensionWithheld)
    }

    @Test("shown extensions stay when the file is rolled back while open, and are written again")
    func rolledBack() throws {
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true)
        try store?.populate(1)
        #expect(store?.commit(1, 1) == .committed)
        while try store?.fold() == true {}
        try store?.checkpoint()
        let old = try Data(contentsOf: URL(filePath: scratch.file()))
        #expect(store?.commit(1, 2, showing: Self.both) == .committed)
        while try store?.fold() == true {}
        try store?.checkpoint()
        let handle = try #require(FileHandle(forUpdatingAtPath: scratch.file()))
        try handle.truncate(atOffset: 0)
        try handle.write(contentsOf: old)
        try handle.close()
        try store?.reopen()
        #expect(store?.commit(1, 3) == .extensionWithheld)
        store = nil
        let next = try RegistryStore(path: scratch.file(), creating: false)
        #expect(try shown(1, next) == Self.both)
        #expect(next.commit(1, 3) == .extensionWithheld)
    }

    @Test("an attestation stores its shown extensions")
    func initialization() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        let request = store.initialization(1, showing: .bundleVersion)
        guard case .registered(let details) = try store.initialize(request, at: 1_000) else {
            Issue.record("not registered")
            return
        }
        #expect(details.device.shown == .bundleVersion)
        #expect(
            try store.bindKey(store.keyBinding(1, key: 1, nonce: 1, counter: 1), at: 1_000).refusal
                == .extensionWithheld)
        let bound = try store.bindKey(
            store.keyBinding(1, key: 1, nonce: 1, counter: 1, showing: .bundleVersion), at: 1_000)
        #expect(bound.kind == .first, "neither nonce nor counter was spent")
        #expect(store.commit(1, 2) == .extensionWithheld)
        #expect(store.commit(1, 2, showing: .bundleVersion) == .committed)
    }

    @Test("a key binding adds to the shown extensions")
    func keyBinding() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.initializeAll(1)
        let bound = try store.bindKey(
            store.keyBinding(1, key: 1, nonce: 1, counter: 1, showing: Self.both), at: 1_000)
        #expect(bound.details?.device.shown == Self.both)
        let rotation = store.keyBinding(1, key: 2, nonce: 2, counter: 2, showing: .validationCategory)
        #expect(try store.bindKey(rotation, at: 1_000).refusal == .extensionWithheld)
        #expect(store.commit(1, 2) == .extensionWithheld)
    }
}

@Suite("Extensions shown at several workers")
struct SharedShownExtensionsTests {
    private let scratch: Scratch
    private static let both: ShownExtensions = [.validationCategory, .bundleVersion]

    init() throws {
        scratch = try Scratch()
    }

    @Test("a request looked up before another showed more is refused in memory")
    func lookedUpBefore() throws {
        let registry = try startRegistry(scratch, devices: 1)
        defer { registry.stop() }
        let (first, second) = (try TestWorker(registry), try TestWorker(registry))
        let epoch = registry.identity.epoch
        let (newer, older) = (try first.find(1), try second.find(1))
        #expect(older.shown == [])
        let acceptance = try #require(first.client).spend(
            1, of: newer, showing: Self.both, mode: .strict, epoch: epoch, token: 7)
        #expect(acceptance == .pending)
        let refused = try #require(second.client).spend(
            2, of: older, showing: [], mode: .strict, epoch: epoch, token: 7)
        #expect(refused == .extensionWithheld)
        #expect(try second.find(1).shown == Self.both)
        #expect(try second.spend(2, of: older, showing: Self.both, epoch: epoch) == .committed)
    }

    @Test("extensions shown at two workers at once are all stored and survive a restart")
    func together() throws {
        let devices = 32
        do {
            let registry = try startRegistry(scratch, devices: devices)
            defer { registry.stop() }
            let workers = [try TestWorker(registry), try TestWorker(registry)]
            let found = try workers.map { worker in try (1...devices).map { try worker.find($0) } }
            let epoch = registry.identity.epoch
            // Each device shows one to one worker and then both to the other, before the store has answered anybody.
            for index in 0..<devices {
                let (one, other) = (index % 2, 1 - index % 2)
                let first = workers[one].client?.spend(
                    1, of: found[one][index], showing: index % 4 < 2 ? .bundleVersion : .validationCategory,
                    mode: .strict, epoch: epoch, token: 1)
                let second = workers[other].client?.spend(
                    2, of: found[other][index], showing: Self.both, mode: .strict, epoch: epoch, token: 1)
                #expect(first == .pending && second == .pending)
            }
            var outcomes: [CounterOutcome] = []
            for worker in workers {
                let isAnswered = {
                    worker.events.count { if case .counter = $0 { true } else { false } } == devices
                }
                #expect(worker.run(until: isAnswered))
                for case .counter(_, let outcome) in worker.events { outcomes.append(outcome) }
            }
            // The worker whose message came second may show less than the store knows by then.
            #expect(outcomes.count == 2 * devices)
            #expect(outcomes.allSatisfy { $0 == .committed || $0 == .extensionWithheld })
        }
        let store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(try store.devices(after: nil, limit: devices).allSatisfy { $0.shown == Self.both })
    }

    @Test("a key binding that shows more is known to every worker when it is answered")
    func binding() throws {
        let registry = try startRegistry(scratch, devices: 1)
        defer { registry.stop() }
        let (worker, enroller) = (try TestWorker(registry), try TestWorker(registry))
        let older = try worker.find(1)
        let request = BindingRequest(
            hardwareKey: Fixture.hardwareKey(1), key: Fixture.bindingKey(1),
            nonce: SingleUse(id: Fixture.fingerprint(1, kind: 3), expiresAt: .max), epoch: registry.identity.epoch,
            counter: 1, shown: Self.both, mode: .strict, admission: .open, overlap: 0, serial: Fixture.serial(1),
            notAfter: WallClock.seconds + 3_600)
        guard case .success(.keyBinding(.bound)) = try enroller.perform(.bindKey(request)) else {
            Issue.record("not bound")
            return
        }
        #expect(try worker.find(1).shown == Self.both)
        #expect(try worker.spend(2, of: older, epoch: registry.identity.epoch) == .extensionWithheld)
    }
}
