internal import Vocabulary

/// How far a store had come when the mark was written, and how much of the journal was durable then.
struct CommitMark: Equatable, Sendable {
    /// Of the marks of one file, the newest has the greatest.
    var number: Int64
    var progress: StoreProgress
    /// As much of the journal as was durable.
    var journal: JournalExtent
    /// The latest time that was seen when it was written, in seconds since 1970-01-01T00:00:00Z: a clock that is before it was set
    /// back.
    var time: Int64

    /// Written in turns into two places, so that one is whole whatever happens to the other. Each lies in a page of its own.
    static let slotSize = 512
    static let slotDistance = 4_096
    var offset: Int { number % 2 == 0 ? 0 : Self.slotDistance }

    private static let format = "attestgate mark 2"
    /// Without the sum of the journal, and without a time.
    private static let earlierFormat = "attestgate mark 1"

    /// One slot.
    var encoded: [UInt8] {
        let body =
            "\(Self.format) \(number) \(Hexadecimal.encode(progress.store.bytes)) \(progress.position) \(progress.standing) "
            + "\(progress.epochNumber) \(progress.inFile) \(journal.length) \(Checksum.text(journal.sum ?? 0)) \(time) "
            + "\(progress.lineage.isEmpty ? "-" : progress.lineage)"
        let text = [UInt8]("\(body) \(Checksum.text(of: body.utf8))\n".utf8)
        return text + [UInt8](repeating: UInt8(ascii: " "), count: max(0, Self.slotSize - text.count))
    }

    /// - Parameter slot: from the beginning of one.
    init?(_ slot: ArraySlice<UInt8>) {
        guard let end = slot.firstIndex(of: UInt8(ascii: "\n")),
            let space = slot[..<end].lastIndex(of: UInt8(ascii: " "))
        else { return nil }
        let body = slot[..<space]
        guard Checksum.text(of: body).utf8.elementsEqual(slot[(space + 1)..<end]) else { return nil }
        var words = body.split(separator: UInt8(ascii: " ")).map { String(decoding: $0, as: UTF8.self) }
        let format = words.prefix(3).joined(separator: " ")
        let isEarlier = format == Self.earlierFormat
        guard isEarlier || format == Self.format, words.count == (isEarlier ? 11 : 13) else { return nil }
        if isEarlier { words.insert(contentsOf: ["0", "0"], at: 10) }
        guard let store = Hexadecimal.decode(words[4]).flatMap(RandomID.init), let number = Int64(words[3]),
            let position = Int64(words[5]), let standing = Int64(words[6]), let epochNumber = Int64(words[7]),
            let inFile = Int64(words[8]), let journalLength = Int(words[9]), let sum = UInt32(words[10], radix: 16),
            let time = Int64(words[11]), number >= 0, journalLength >= 0
        else { return nil }
        self.init(
            number: number,
            progress: StoreProgress(
                store: store, lineage: words[12] == "-" ? "" : words[12], position: position, standing: standing,
                epochNumber: epochNumber, inFile: inFile),
            journal: JournalExtent(length: journalLength, sum: isEarlier ? nil : sum), time: time)
    }

    init(number: Int64, progress: StoreProgress, journal: JournalExtent, time: Int64) {
        self.number = number
        self.progress = progress
        self.journal = journal
        self.time = time
    }

    /// The newest that is whole. - Parameter file: its content, however much of it there is.
    static func newest(_ file: [UInt8]) -> CommitMark? {
        [0, slotDistance].compactMap { offset in
            offset < file.count ? CommitMark(file[offset..<min(file.count, offset + slotSize)]) : nil
        }.max { $0.number < $1.number }
    }
}
