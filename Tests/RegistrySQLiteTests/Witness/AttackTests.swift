import Chance
import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite
@testable import RevocationJournal

@Suite("Attacks on a store with a witness")
struct AttackTests {
    private let file: WitnessedFile

    init() throws {
        file = try WitnessedFile()
    }

    @Test("an admission token used since the copy admits nobody again")
    func token() throws {
        let now = Int64(Date().timeIntervalSince1970)
        let token = SingleUse(id: Fixture.token(1).id, expiresAt: now + 1_800)
        var store: RegistryStore? = try file.open()
        try store?.populate(2)
        try file.keep("copy")
        let first = try #require(
            store?.keyBinding(1, key: 11, nonce: 1, counter: 1, admission: .token(token, subject: Fixture.subject(1))))
        #expect(try store?.bindKey(first.expiring(now), at: now).kind == .rotation)
        store = nil
        try file.putBack("copy")
        store = try file.open()
        let again = try #require(
            store?.keyBinding(2, key: 12, nonce: 2, counter: 1, admission: .token(token, subject: Fixture.subject(1))))
        #expect(try store?.bindKey(again.expiring(now), at: now).refusal != nil)
    }

    @Test("a mark without its journal refuses a new store")
    func markAlone() throws {
        var store: RegistryStore? = try file.open()
        try store?.populate(1)
        _ = try store?.revoke(try #require(DeviceID(1)), at: 1_100)
        store = nil
        try FileManager.default.removeItem(atPath: file.journalPath)
        for suffix in ["", "-wal"] { try? FileManager.default.removeItem(atPath: file.scratch.file() + suffix) }
        #expect(throws: StoreOpenError.storeLost(path: file.scratch.file(), witness: file.journalPath)) {
            try file.open()
        }
        #expect(throws: StoreOpenError.revocationsLost(path: file.journalPath)) {
            try RegistryStore(
                path: file.scratch.file(), creating: true, witness: file.settings(acceptsLostStore: true))
        }
    }

    @Test("a journal truncated anywhere beside a rolled-back store is refused or keeps devices revoked")
    func truncated() throws {
        var store: RegistryStore? = try file.open()
        let ids = try #require(try store?.populate(3))
        _ = try store?.revoke(ids[0], at: 1_100)
        try file.keep("copy")
        _ = try store?.revoke(ids[1], at: 1_200)
        store = nil
        let journal = try file.journal()
        let mark = try Data(contentsOf: URL(filePath: file.markPath))
        for length in 0..<journal.count {
            try file.putBack("copy")
            try file.write(Array(journal[..<length]))
            try mark.write(to: URL(filePath: file.markPath))
            #expect(throws: (any Error).self, "length \(length)") { try file.open() }
        }
        let seed = RunSeed.tell()
        var chance = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            var flipped = journal
            flipped[Int.random(in: 0..<journal.count, using: &chance)] ^= 1 << Int.random(in: 0..<8, using: &chance)
            try file.putBack("copy")
            try file.write(flipped)
            try mark.write(to: URL(filePath: file.markPath))
            #expect(throws: (any Error).self, "\(String(decoding: flipped, as: UTF8.self))") { try file.open() }
        }
        // Any damage of the mark, the registry put back: revoked, for the journal is whole.
        for round in 0..<60 {
            var torn = [UInt8](mark)
            if round < 30 {
                for _ in 0..<3 {
                    torn[Int.random(in: 0..<torn.count, using: &chance)] ^= 1 << Int.random(in: 0..<8, using: &chance)
                }
                torn[Int.random(in: 17..<100, using: &chance)] ^= 1
                torn[4_096 + Int.random(in: 17..<100, using: &chance)] ^= 1
            } else {
                torn = Array(torn[..<Int.random(in: 0..<torn.count, using: &chance)])
            }
            try file.putBack("copy")
            try file.write(journal)
            try Data(torn).write(to: URL(filePath: file.markPath))
            store = try? file.open()
            if let store { #expect(store.commit(2, 1) == .deviceRevoked, "round \(round)") }
            store = nil
        }
    }

    @Test(
        "a symbolic link in place of the store, log or witness is refused and not followed"
    )
    func links() throws {
        for place in places() {
            let file = try WitnessedFile()
            _ = try file.open()
            let path = place(file)
            try? FileManager.default.moveItem(atPath: path, toPath: path + ".moved")
            if !FileManager.default.fileExists(atPath: path + ".moved") {
                try Data().write(to: URL(filePath: path + ".moved"))
            }
            #expect(symlink(path + ".moved", path) == 0)
            #expect(throws: StoreOpenError.failed(path: path, detail: Self.notOrdinary)) { try file.open() }
        }
    }

    @Test("a pipe in place of these files is refused without waiting for a writer")
    func pipes() throws {
        for place in places() {
            let file = try WitnessedFile()
            _ = try file.open()
            let path = place(file)
            try? FileManager.default.removeItem(atPath: path)
            #expect(mkfifo(path, 0o600) == 0)
            #expect(throws: StoreOpenError.failed(path: path, detail: Self.notOrdinary)) { try file.open() }
        }
    }

    private static let notOrdinary = "not a regular file but, for example, a link or a pipe: name the file itself"

    private func places() -> [(WitnessedFile) -> String] {
        [{ $0.scratch.file() }, { $0.scratch.file() + "-wal" }, { $0.journalPath }, { $0.markPath }]
    }
}

extension BindingRequest {
    func expiring(_ now: Int64) -> BindingRequest {
        BindingRequest(
            hardwareKey: hardwareKey, key: key, nonce: SingleUse(id: nonce.id, expiresAt: now + 1_000), epoch: epoch,
            counter: counter, shown: shown, mode: mode, admission: admission, overlap: overlap, serial: serial,
            notAfter: now + 50_000)
    }
}
