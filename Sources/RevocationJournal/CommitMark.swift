internal import Encoding
internal import Glibc
package import Registry
internal import Vocabulary

/// The progress of a store at the time of the mark, and the durable extent of the journal.
struct CommitMark: Equatable, Sendable {
    /// The number of the mark. The newest mark of a file has the greatest number.
    var number: Int64
    var progress: StoreProgress
    /// The durable part of the journal.
    var journal: JournalExtent
    /// The latest time that was seen when the mark was written, in seconds since 1970-01-01T00:00:00Z. A clock before
    /// it was set back.
    var time: Int64

    /// The size of a slot. Marks are written alternately into two slots, each in its own page, so that one of them is
    /// always intact.
    static let slotSize = 512
    static let slotDistance = 4_096
    var offset: Int { number % 2 == 0 ? 0 : Self.slotDistance }

    private static let format = "attestgate mark 2"
    /// The format without the checksum of the journal and without the time.
    private static let earlierFormat = "attestgate mark 1"

    /// The content of a slot.
    var encoded: [UInt8] {
        let body =
            "\(Self.format) \(number) \(Hexadecimal.encode(progress.store.bytes)) \(progress.position) \(progress.standing) "
            + "\(progress.epochNumber) \(progress.inFile) \(journal.length) \(Checksum.text(journal.sum ?? 0)) \(time) "
            + "\(progress.lineage.isEmpty ? "-" : progress.lineage)"
        let text = [UInt8]("\(body) \(Checksum.text(of: body.utf8))\n".utf8)
        return text + [UInt8](repeating: UInt8(ascii: " "), count: max(0, Self.slotSize - text.count))
    }

    /// Parses a mark.
    ///
    /// - Parameter slot: The bytes from the start of a slot.
    /// - Returns: nil if the slot is damaged.
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

    /// Returns the newest intact mark.
    ///
    /// - Parameter file: The content of the file, which may be incomplete.
    static func newest(_ file: [UInt8]) -> CommitMark? {
        [0, slotDistance].compactMap { offset in
            offset < file.count ? CommitMark(file[offset..<min(file.count, offset + slotSize)]) : nil
        }.max { $0.number < $1.number }
    }
}

/// The progress of a store. A restored copy has less progress than the mark.
package struct StoreProgress: Equatable, Sendable {
    package let store: RandomID
    /// The history that the position belongs to. Positions of different histories cannot be compared. Empty for a file,
    /// which has only one.
    package let lineage: String
    /// The position, which grows with each write.
    package let position: Int64
    /// The standing, which grows with each change of the validity of devices and bindings.
    package var standing: Int64
    /// The number of the epoch.
    package let epochNumber: Int64
    /// The position in the file without its log, since the log was last checkpointed. It is -1 if it is unknown or
    /// there is no log.
    package var inFile: Int64 = -1

    package init(
        store: RandomID, lineage: String, position: Int64, standing: Int64, epochNumber: Int64, inFile: Int64 = -1
    ) {
        self.store = store
        self.lineage = lineage
        self.position = position
        self.standing = standing
        self.epochNumber = epochNumber
        self.inFile = inFile
    }
}

/// The durable extent of a journal. The checksum identifies the journal, because a longer journal that was rewritten
/// has another beginning.
struct JournalExtent: Equatable, Sendable {
    /// The length in bytes.
    var length = 0
    /// The CRC-32 of these bytes. Nil in marks of the earlier format.
    var sum: UInt32? = 0

    /// Adds bytes at the cost of the added bytes only.
    mutating func append(_ bytes: some Collection<UInt8>) {
        length += bytes.count
        sum = sum.map { Checksum.of(bytes, behind: $0) }
    }

    /// Returns whether a journal begins with this extent.
    ///
    /// - Parameter bytes: The undamaged part of the journal.
    fileprivate func isBeginning(of bytes: ArraySlice<UInt8>) -> Bool {
        length <= bytes.count && sum.map { $0 == Checksum.of(bytes.prefix(length)) } ?? true
    }
}

/// The relation between the journal and its mark.
enum JournalCondition {
    /// There is no journal.
    case missing
    /// The journal lacks lines that were durable when the mark was written, or is another journal, or has no mark.
    case other
    case asMarked
    /// Lines were appended after the mark.
    case longer

    /// Compares a journal with its mark.
    ///
    /// - Parameter mark: The mark. Nil if none is intact.
    init(_ bytes: ArraySlice<UInt8>, _ mark: CommitMark?) {
        guard let mark, mark.journal.isBeginning(of: bytes) else {
            self = .other
            return
        }
        self = bytes.count == mark.journal.length ? .asMarked : .longer
    }
}

/// The file of the commit mark, with two slots that are written alternately.
struct MarkFile: ~Copyable {
    private let path: String
    private var descriptor: Int32 = -1
    private var identity: StoreFile.Identity?
    /// The mark that was last written or found.
    private(set) var mark: CommitMark?

    init(_ path: String) throws(WitnessFault) {
        self.path = path
        mark = try JournalFile.read(path).flatMap(CommitMark.newest)
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Writes a mark.
    ///
    /// - Parameter isSynced: Whether the mark is durable when this returns. An unsynced mark survives a killed process.
    ///   After a power failure an older mark may remain, which detects less but is never wrong.
    mutating func write(
        _ progress: StoreProgress, journal: JournalExtent, at time: Int64, isSynced: Bool
    ) throws(WitnessFault) {
        let isMade = try openFile()
        let next = CommitMark(
            number: (mark?.number ?? 0) + 1, progress: progress, journal: journal,
            time: max(mark?.time ?? 0, time))
        let bytes = next.encoded
        // The pointer is valid until the call returns.
        let count = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(next.offset)) }
        guard count == bytes.count else { throw .last("write \(path)") }
        if isSynced || isMade { guard fsync(descriptor) == 0 else { throw .last("sync \(path)") } }
        if isMade { try JournalFile.syncDirectory(of: path) }
        mark = next
    }

    /// Opens the file if necessary.
    ///
    /// - Returns: Whether the file was created.
    private mutating func openFile() throws(WitnessFault) -> Bool {
        if descriptor >= 0 {
            if StoreFile.identity(of: path) == identity { return false }
            close(descriptor)
        }
        let isThere = access(path, F_OK) == 0
        descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .last("open \(path)") }
        identity = StoreFile.identity(of: path)
        return !isThere
    }
}
