import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("A failing store")
struct StoreFailureTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    /// A store that cannot grow: a full disk, as SQLite reports it. - Returns: what was committed before it was full.
    private func fill(_ store: RegistryStore) throws -> (committed: [CounterEntry], refused: [CounterEntry]) {
        try store.populate(4)
        store.options.maximumPages = 40
        try store.reopen()
        var committed: [CounterEntry] = []
        for counter: UInt32 in 1...100_000 {
            let batch = (1...4).map { store.entry($0, counter) }
            let outcomes = store.commit(batch)
            if outcomes.allSatisfy({ $0 == .committed }) {
                committed += batch
            } else {
                #expect(outcomes.allSatisfy { $0 == .storeUnavailable })
                return (committed, batch)
            }
        }
        throw Failure()
    }

    private struct Failure: Error {}

    @Test("a full disk refuses the whole batch and everything after it until there is room")
    func full() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        let (committed, refused) = try fill(store)
        #expect(!store.isAvailable)
        #expect(store.lastFault?.contains("full") == true, "\(store.lastFault ?? "")")
        let later = refused[0].counter + 5
        #expect(store.commit(1, later) == .storeUnavailable)
        #expect(throws: StoreError.unavailable) { try store.show(.hardwareKey(Fixture.hardwareKey(1))) }
        #expect(throws: StoreError.unavailable) { try store.revoke(committed[0].device) }
        // Still full: what is owed cannot be written, so it stays shut.
        #expect(throws: StoreOpenError.self) { try store.reopen() }
        #expect(!store.isAvailable)

        store.options.maximumPages = nil
        try store.reopen()
        #expect(store.isAvailable)
        let again = store.commit(
            (committed + refused).map { entry in
                CounterEntry(
                    device: entry.device, binding: entry.binding, counter: entry.counter, epoch: entry.epoch,
                    shown: [], mode: window(1024))
            })
        #expect(
            again.allSatisfy { outcome in
                if case .late = outcome { true } else { outcome == .replayed }
            })
        #expect(again.suffix(4) == [.replayed, .replayed, .replayed, .replayed])
        #expect(store.commit(1, later) == .replayed)
        #expect(store.commit(1, later + 1) == .committed)
    }

    @Test("a value refused with an unknown result stays used, even after a restart")
    func owed() throws {
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true)
        let refused = try fill(try #require(store)).refused
        store?.options.maximumPages = nil
        try store?.reopen()
        store = nil
        let next = try RegistryStore(path: scratch.file(), creating: false)
        #expect(next.commit(refused) == [.replayed, .replayed, .replayed, .replayed])
    }

    @Test("rolling back the open file does not roll back memory")
    func rolledBack() throws {
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true)
        try store?.populate(3)
        #expect(store?.commit(1, 1) == .committed)
        while try store?.fold() == true {}
        try store?.checkpoint()
        let old = try Data(contentsOf: URL(filePath: scratch.file()))
        #expect(store?.commit(1, 9) == .committed)
        #expect(store?.commit(2, 4) == .committed)
        while try store?.fold() == true {}
        try store?.checkpoint()
        let handle = try #require(FileHandle(forUpdatingAtPath: scratch.file()))
        try handle.truncate(atOffset: 0)
        try handle.write(contentsOf: old)
        try handle.close()
        try store?.reopen()
        #expect(store?.commit(1, 9) == .replayed)
        #expect(store?.commit(2, 4) == .replayed)
        store = nil
        let next = try RegistryStore(path: scratch.file(), creating: false)
        #expect(next.commit(1, 9) == .replayed)
        #expect(next.commit(2, 4) == .replayed)
        #expect(next.commit(3, 1) == .committed)
    }

    @Test("another store put in place of the file is refused")
    func replaced() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(1)
        try store.checkpoint()
        try RegistryStore(path: scratch.file("other.db"), creating: true).populate(1)
        for suffix in ["", "-wal"] { try FileManager.default.removeItem(atPath: scratch.file() + suffix) }
        try FileManager.default.moveItem(atPath: scratch.file("other.db"), toPath: scratch.file())
        #expect(throws: StoreOpenError.replaced(path: scratch.file())) { try store.reopen() }
        #expect(!store.isAvailable)
        #expect(store.commit(1, 1) == .storeUnavailable)
    }

    @Test("a changed epoch in the file refuses the batch and closes the store")
    func epochUnderneath() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(1)
        // As if the row had been written by other means than this object.
        store.adopt(StoreIdentity(store: store.identity.store, epoch: RandomID()))
        #expect(store.commit(1, 1) == .storeUnavailable)
        #expect(!store.isAvailable)
    }
}
