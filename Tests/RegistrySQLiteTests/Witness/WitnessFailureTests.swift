import Foundation
import Glibc
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite
@testable import RevocationJournal

@Suite("A missing, damaged or unwritable revocation journal")
struct WitnessFailureTests {
    private let file: WitnessedFile

    init() throws {
        file = try WitnessedFile()
    }

    /// A store with three devices, of which the first is revoked.
    private func make() throws -> [DeviceID] {
        let store = try file.open()
        let ids = try store.populate(3)
        _ = try store.revoke(ids[0], at: 1_200)
        return ids
    }

    @Test("a missing journal is refused without changes; accepting the loss draws a fresh epoch")
    func missing() throws {
        _ = try make()
        let before = try RegistryStore(path: file.scratch.file(), creating: false).identity
        try FileManager.default.removeItem(atPath: file.journalPath)
        for _ in 0..<2 {
            #expect(throws: StoreOpenError.revocationsLost(path: file.journalPath)) { try file.open() }
        }
        #expect(try RegistryStore(path: file.scratch.file(), creating: false).identity == before)
        let store = try file.open(acceptsLoss: true)
        #expect(file.heard() == [.lossAccepted(path: file.journalPath)])
        #expect(store.identity.epoch != before.epoch)
        #expect(try file.revocations.revoked == [Fixture.hardwareKey(1): 1_200])
    }

    @Test("the flag that accepts a loss does nothing without one")
    func needless() throws {
        _ = try make()
        let before = try file.open().identity
        #expect(try file.open(acceptsLoss: true).identity == before)
        #expect(file.heard() == [])
    }

    @Test("without its mark the store gets a fresh epoch and every revocation again")
    func noMark() throws {
        _ = try make()
        let before = try file.open().identity
        try FileManager.default.removeItem(atPath: file.markPath)
        #expect(try file.open().identity.epoch != before.epoch)
        #expect(file.heard().count == 1)
    }

    @Test("a damaged line is refused with its number, even if a loss is accepted")
    func damaged() throws {
        let ids = try make()
        do { _ = try file.open().revoke(ids[1], at: 1_300) }
        var bytes = try file.journal()
        bytes[JournalText.header.utf8.count + 10] ^= 1
        try file.write(bytes)
        for accepts in [false, true] {
            let error = #expect(throws: StoreOpenError.self) { try file.open(acceptsLoss: accepts) }
            #expect(error.map { "\($0)" }?.contains("line 2 is damaged") == true)
        }
        #expect(try file.journal() == bytes)
    }

    @Test("a last line truncated by a crash is removed and written again from the store")
    func torn() throws {
        let ids = try make()
        try FileManager.default.copyItem(atPath: file.markPath, toPath: file.markPath + ".old")
        do { _ = try file.open().revoke(ids[1], at: 1_300) }
        // As if neither had reached the disk: the line half, the mark not at all.
        try FileManager.default.removeItem(atPath: file.markPath)
        try FileManager.default.moveItem(atPath: file.markPath + ".old", toPath: file.markPath)
        try file.write(try file.journal().dropLast(30))
        _ = try file.open()
        #expect(file.heard() == [])
        #expect(try file.revocations.revoked == [Fixture.hardwareKey(1): 1_200, Fixture.hardwareKey(2): 1_300])
    }

    @Test("a journal older than the store is completed from it")
    func older() throws {
        let ids = try make()
        let old = try file.journal()
        do { _ = try file.open().revoke(ids[1], at: 1_300) }
        try file.write(old)
        let store = try file.open()
        #expect(file.heard() == [.journalExchanged(path: file.journalPath)])
        #expect(store.isAvailable)
        #expect(try file.revocations.revoked == [Fixture.hardwareKey(1): 1_200, Fixture.hardwareKey(2): 1_300])
    }

    @Test("an old journal with a rolled-back store counts as missing")
    func bothOlder() throws {
        let ids = try make()
        let old = try file.journal()
        try file.keep("copy")
        do { _ = try file.open().revoke(ids[1], at: 1_300) }
        try file.write(old)
        try file.putBack("copy")
        #expect(throws: StoreOpenError.revocationsLost(path: file.journalPath)) { try file.open() }
    }

    @Test("another store is refused the journal while it is in use")
    func second() throws {
        let store = try file.open()
        let other = try Scratch()
        #expect(throws: StoreOpenError.locked(path: file.journalPath)) {
            try RegistryStore(path: other.file(), creating: true, witness: file.settings(acceptsLostStore: true))
        }
        #expect(store.isAvailable)
    }

    @Test("while the journal is unwritable revocations hold; reported once, written later")
    func unwritable() throws {
        let settings = file.settings()
        let store = try RegistryStore(path: file.scratch.file(), creating: true, witness: settings)
        let ids = try store.populate(3)
        let moved = file.aside.path + "-moved"
        // The disk is gone.
        try FileManager.default.moveItem(atPath: file.aside.path, toPath: moved)
        _ = try store.revoke(ids[0], at: 1_200)
        _ = try store.revoke(ids[1], at: 1_300)
        for _ in 0..<5 { try store.tickWitness() }
        #expect(store.commit(1, 1) == .deviceRevoked)
        #expect(!settings.health.isComplete)
        let heard = file.heard()
        #expect(heard.count == 1)
        guard case .cannotWrite? = heard.first else {
            Issue.record("\(heard)")
            return
        }
        try FileManager.default.moveItem(atPath: moved, toPath: file.aside.path)
        for _ in 0..<60 where !settings.health.isComplete { try store.tickWitness() }
        #expect(settings.health.isComplete)
        #expect(file.heard() == [.writesAgain])
        #expect(try file.revocations.revoked == [Fixture.hardwareKey(1): 1_200, Fixture.hardwareKey(2): 1_300])
    }

    @Test("what a process could not write is written from the store by the next one")
    func unwritten() throws {
        var store: RegistryStore? = try file.open()
        let ids = try #require(try store?.populate(2))
        let moved = file.aside.path + "-moved"
        try FileManager.default.moveItem(atPath: file.aside.path, toPath: moved)
        _ = try store?.revoke(ids[0], at: 1_200)
        store = nil
        try FileManager.default.moveItem(atPath: moved, toPath: file.aside.path)
        #expect(try file.revocations.revoked.isEmpty)
        store = try file.open()
        #expect(try file.revocations.revoked == [Fixture.hardwareKey(1): 1_200])
    }

    @Test("the journal does not undo a restoration that could not be written before the end")
    func unwrittenRestoration() throws {
        var store: RegistryStore? = try file.open()
        let ids = try #require(try store?.populate(2))
        _ = try store?.revoke(ids[0], at: 1_200)
        let moved = file.aside.path + "-moved"
        try FileManager.default.moveItem(atPath: file.aside.path, toPath: moved)
        _ = try store?.restore(ids[0], at: 1_300)
        store = nil
        try FileManager.default.moveItem(atPath: moved, toPath: file.aside.path)
        store = try file.open()
        #expect(try file.revocations.revoked.isEmpty)
        #expect(store?.commit(1, 1) == .committed)
    }

    @Test("a journal removed while the process runs is written again")
    func removed() throws {
        let store = try file.open()
        let ids = try store.populate(1)
        _ = try store.revoke(ids[0], at: 1_200)
        try FileManager.default.removeItem(atPath: file.journalPath)
        try store.tickWitness()
        #expect(try file.revocations.revoked == [Fixture.hardwareKey(1): 1_200])
    }

    @Test("journal and mark are readable by their owner alone")
    func modes() throws {
        _ = try make()
        for path in [file.journalPath, file.markPath, file.journalPath + ".lock"] {
            var status = stat()
            #expect(stat(path, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
        }
    }
}
