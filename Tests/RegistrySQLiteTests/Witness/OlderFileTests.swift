import Chance
import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite
@testable import RevocationJournal

@Suite("An older store file under a newer log")
struct OlderFileTests {
    private let file: WitnessedFile

    init() throws {
        file = try WitnessedFile()
    }

    /// When the file was copied that is put back without a log.
    enum Copy: String, CaseIterable {
        case closed, running, beforeAnotherKill
    }

    private func bytes(_ name: String) throws -> Data { try Data(contentsOf: URL(filePath: name)) }

    /// Leaves the files as they are now, as a process does that is killed.
    private func kill(_ store: inout RegistryStore?, _ name: String) throws {
        try store?.tickWitness()
        try file.keep(name)
        store = nil
        try file.putBack(name)
    }

    @Test(
        "an older file under a newer log is refused unchanged; alone it counts as rolled back", arguments: Copy.allCases
    )
    func refused(_ copy: Copy) throws {
        var store: RegistryStore? = try file.open()
        let ids = try #require(try store?.populate(3))
        if copy == .closed { store = nil } else { try store?.checkpoint() }
        try file.keep("copy", withLog: false)
        if copy == .closed { store = try file.open() }
        #expect(store?.commit(1, 1) == .committed)
        let spent = try #require(store?.entry(1, 1))
        _ = try store?.revoke(ids[1], at: 1_200)
        if copy == .beforeAnotherKill {
            try kill(&store, "first")
            store = try file.open()
        } else {
            while try store?.fold() == true {}
            try store?.checkpoint()
        }
        // Behind what was moved into the file: it is what the log begins with.
        #expect(store?.commit(3, 1) == .committed)
        try kill(&store, "killed")
        #expect(file.heard() == [])
        try bytes(file.scratch.file("copy")).write(to: URL(filePath: file.scratch.file()))
        let log = try bytes(file.scratch.file() + "-wal")
        for _ in 0..<2 {
            #expect(throws: StoreOpenError.olderThanLog(path: file.scratch.file())) { try file.open() }
            #expect(try bytes(file.scratch.file()) == bytes(file.scratch.file("copy")))
            #expect(try bytes(file.scratch.file() + "-wal") == log)
        }
        try FileManager.default.removeItem(atPath: file.scratch.file() + "-wal")
        store = try file.open()
        #expect(file.heard().count == 1)
        #expect(store?.commit([spent]) == [.epochChanged])
        #expect(try store?.show(.id(ids[1])).device.state == .revoked)
        let left = try FileManager.default.contentsOfDirectory(atPath: file.scratch.path)
        #expect(left.filter { $0.contains(".look") } == [])
    }

    @Test(
        "a process killed within a checkpoint is opened again with all its data")
    func checkpoint() throws {
        let seed = RunSeed.tell()
        var chance = SeededGenerator(seed: seed)
        var store: RegistryStore? = try file.open()
        try store?.populate(60)
        try store?.checkpoint()
        for device in 1...60 { #expect(store?.commit(device, 1) == .committed) }
        while try store?.fold() == true {}
        for device in 1...60 { #expect(store?.commit(device, 2) == .committed) }
        try store?.tickWitness()
        try file.keep("before")
        let mark = try bytes(file.markPath)
        try store?.checkpoint()
        try file.keep("after")
        store = nil
        let (before, after) = (try bytes(file.scratch.file("before")), try bytes(file.scratch.file("after")))
        for round in 0..<20 {
            var mixed = before + Data(count: max(0, after.count - before.count))
            for page in stride(from: 0, to: after.count, by: 4_096) where Bool.random(using: &chance) {
                mixed.replaceSubrange(page..<page + 4_096, with: after[page..<page + 4_096])
            }
            try file.putBack("after")
            try mixed.write(to: URL(filePath: file.scratch.file()))
            try mark.write(to: URL(filePath: file.markPath))
            store = try file.open()
            #expect(file.heard() == [], "seed \(seed), round \(round)")
            #expect(store?.commit(Int.random(in: 1...60, using: &chance), 2) == .replayed)
            store = nil
        }
    }
}
