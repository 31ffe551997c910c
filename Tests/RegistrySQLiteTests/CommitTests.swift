import Chance
import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("The store: counters")
struct CommitTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func open(_ change: (inout StoreOptions) -> Void = { _ in }) throws -> RegistryStore {
        var options = StoreOptions()
        change(&options)
        return try RegistryStore(path: scratch.file(), creating: true, options: options)
    }

    @Test("each entry of a batch gets its own result, even several of one device")
    func batch() throws {
        let store = try open()
        let ids = try store.populate(4)
        _ = try store.revoke(ids[2])
        _ = try store.endBinding(Fixture.bindingKey(4))
        let foreign = CounterEntry(
            device: ids[0], binding: Fixture.bindingKey(2), counter: 50, epoch: store.identity.epoch, shown: [],
            mode: .strict)
        let unbound = CounterEntry(
            device: ids[0], binding: Fixture.bindingKey(77), counter: 50, epoch: store.identity.epoch, shown: [],
            mode: .strict)
        let stale = CounterEntry(
            device: ids[0], binding: Fixture.bindingKey(1), counter: 50, epoch: RandomID(), shown: [], mode: .strict)
        let outcomes = store.commit([
            store.entry(1, 3), store.entry(1, 3), store.entry(2, 3), store.entry(1, 2), store.entry(1, 4),
            store.entry(3, 1), store.entry(4, 1), foreign, unbound, stale, store.entry(1, 2, mode: window(8)),
        ])
        #expect(
            outcomes == [
                .committed, .replayed, .committed, .late(highest: 3), .committed, .deviceRevoked, .bindingEnded,
                .unknown,
                .unknown, .epochChanged, .committed,
            ])
        #expect(store.commit([]) == [])
        #expect(store.journalLength == 4)
    }

    @Test("the journal's memory is bounded while it never becomes empty, and is released after a peak")
    func steadyLoad() throws {
        let device = try #require(DeviceID(Int64(7)))
        var journal = Journal()
        var last: Int64 = 0
        func append(_ count: Int) {
            for _ in 0..<count {
                last += 1
                journal.append(last, device)
            }
        }
        func take(leaving count: Int64) {
            while journal.takeFirst(through: last - count) != nil {}
        }
        for _ in 0..<1_000 {
            append(1_000)
            take(leaving: 1_000)
        }
        #expect(journal.count == 1_000)
        #expect(journal.first == 999_001)
        #expect(journal.capacity <= 131_072)
        append(500_000)
        take(leaving: 1_000)
        #expect(journal.count == 1_000)
        #expect(journal.capacity <= 65_536)
        append(500_000)
        take(leaving: 0)
        #expect(journal.capacity <= 65_536)
    }

    @Test("rows are folded while batches follow each other without a pause")
    func foldedUnderLoad() throws {
        let store = try open()
        _ = try store.populate(64)
        let backend = SQLiteBackend(store)
        var counter: UInt32 = 0
        var committed = 0
        var longest = 0
        for _ in 0..<800 {
            var entries: [CounterEntry] = []
            for _ in 0..<4 {
                counter += 1
                entries += (1...64).map { store.entry($0, counter) }
            }
            backend.commit(entries) { _, outcome in committed += outcome == .committed ? 1 : 0 }
            backend.workOn()
            longest = max(longest, store.journalLength)
        }
        #expect(committed == 800 * 4 * 64)
        // The bound, and what is committed during one round.
        #expect(longest < 40_000)
        #expect(store.writer.ahead.count <= 64)
        #expect(store.writer.owed.isEmpty)
    }

    @Test("a revocation or ended binding between acceptance and commit refuses the value")
    func revokedBetween() throws {
        let store = try open()
        let ids = try store.populate(2)
        #expect(store.commit(1, 1) == .committed)
        let accepted = [store.entry(1, 2, mode: .unspent), store.entry(2, 1, mode: .unspent)]
        _ = try store.revoke(ids[0])
        _ = try store.endBinding(Fixture.bindingKey(2))
        #expect(store.commit(accepted) == [.deviceRevoked, .bindingEnded])
    }

    @Test("a fresh epoch refuses values accepted under the previous one, and only those")
    func epochs() throws {
        let store = try open()
        try store.populate(1)
        let outstanding = store.entry(1, 1, mode: .unspent)
        let identity = try store.renewEpoch()
        #expect(store.identity == identity)
        #expect(store.commit([outstanding, store.entry(1, 2)]) == [.epochChanged, .committed])
    }

    @Test("committed values are refused after reopening, folded or not, in every mode")
    func reopened() throws {
        for isFolded in [false, true] {
            let scratch = try Scratch()
            var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true)
            try store?.populate(2)
            #expect(store?.commit(1, 10) == .committed)
            #expect(store?.commit(1, 7, mode: window(5)) == .committed)
            if isFolded { while try store?.fold() == true {} }
            store = nil
            let again = try RegistryStore(path: scratch.file(), creating: false)
            #expect(again.journalLength == (isFolded ? 0 : 2))
            #expect(again.commit(1, 10, mode: window(1024)) == .replayed)
            #expect(again.commit(1, 7, mode: window(1024)) == .replayed)
            #expect(again.commit(1, 8, mode: window(1024)) == .committed)
            #expect(try again.show(.binding(Fixture.bindingKey(1))).device.highestCounter == 10)
        }
    }

    @Test("after a crash at any moment no committed value is accepted again")
    func crashes() throws {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        let store = try open { $0.foldLimit = 3 }
        try store.populate(8)
        var committed: [(Int, UInt32)] = []
        for step in 0..<120 {
            let batch = (0..<Int.random(in: 1...12, using: &generator)).map { _ in
                (Int.random(in: 1...8, using: &generator), UInt32.random(in: 1...600, using: &generator))
            }
            let outcomes = store.commit(batch.map { store.entry($0.0, $0.1, mode: window(1024)) })
            committed += zip(batch, outcomes).filter { $1 == .committed }.map(\.0)
            if step % 3 == 0 { _ = try store.fold() }
            if step % 17 == 0 { try store.checkpoint() }
            guard step % 10 == 0 else { continue }
            let copy = try RegistryStore(path: try scratch.copy(to: "copy-\(step).db"), creating: false)
            #expect(copy.identity == store.identity)
            let again = copy.commit(committed.map { copy.entry($0.0, $0.1, mode: window(1024)) })
            #expect(again.allSatisfy { $0 == .replayed }, "seed \(seed), step \(step)")
        }
    }

    @Test("journal, fold, checkpoint and reopening in any order give the same result as direct acceptance")
    func foldingEqualsDirectState() throws {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        var options = StoreOptions()
        options.foldLimit = 4
        options.recordLimit = 5
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true, options: options)
        try store?.populate(20)
        var direct = [CounterWindow](repeating: CounterWindow(), count: 21)
        for _ in 0..<400 {
            switch Int.random(in: 0..<12, using: &generator) {
            case 0..<8:
                let entries = (0..<Int.random(in: 1...10, using: &generator)).map { _ in
                    let device = Int.random(in: 1...20, using: &generator)
                    let highest = direct[device].highest
                    let low = highest > 40 ? highest - 40 : 0
                    let counter = UInt32.random(in: low...(highest + 40), using: &generator)
                    return (device, counter, Bool.random(using: &generator) ? CounterMode.strict : window(32))
                }
                let outcomes = try #require(store).commit(
                    entries.compactMap { store?.entry($0.0, $0.1, mode: $0.2) })
                let expected = entries.map { entry -> CounterOutcome in
                    switch direct[entry.0].accept(entry.1, mode: entry.2) {
                    case .accepted: .committed
                    case .replayed: .replayed
                    case .late: .late(highest: direct[entry.0].highest)
                    }
                }
                #expect(outcomes == expected, "seed \(seed)")
            case 8, 9: _ = try store?.fold()
            case 10: try store?.checkpoint()
            default:
                if Bool.random(using: &generator) {
                    try store?.reopen()
                } else {
                    store = nil
                    store = try RegistryStore(path: scratch.file(), creating: false, options: options)
                }
            }
        }
        for isFolded in [false, true] {
            if isFolded { while try store?.fold() == true {} }
            for device in 1...20 {
                #expect(try store?.find(Fixture.bindingKey(device))?.window == direct[device], "seed \(seed)")
            }
            store = nil
            store = try RegistryStore(path: scratch.file(), creating: false, options: options)
        }
        #expect(store?.journalLength == 0)
    }

    @Test("only checkpoints move the log into the file, never commits")
    func checkpoints() throws {
        let store = try open()
        try store.populate(1)
        for counter: UInt32 in 1...1_100 { #expect(store.commit(1, counter) == .committed) }
        // SQLite's own rule would have checkpointed at 1000 pages.
        #expect(store.logPages > 1_100)
        try store.checkpoint()
        #expect(store.logPages == 0)
        #expect(store.commit(1, 1_100) == .replayed)
        #expect(store.commit(1, 1_101) == .committed)
        #expect(store.logPages < 10)
    }

    @Test("the log grows in slices between commits, without changing its content")
    func logRoom() throws {
        let store = try open {
            $0.pagesBeforeLogRoom = 4
            $0.logRoomSlice = 262_144
        }
        try store.populate(1)
        func size() throws -> Int {
            let log = try FileManager.default.attributesOfItem(atPath: scratch.file() + "-wal")
            return try #require(log[.size] as? Int)
        }
        var grown = (byCommits: 0, between: 0)
        for counter: UInt32 in 1...100 {
            let before = try size()
            #expect(store.commit(1, counter) == .committed)
            let after = try size()
            store.makeLogRoom()
            // The first few make the log long enough to be given room.
            if grown.between > 0, after > before { grown.byCommits += 1 }
            if try size() > after { grown.between += 1 }
        }
        // Each commit takes a page at least; a slice has room for sixty.
        #expect(grown.byCommits == 0)
        #expect((2...10).contains(grown.between))
        // What a process leaves that is killed.
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: scratch.file() + suffix, toPath: scratch.file() + "-left" + suffix)
        }
        let left = try RegistryStore(path: scratch.file() + "-left", creating: false, options: StoreOptions())
        #expect(left.commit(1, 100) == .replayed)
        #expect(left.commit(1, 101) == .committed)
    }
}
