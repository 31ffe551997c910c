import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite
@testable import RevocationJournal

/// A line is synced before its revocation is answered, and the mark written after that; a journal that takes the place of another is synced
/// before it gets its name, and the mark has forgotten the other one by then. These are the files that a cut can leave.
@Suite("A power cut while the witness writes")
struct WitnessCutTests {
    private let file: WitnessedFile

    init() throws {
        file = try WitnessedFile()
    }

    private func bytes(_ path: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: URL(filePath: path))) }
    private func write(_ bytes: [UInt8], _ path: String) throws { try Data(bytes).write(to: URL(filePath: path)) }

    /// What lay there before and after the second of two revocations, which the kept store both lacks.
    private struct History {
        let journals: (before: [UInt8], after: [UInt8])
        let marks: (before: [UInt8], after: [UInt8])
    }

    private func makeHistory() throws -> History {
        var store: RegistryStore? = try file.open()
        let ids = try #require(try store?.populate(3))
        try file.keep("copy")
        _ = try store?.revoke(ids[0], at: 1_100)
        let before = (try file.journal(), try bytes(file.markPath))
        _ = try store?.revoke(ids[1], at: 1_200)
        let after = (try file.journal(), try bytes(file.markPath))
        store = nil
        #expect(after.0.starts(with: before.0))
        return History(journals: (before.0, after.0), marks: (before.1, after.1))
    }

    private func open(_ journal: [UInt8], _ mark: [UInt8]) throws -> RegistryStore {
        try file.putBack("copy")
        try file.write(journal)
        try write(mark, file.markPath)
        return try file.open()
    }

    @Test("a line cut at any byte: acknowledged revocations stay")
    func append() throws {
        let history = try makeHistory()
        let (before, after) = history.journals
        for length in before.count...after.count {
            // What follows has not reached the disk, or something else has.
            for rest in [[], [UInt8](repeating: 0, count: after.count - length)] {
                let store = try open(Array(after[..<length]) + rest, history.marks.before)
                #expect(store.commit(1, 1) == .deviceRevoked, "\(length) octets")
                if length == after.count { #expect(store.commit(2, 1) == .deviceRevoked) }
                #expect(store.commit(3, 1) == .committed)
            }
        }
        // Once it was acknowledged the mark may be the newer one, and the line is whole.
        let store = try open(after, history.marks.after)
        #expect(store.commit(2, 1) == .deviceRevoked)
    }

    @Test("a mark cut at any byte counts as the previous mark")
    func mark() throws {
        let history = try makeHistory()
        let (before, after) = history.marks
        let changed = before.indices.filter { before[$0] != after[$0] }
        for count in stride(from: 0, through: changed.count, by: 7) {
            var torn = before
            for index in changed.prefix(count) { torn[index] = after[index] }
            let store = try open(history.journals.after, torn)
            #expect(store.commit(1, 1) == .deviceRevoked, "\(count) octets")
            #expect(store.commit(2, 1) == .deviceRevoked, "\(count) octets")
        }
    }

    @Test("a journal cut while rewritten is the old or the new one, and both match the mark")
    func remade() throws {
        let history = try makeHistory()
        let mark = try #require(CommitMark.newest(history.marks.before))
        try write(history.marks.before, file.markPath)
        do {
            var marks = try MarkFile(file.markPath)
            let header = JournalText.header.utf8
            try marks.write(
                mark.progress, journal: JournalExtent(length: header.count, sum: Checksum.of(header)), at: mark.time,
                isSynced: false)
        }
        let forgetful = try bytes(file.markPath)
        // Both lines, the other way round, as memory has them in no order.
        var rewritten = JournalText.header
        rewritten += JournalText.line(.revoked(Fixture.hardwareKey(2), at: 1_200), number: 2)
        rewritten += JournalText.line(.revoked(Fixture.hardwareKey(1), at: 1_100), number: 3)
        for length in stride(from: 0, through: rewritten.utf8.count, by: 11) {
            try write(Array(rewritten.utf8.prefix(length)), file.journalPath + ".new")
            let store = try open(history.journals.before, forgetful)
            #expect(store.commit(1, 1) == .deviceRevoked)
        }
        let store = try open(Array(rewritten.utf8), forgetful)
        #expect(store.commit(1, 1) == .deviceRevoked)
        #expect(store.commit(2, 1) == .deviceRevoked)
    }
}
