import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite
@testable import RevocationJournal

@Suite("An exchanged revocation journal")
struct ExchangedJournalTests {
    private let file: WitnessedFile

    init() throws {
        file = try WitnessedFile()
    }

    /// What is written in its place.
    enum Instead: String, CaseIterable {
        case asLong, longer, shorter
    }

    /// Well formed, but without what the previous one said.
    private func exchange(_ instead: Instead) throws {
        let length = try file.journal().count
        var text = JournalText.header
        var number = 1
        while text.utf8.count < length {
            number += 1
            text += JournalText.line(.ended(Fixture.bindingKey(100 + number), at: 1_100), number: number)
        }
        #expect(text.utf8.count == length)
        number += 1
        switch instead {
        case .asLong: break
        case .longer: text += JournalText.line(.ended(Fixture.bindingKey(100 + number), at: 1_100), number: number)
        case .shorter: text = JournalText.header
        }
        try file.write([UInt8](text.utf8))
    }

    /// Revokes two devices, keeping a copy of the store from before the second.
    private func makeHistory() throws {
        var store: RegistryStore? = try file.open()
        try store?.populate(3)
        // Of the length of what stands in its place.
        _ = try store?.endBinding(Fixture.bindingKey(1), at: 1_100)
        try file.keep("copy")
        _ = try store?.endBinding(Fixture.bindingKey(2), at: 1_200)
        store = nil
        #expect(file.heard() == [])
    }

    @Test(
        "an exchanged journal beside a rolled-back store is refused, whatever its length", arguments: Instead.allCases)
    func refused(_ instead: Instead) throws {
        try makeHistory()
        try exchange(instead)
        try file.putBack("copy")
        #expect(throws: StoreOpenError.revocationsLost(path: file.journalPath)) { try file.open() }
        let store = try file.open(acceptsLoss: true)
        #expect(store.commit(1, 1) == .bindingEnded)
    }

    @Test(
        "an exchanged journal beside an unchanged store is reported and completed from the store",
        arguments: Instead.allCases)
    func completed(_ instead: Instead) throws {
        try makeHistory()
        try exchange(instead)
        var store: RegistryStore? = try file.open()
        let heard = file.heard()
        if instead == .shorter {
            #expect(heard == [.journalExchanged(path: file.journalPath)])
        } else {
            // It says what the store does not: nobody knows who is right.
            let reason = WitnessFinding.RollbackEvidence.otherRows.rawValue
            #expect(heard == [.wentBack(reason: reason, isEpochFresh: true)])
        }
        #expect(store?.commit(1, 1) == .bindingEnded)
        store = nil
        #expect(try Set(file.revocations.ended.keys).isSuperset(of: [Fixture.bindingKey(1), Fixture.bindingKey(2)]))
        _ = try file.open()
        #expect(file.heard() == [])
    }

    @Test("a journal written again while the store runs is not an exchanged one")
    func remade() throws {
        var store: RegistryStore? = try file.open()
        try store?.populate(2)
        _ = try store?.endBinding(Fixture.bindingKey(1), at: 1_100)
        try file.keep("copy")
        try FileManager.default.removeItem(atPath: file.journalPath)
        let mark = try Data(contentsOf: URL(filePath: file.markPath))
        _ = try store?.endBinding(Fixture.bindingKey(2), at: 1_200)
        let bytes = try file.journal()
        #expect(try file.mark()?.journal == JournalExtent(length: bytes.count, sum: Checksum.of(bytes)))
        #expect(try Data(contentsOf: URL(filePath: file.markPath)) != mark)
        store = nil
        _ = try file.open()
        #expect(file.heard() == [])
    }
}
