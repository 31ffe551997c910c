import Foundation
import Glibc
import Testing
import Vocabulary

@testable import Registry

@Suite("A revocation journal that is missing, damaged or cannot be written")
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

    @Test("missing, it is asked for, and nothing is changed; the operator may accept the loss, for a fresh epoch")
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

    @Test("the flag that accepts a loss does nothing where there is none")
    func needless() throws {
        _ = try make()
        let before = try file.open().identity
        #expect(try file.open(acceptsLoss: true).identity == before)
        #expect(file.heard() == [])
    }

    @Test("without its mark nobody knows how far the store was: a fresh epoch, and every revocation again")
    func noMark() throws {
        _ = try make()
        let before = try file.open().identity
        try FileManager.default.removeItem(atPath: file.markPath)
        #expect(try file.open().identity.epoch != before.epoch)
        #expect(file.heard().count == 1)
    }

    @Test("damaged in the midst, it is refused with the line, and accepting a loss does not help")
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

    @Test("a last line that a crash cut short is cut off, and written anew from the store")
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

    @Test("one that is older than the store is brought up to it")
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

    @Test("together with a store that has gone back, it is as good as missing")
    func bothOlder() throws {
        let ids = try make()
        let old = try file.journal()
        try file.keep("copy")
        do { _ = try file.open().revoke(ids[1], at: 1_300) }
        try file.write(old)
        try file.putBack("copy")
        #expect(throws: StoreOpenError.revocationsLost(path: file.journalPath)) { try file.open() }
    }

    @Test("a second process is refused it, while another store is opened with it")
    func second() throws {
        let store = try file.open()
        let other = try Scratch()
        #expect(throws: StoreOpenError.locked(path: file.journalPath)) {
            try RegistryStore(path: other.file(), creating: true, witness: file.settings(acceptsLostStore: true))
        }
        #expect(store.isAvailable)
    }

    @Test("while it cannot be written revocations stand; that is said once, and made up for when it can")
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

    @Test("what could not be written before the process ended is written from the store by the next")
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

    @Test("a restoration that was not written before the process ended is not taken back by the journal")
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

    @Test("one that was taken away under the process is made anew")
    func removed() throws {
        let store = try file.open()
        let ids = try store.populate(1)
        _ = try store.revoke(ids[0], at: 1_200)
        try FileManager.default.removeItem(atPath: file.journalPath)
        try store.tickWitness()
        #expect(try file.revocations.revoked == [Fixture.hardwareKey(1): 1_200])
    }

    @Test("journal and mark are nobody's but their owner's")
    func modes() throws {
        _ = try make()
        for path in [file.journalPath, file.markPath, file.journalPath + ".lock"] {
            var status = stat()
            #expect(stat(path, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
        }
    }
}
