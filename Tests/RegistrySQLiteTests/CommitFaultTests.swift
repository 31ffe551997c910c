import RegistryMemory
import Testing

@testable import Registry
@testable import RegistrySQLite

@Suite("Commits with a failing operation")
struct CommitFaultTests {
    private static let seed: UInt64 = 1

    /// Fails the first, the second ... operation of what `body` does, each on a store of its own, until it does no more of them.
    private func eachOperation(
        _ operations: Set<FailingDisk.Operation>, isFull: Bool = false, options: StoreOptions = StoreOptions(),
        _ body: (RegistryStore, FailingDisk) throws -> Void, then: (RegistryStore, Int) throws -> Void
    ) throws {
        for number in 0... {
            let scratch = try Scratch(inMemory: true)
            let disk = FailingDisk(scratch.path, seed: Self.seed)
            let store = try RegistryStore(path: scratch.file(), creating: true, options: options)
            try store.populate(2)
            #expect(store.commit(1, 1) == .committed)
            disk.fail(.init(operations: operations, after: number, times: 1, isFull: isFull))
            try body(store, disk)
            let hasFailed = disk.hasFailed
            disk.fail(nil)
            guard hasFailed else {
                #expect(number > 0, "no operation was there to fail")
                return
            }
            try then(store, number)
        }
    }

    @Test(
        "all values of a failed commit are refused and stay used, and the next commit succeeds",
        arguments: [([FailingDisk.Operation.write], false), ([.write], true), ([.sync], false)])
    func values(_ operations: [FailingDisk.Operation], _ isFull: Bool) throws {
        try eachOperation(Set(operations), isFull: isFull) { store, disk in
            let outcomes = store.commit([store.entry(1, 2), store.entry(2, 1)])
            #expect(outcomes == [CounterOutcome](repeating: disk.hasFailed ? .storeUnavailable : .committed, count: 2))
        } then: { store, number in
            #expect(!store.isAvailable)
            #expect(store.commit(2, 9) == .storeUnavailable, "nobody asks a store that has failed")
            try store.reopen()
            let again = [store.entry(1, 2, mode: window(8)), store.entry(2, 1, mode: window(8))]
            #expect(store.commit(again) == [.replayed, .replayed], "operation \(number)")
            #expect(store.commit([store.entry(1, 3), store.entry(2, 10)]) == [.committed, .committed])
        }
    }

    @Test("a commit and a revocation in one transaction fail together, and the values stay used")
    func together() throws {
        try eachOperation([.write, .sync]) { store, disk in
            let entries = [store.entry(1, 2), store.entry(2, 1)]
            let command = RegistryCommand.revoke(entries[0].device)
            let rule = try #require(command.rule(at: 2_000))
            let (outcomes, result) = store.commit(entries, performing: command, rule, at: 2_000)
            #expect(outcomes == [CounterOutcome](repeating: disk.hasFailed ? .storeUnavailable : .committed, count: 2))
            #expect(((try? result.get()) == nil) == disk.hasFailed)
            // Once it has not failed, the revocation holds for the next batch.
            if !disk.hasFailed { #expect(store.commit(1, 3) == .deviceRevoked) }
        } then: { store, number in
            try store.reopen()
            let isRevoked = try store.show(.id(store.entry(1, 1).device)).device.state == .revoked
            let again = [store.entry(1, 2, mode: window(8)), store.entry(2, 1, mode: window(8))]
            #expect(store.commit(again) == [isRevoked ? .deviceRevoked : .replayed, .replayed], "operation \(number)")
            #expect(store.commit(2, 2) == .committed)
        }
    }

    @Test("a failed revocation is recorded completely or not at all, and can be repeated")
    func revocation() throws {
        try eachOperation([.write, .sync]) { store, disk in
            let id = store.entry(1, 1).device
            let revoked = try? store.revoke(id, at: 2_000)
            #expect((revoked == nil) == disk.hasFailed)
        } then: { store, number in
            try store.reopen()
            let id = store.entry(1, 1).device
            let isRevoked = try store.show(.id(id)).device.state == .revoked
            #expect(store.commit(1, 2) == (isRevoked ? .deviceRevoked : .committed), "operation \(number)")
            _ = try store.revoke(id, at: 2_001)
            #expect(store.commit(1, 3) == .deviceRevoked)
        }
    }

    @Test(
        "failing to grow the log is no error: commits continue and survive a power cut",
        arguments: [false, true])
    func logRoom(_ isFull: Bool) throws {
        var options = StoreOptions()
        options.pagesBeforeLogRoom = 1
        options.logRoomSlice = 65_536
        var attempts = 0
        while true {
            let scratch = try Scratch(inMemory: true)
            let disk = FailingDisk(scratch.path, seed: Self.seed &+ UInt64(attempts))
            var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true, options: options)
            try store?.populate(1)
            disk.fail(.init(operations: [.write], after: attempts, times: 1, isFull: isFull))
            store?.makeLogRoom()
            let hasFailed = disk.hasFailed
            disk.fail(nil)
            for counter: UInt32 in 1...20 {
                #expect(store?.commit(1, counter) == .committed)
                store?.makeLogRoom()
            }
            disk.cut()
            store = nil
            disk.powerOn()
            let left = try RegistryStore(path: scratch.file(), creating: false)
            for counter: UInt32 in 1...20 { #expect(left.commit(1, counter, mode: window(64)) == .replayed) }
            #expect(left.commit(1, 21) == .committed)
            if !hasFailed { break }
            attempts += 1
        }
        // A slice is written in four pieces.
        #expect(attempts == 4)
    }
}
