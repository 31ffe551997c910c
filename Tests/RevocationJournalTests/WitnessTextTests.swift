import Encoding
import RegistryMemory
import Testing
import Vocabulary

@testable import Registry
@testable import RevocationJournal

@Suite("Journal lines and the commit mark")
struct WitnessTextTests {
    private static let entries: [WitnessEntry] = [
        .revoked(Fixture.hardwareKey(1), at: 1_000), .ended(Fixture.bindingKey(1), at: 2_000),
        .barred(Fixture.subject(1), at: 3_000), .revoked(Fixture.hardwareKey(2), at: 1_001),
        .restored(Fixture.hardwareKey(1), at: 4_000), .ended(Fixture.bindingKey(1), at: 1_500),
    ]

    private static var file: [UInt8] {
        var text = JournalText.header
        for (index, entry) in entries.enumerated() { text += JournalText.line(entry, number: index + 2) }
        return [UInt8](text.utf8)
    }

    private func read(_ bytes: [UInt8], marked: Int? = nil) throws -> JournalText.Content {
        try JournalText.read(bytes, marked: marked)
    }

    @Test("written lines are read: the last line of each key counts, and the earliest end")
    func whole() throws {
        let content = try read(Self.file)
        #expect(content.lines == 7)
        #expect(content.length == Self.file.count)
        #expect(content.revocations.revoked == [Fixture.hardwareKey(2): 1_001])
        #expect(content.revocations.ended == [Fixture.bindingKey(1): 1_500])
        #expect(content.revocations.barred == [Fixture.subject(1): 3_000])
    }

    @Test("a line is a word, 64 digits, a time and a CRC-32 over its number and these")
    func form() {
        // zlib.crc32(b"123456789"), the check value of the CRC's definition.
        #expect(Checksum.text(of: "123456789".utf8) == "cbf43926")
        let body = "revoked \(Fixture.hardwareKey(1)) 1000"
        #expect(
            JournalText.line(Self.entries[0], number: 2) == "\(body) \(Checksum.text(of: "2 \(body)".utf8))\n")
    }

    @Test("a truncated journal is read up to its last complete line")
    func torn() throws {
        for length in JournalText.header.utf8.count..<Self.file.count {
            let content = try read(Array(Self.file[..<length]))
            #expect(content.length <= length)
            #expect(content.length > length - 100)
            let rest = Array(Self.file[..<length]) + [0, 0, 0]
            #expect(try read(rest).length == content.length)
        }
    }

    @Test("damage to any byte in the middle is refused with its line")
    func damaged() throws {
        var line = 1
        for index in Self.file.indices.dropLast(120) {
            var bytes = Self.file
            bytes[index] ^= 0x01
            let isEnd = Self.file[index] == UInt8(ascii: "\n")
            // Without a mark a line that has run into the next is no line, and all behind have other numbers.
            if !isEnd { #expect(throws: JournalText.Damage.self) { try read(bytes) } }
            let error = #expect(throws: JournalText.Damage.self) { try read(bytes, marked: bytes.count) }
            if line > 1 || index < 23 { #expect(error == .line(line) || error == .newer, "octet \(index)") }
            if isEnd { line += 1 }
        }
    }

    @Test("a removed or repeated line is detected")
    func missing() throws {
        let lines = Self.file.split(separator: UInt8(ascii: "\n")).map { Array($0) + [UInt8(ascii: "\n")] }
        var fewer = lines
        fewer.remove(at: 2)
        // All lines behind have other numbers: none of them is well. With a mark that is no end of an append.
        #expect(throws: JournalText.Damage.line(3)) { try read(Array(fewer.joined()), marked: Self.file.count - 100) }
        var more = lines
        more.insert(lines[2], at: 2)
        #expect(throws: JournalText.Damage.line(4)) { try read(Array(more.joined()), marked: Self.file.count) }
    }

    @Test("damage within the marked length is refused, even in the last line")
    func marked() throws {
        var bytes = Self.file
        bytes[bytes.count - 3] ^= 1
        #expect(try read(bytes, marked: bytes.count - 100).lines == 6)
        #expect(throws: JournalText.Damage.line(7)) { try read(bytes, marked: bytes.count) }
    }

    @Test("a journal of a later version is not reported as damaged")
    func later() throws {
        #expect(throws: JournalText.Damage.newer) { try read([UInt8]("attestgate revocations 2\n".utf8)) }
        #expect(throws: JournalText.Damage.line(1)) { try read([]) }
    }

    // MARK: - The mark

    private func progress(_ position: Int64, lineage: String = "") -> StoreProgress {
        StoreProgress(store: Self.store, lineage: lineage, position: position, standing: 5, epochNumber: 2)
    }

    private static let store = RandomID()

    private func file(_ marks: [CommitMark]) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: CommitMark.slotDistance + CommitMark.slotSize)
        for mark in marks {
            bytes.replaceSubrange(mark.offset..<(mark.offset + mark.encoded.count), with: mark.encoded)
        }
        return bytes
    }

    @Test("the newest mark is read, or the previous one if it was truncated")
    func newest() throws {
        let older = CommitMark(
            number: 6, progress: progress(10, lineage: "7/00000001/9"), journal: JournalExtent(length: 25, sum: 7),
            time: 900)
        let newer = CommitMark(
            number: 7, progress: progress(11), journal: JournalExtent(length: 125, sum: .max), time: 1_000)
        #expect(older.encoded.count == CommitMark.slotSize)
        #expect(CommitMark.newest(file([older, newer])) == newer)
        #expect(CommitMark.newest(file([older])) == older)
        for index in 0..<newer.encoded.count {
            var bytes = file([older, newer])
            bytes[newer.offset + index] ^= 0x10
            let found = CommitMark.newest(bytes)
            #expect(found == older || found == newer && newer.encoded[index] == UInt8(ascii: " "), "octet \(index)")
        }
        #expect(CommitMark.newest([]) == nil)
    }

    // MARK: - What is found

    @Test("a store behind its mark in any value counts as rolled back, and one ahead does not")
    func findings() {
        func finding(
            _ store: StoreProgress, _ journal: JournalCondition = .asMarked, isJournaled: Bool = true
        ) -> WitnessFinding {
            let known = StoreProgress(store: Self.store, lineage: "a", position: 10, standing: 5, epochNumber: 2)
            let mark = CommitMark(number: 1, progress: known, journal: JournalExtent(length: 100, sum: 0), time: 0)
            return WitnessFinding(
                store, isJournaled: isJournaled, journal: journal, mark: mark, mayJoin: false, lacks: { false })
        }
        func store(
            _ position: Int64, _ standing: Int64, _ epoch: Int64, lineage: String = "a", id: RandomID = Self.store
        ) -> StoreProgress {
            StoreProgress(store: id, lineage: lineage, position: position, standing: standing, epochNumber: epoch)
        }
        #expect(finding(store(10, 5, 2)) == .isGood(isBehind: false, isAhead: false))
        #expect(finding(store(99, 5, 2)) == .isGood(isBehind: false, isAhead: false))
        #expect(finding(store(10, 6, 2)) == .isGood(isBehind: true, isAhead: false))
        #expect(finding(store(10, 5, 3)) == .isGood(isBehind: false, isAhead: false))
        #expect(finding(store(9, 5, 2)) == .wentBack(.olderPosition, needsEpoch: true))
        #expect(finding(store(10, 4, 2)) == .wentBack(.olderStanding, needsEpoch: true))
        #expect(finding(store(99, 9, 1)) == .wentBack(.olderEpoch, needsEpoch: true))
        #expect(finding(store(99, 9, 2, lineage: "b")) == .wentBack(.otherLineage, needsEpoch: true))
        #expect(finding(store(99, 9, 2, id: RandomID())) == .wentBack(.otherStore, needsEpoch: true))
        #expect(finding(store(10, 5, 2), .longer) == .isGood(isBehind: false, isAhead: true))
        // Another gateway came first, and drew one for the same move; of another store that says nothing.
        #expect(finding(store(9, 5, 3)) == .wentBack(.olderPosition, needsEpoch: false))
        #expect(finding(store(99, 9, 3, id: RandomID())) == .wentBack(.otherStore, needsEpoch: true))
        // The journal went back, or is another one: alone it is made whole from the store, together with the store nobody knows.
        #expect(finding(store(10, 5, 2), .other) == .isGood(isBehind: true, isAhead: false))
        #expect(finding(store(9, 5, 2), .other) == .isLost)
        #expect(finding(store(10, 5, 2), .missing) == .isLost)
        #expect(finding(store(10, 5, 2), .missing, isJournaled: false) == .isLost)
    }

    @Test("journal and mark are compared by length and checksum, in version 1 by length alone")
    func standings() throws {
        func standing(_ bytes: [UInt8], of marked: [UInt8], hasSum: Bool = true) -> JournalCondition {
            var extent = JournalExtent()
            // As it grows, piece by piece.
            extent.append(marked.prefix(40))
            extent.append(marked.dropFirst(40))
            #expect(extent.sum == Checksum.of(marked))
            if !hasSum { extent.sum = nil }
            return JournalCondition(
                bytes[...], CommitMark(number: 1, progress: progress(1), journal: extent, time: 0))
        }
        let file = Self.file
        #expect(standing(file, of: file) == .asMarked)
        #expect(standing(file + file, of: file) == .longer)
        #expect(standing(Array(file.dropLast(100)), of: file) == .other)
        for index in [0, 30, file.count - 1] {
            var other = file
            other[index] ^= 1
            #expect(standing(other, of: file) == .other)
            #expect(standing(other + file, of: file) == .other)
            #expect(standing(other, of: file, hasSum: false) == .asMarked)
        }
        #expect(standing(file, of: []) == .longer)
        #expect(JournalCondition(file[...], nil) == .other)
    }

    @Test("a version 1 mark is read without the later fields")
    func firstMark() throws {
        let body = "attestgate mark 1 6 \(Hexadecimal.encode(Self.store.bytes)) 10 5 2 9 125 -"
        let mark = try #require(CommitMark([UInt8]("\(body) \(Checksum.text(of: body.utf8))\n   ".utf8)[...]))
        #expect(mark.progress.position == 10 && mark.progress.inFile == 9 && mark.progress.lineage.isEmpty)
        #expect(mark.journal == JournalExtent(length: 125, sum: nil))
        #expect(mark.time == 0)
    }

    private func said(by entries: [WitnessEntry]) throws -> Revocations {
        try StoreRevocations().all(of: SayingStore(entries))
    }

    @Test("a store lacks an entry that it does not have or has with a later time")
    func lacking() throws {
        var journal = Revocations()
        journal.apply(.revoked(Fixture.hardwareKey(1), at: 10))
        journal.apply(.ended(Fixture.bindingKey(1), at: 20))
        let whole: [WitnessEntry] = [
            .revoked(Fixture.hardwareKey(1), at: 11), .ended(Fixture.bindingKey(1), at: 20),
            .ended(Fixture.bindingKey(2), at: 5), .barred(Fixture.subject(1), at: 5),
        ]
        #expect(try !journal.saysMore(than: said(by: whole)))
        #expect(try journal.saysMore(than: said(by: Array(whole.dropFirst()))))
        #expect(try journal.saysMore(than: said(by: [whole[0], .ended(Fixture.bindingKey(1), at: 21)])))
        #expect(try !Revocations().saysMore(than: said(by: [])))
    }
}

private final class SayingStore: WitnessedStore {
    private let entries: [WitnessEntry]

    init(_ entries: [WitnessEntry]) {
        self.entries = entries
    }

    func eachRevocation(_ body: ([WitnessEntry]) -> Void) throws { body(entries) }
    func replay(_ entries: [WitnessEntry], at time: Int64) throws {}
    func standing() throws -> Int64 { 0 }
    func becomeJournaled() throws {}
}
