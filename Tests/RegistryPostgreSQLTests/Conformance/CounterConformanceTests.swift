import Chance
import EventLoop
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Every store: counters")
struct CounterConformanceTests {
    @Test("each value of a batch gets its own result, even several of one device", arguments: StoreKind.allCases)
    func batch(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let ids = try store.populate(4)
        try store.perform(.revoke(ids[2]))
        try store.perform(.endBinding(Fixture.bindingKey(4)))
        let outcomes = try store.commit([
            store.entry(ids[0], 1, 3), store.entry(ids[0], 1, 3), store.entry(ids[1], 2, 3), store.entry(ids[0], 1, 2),
            store.entry(ids[0], 1, 4), store.entry(ids[2], 3, 1), store.entry(ids[3], 4, 1),
            // A key of another device, and one of none.
            store.entry(ids[0], 2, 50), store.entry(ids[0], 77, 50),
            store.entry(ids[0], 1, 50, epoch: RandomID()),
            store.entry(ids[0], 1, 2, mode: window(8)),
        ])
        #expect(
            outcomes == [
                .committed, .replayed, .committed, .late(highest: 3), .committed, .deviceRevoked, .bindingEnded,
                .unknown,
                .unknown, .epochChanged, .committed,
            ])
        #expect(try store.commit([]) == [])
        #expect(try store.details(.show(.id(ids[0]))).device.highestCounter == 4)
        #expect(try store.find(1)?.window.highest == 4)
    }

    @Test(
        "any values in any order are decided as by one window, also after reopening",
        arguments: StoreKind.allCases)
    func decidesAsTheWindow(_ kind: StoreKind) throws {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        let place = try kind.makePlace()
        var store: AskedStore? = try AskedStore(place)
        let ids = try #require(store).populate(6)
        var direct = [CounterWindow](repeating: CounterWindow(), count: ids.count)
        for round in 0..<60 {
            var values: [(device: Int, counter: UInt32, mode: CounterMode)] = []
            for _ in 0..<Int.random(in: 1...25, using: &generator) {
                let device = Int.random(in: 0..<ids.count, using: &generator)
                let highest = direct[device].highest
                let counter = UInt32.random(in: (highest > 40 ? highest - 40 : 0)...(highest + 40), using: &generator)
                values.append((device, counter, Bool.random(using: &generator) ? .strict : window(32)))
            }
            let outcomes = try #require(store).commit(
                values.compactMap { store?.entry(ids[$0.device], $0.device + 1, $0.counter, mode: $0.mode) })
            let expected = values.map { value -> CounterOutcome in
                switch direct[value.device].accept(value.counter, mode: value.mode) {
                case .accepted: .committed
                case .replayed: .replayed
                case .late: .late(highest: direct[value.device].highest)
                }
            }
            #expect(outcomes == expected, "seed \(seed), round \(round)")
            if round % 20 == 19 {
                store = nil
                store = try AskedStore(place)
            }
        }
        for device in ids.indices {
            #expect(try store?.find(device + 1)?.window == direct[device], "seed \(seed)")
        }
    }

    @Test(
        "concurrent batches are decided as if one followed the other", arguments: StoreKind.allCases)
    func overlapping(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let ids = try store.populate(3)
        // Every value comes in two batches; all are asked before any is answered, where the store answers later.
        var outcomes: [[UInt32]: [CounterOutcome]] = [:]
        var answered = 0
        for round: UInt32 in 0..<20 {
            for _ in 0..<2 {
                let entries = ids.enumerated().map { store.entry($1, $0 + 1, round + 1, mode: .unspent) }
                store.backend.commit(entries) { index, outcome in
                    outcomes[[UInt32(index), round], default: []].append(outcome)
                    answered += 1
                }
            }
        }
        #expect(store.run { answered == 20 * 2 * 3 })
        #expect(outcomes.count == 60)
        #expect(outcomes.values.allSatisfy { $0.count { $0 == .committed } == 1 && $0.count { $0 == .replayed } == 1 })
    }

    @Test(
        "a revocation or ended binding between acceptance and commit refuses the value",
        arguments: StoreKind.allCases)
    func revokedBetween(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let ids = try store.populate(2)
        #expect(try store.commit(ids[0], 1, 1) == .committed)
        #expect(try store.commit(ids[1], 2, 1) == .committed)
        let accepted = [store.entry(ids[0], 1, 2, mode: .unspent), store.entry(ids[1], 2, 2, mode: .unspent)]
        try store.perform(.revoke(ids[0]))
        try store.perform(.endBinding(Fixture.bindingKey(2)))
        #expect(try store.commit(accepted) == [.deviceRevoked, .bindingEnded])
        #expect(store.closed == [Fixture.bindingKey(1), Fixture.bindingKey(2)])
        // Refused, so not spent.
        try store.perform(.restore(ids[0]))
        #expect(try store.commit(ids[0], 1, 2) == .committed)
        #expect(try store.commit(ids[0], 1, 1, mode: window(8)) == .replayed)
    }

    @Test(
        "enrolments and counters that arrive together are all answered, and a refusal refuses no other",
        arguments: StoreKind.allCases)
    func together(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let ids = try store.populate(2)
        var verdicts: [InitializationVerdict] = []
        func initialize(_ number: Int) {
            store.backend.perform(.initialize(store.initialization(number)), at: 1_000) { result in
                if case .success(.initialization(let verdict)) = result { verdicts.append(verdict) }
            }
        }
        initialize(1)
        initialize(3)
        #expect(try store.commit([store.entry(ids[0], 1, 1)]) == [.committed])
        store.run { verdicts.count == 2 }
        initialize(4)
        #expect(try store.commit([store.entry(ids[0], 1, 2), store.entry(ids[0], 1, 1)]) == [.committed, .replayed])
        store.run { verdicts.count == 3 }
        try #require(verdicts.count == 3)
        #expect(verdicts[0] == .refused(.keyRegistered))
        for verdict in verdicts[1...] {
            guard case .registered(let details) = verdict else { throw AskedStore.OtherReply() }
            #expect(try store.details(.show(.id(details.device.id))).device == details.device)
        }
    }

    @Test("a fresh epoch refuses values accepted under the previous one, and only those", arguments: StoreKind.allCases)
    func epochs(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let id = try store.populate(1)[0]
        let before = store.identity
        let outstanding = store.entry(id, 1, 1, mode: .unspent)
        guard case .identity(let identity) = try store.perform(.renewEpoch) else { throw AskedStore.OtherReply() }
        #expect(identity.store == before.store)
        #expect(identity.epoch != before.epoch)
        #expect(store.identity == identity)
        #expect(try store.commit([outstanding, store.entry(id, 1, 2)]) == [.epochChanged, .committed])
    }

    @Test(
        "shown extensions are stored with the counter, and later assertions must show them",
        arguments: StoreKind.allCases)
    func shown(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        var store: AskedStore? = try AskedStore(place)
        let id = try #require(store).populate(1)[0]
        let category = ShownExtensions.validationCategory
        #expect(try store?.commit(id, 1, 1) == .committed)
        #expect(try store?.commit(id, 1, 2, showing: category) == .committed)
        #expect(try store?.commit(id, 1, 3) == .extensionWithheld)
        store = nil
        store = try AskedStore(place)
        #expect(try store?.commit(id, 1, 3) == .extensionWithheld)
        #expect(try store?.find(1)?.shown == category)
        #expect(try store?.details(.show(.id(id))).device.shown == category)
        #expect(try store?.commit(id, 1, 3, showing: category) == .committed)
    }

    @Test("committed values are refused after reopening, in every mode", arguments: StoreKind.allCases)
    func openedAgain(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        var store: AskedStore? = try AskedStore(place)
        let id = try #require(store).populate(1)[0]
        #expect(try store?.commit(id, 1, 10) == .committed)
        #expect(try store?.commit(id, 1, 7, mode: window(5)) == .committed)
        let identity = store?.identity
        store = nil
        store = try AskedStore(place)
        #expect(store?.identity == identity)
        #expect(try store?.commit(id, 1, 10, mode: window(1024)) == .replayed)
        #expect(try store?.commit(id, 1, 7, mode: window(1024)) == .replayed)
        #expect(try store?.commit(id, 1, 8, mode: window(1024)) == .committed)
    }

    @Test(
        "values that a failing store did not take stay used when it recovers",
        arguments: StoreKind.allCases)
    func floor(_ kind: StoreKind) throws {
        let place = try kind.makePlace()
        let store = try AskedStore(place)
        let ids = try store.populate(2)
        #expect(try store.commit(ids[0], 1, 1) == .committed)
        try place.refuseCounters(of: store.backend)
        #expect(
            try store.commit([store.entry(ids[0], 1, 5), store.entry(ids[1], 2, 9)])
                == [.storeUnavailable, .storeUnavailable])
        #expect(!store.failures.isEmpty)
        #expect(!store.backend.isAvailable)
        // Spent by a worker that did not know yet.
        #expect(try store.commit(ids[0], 1, 6) == .storeUnavailable)
        #expect(throws: StoreError.unavailable) { try store.find(1) }
        #expect(throws: StoreError.unavailable) { try store.perform(.show(.id(ids[0]))) }
        try place.takeCounters(of: store.backend)
        #expect(store.run { store.recoveries == 1 })
        let again = [
            store.entry(ids[0], 1, 1, mode: window(1024)), store.entry(ids[0], 1, 5, mode: window(1024)),
            store.entry(ids[0], 1, 6, mode: window(1024)), store.entry(ids[1], 2, 9, mode: window(1024)),
        ]
        #expect(try store.commit(again) == [.replayed, .replayed, .replayed, .replayed])
        #expect(try store.commit(ids[0], 1, 7) == .committed)
    }
}
