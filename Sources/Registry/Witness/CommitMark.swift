internal import Glibc
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

/// How far a store has come: what a copy of it that is put back cannot say as well.
struct StoreProgress: Equatable, Sendable {
    let store: RandomID
    /// Which history the position is of: numbers of another one say nothing. Empty for a file, which has but one.
    let lineage: String
    /// Grows with whatever is written.
    let position: Int64
    /// Grows with every change of which devices and bindings are good.
    var standing: Int64
    /// Grows with every fresh epoch.
    let epochNumber: Int64
    /// The position that the file alone says, without its log, since all of that was moved into it last; -1 where nobody knows, or
    /// there are no such two.
    var inFile: Int64 = -1
}

/// How much of a journal is durable, and which journal it is: a longer journal that was rewritten does not begin with
/// it.
struct JournalExtent: Equatable, Sendable {
    /// Octets.
    var length = 0
    /// CRC-32 of them; nil in marks that are older than this field.
    var sum: UInt32? = 0

    /// What is appended costs what is appended, not all that was there.
    mutating func append(_ bytes: some Collection<UInt8>) {
        length += bytes.count
        sum = sum.map { Checksum.of(bytes, behind: $0) }
    }

    /// Whether a journal begins with it. - Parameter bytes: of the journal, up to where all is well.
    func isBeginning(of bytes: ArraySlice<UInt8>) -> Bool {
        length <= bytes.count && sum.map { $0 == Checksum.of(bytes.prefix(length)) } ?? true
    }
}

/// How the journal stands to the mark beside it.
enum JournalCondition {
    /// There is none.
    case missing
    /// It lacks something of what was durable when the mark was written, or is another one. Without a mark nobody knows.
    case other
    case asMarked
    /// Lines were appended since.
    case longer

    /// - Parameter mark: nil if there is none that is whole.
    init(_ bytes: ArraySlice<UInt8>, _ mark: CommitMark?) {
        guard let mark, mark.journal.isBeginning(of: bytes) else {
            self = .other
            return
        }
        self = bytes.count == mark.journal.length ? .asMarked : .longer
    }
}

/// The commit mark's file: two places, written in turns.
struct MarkFile: ~Copyable {
    private let path: String
    private var descriptor: Int32 = -1
    private var identity: StoreFile.Identity?
    /// The last that was written, or found.
    private(set) var mark: CommitMark?

    init(_ path: String) throws(WitnessFault) {
        self.path = path
        mark = try JournalFile.read(path).flatMap(CommitMark.newest)
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// - Parameter isSynced: whether it is to be durable when this returns. Otherwise it is as the kernel likes: a process that is
    ///   killed loses nothing, and after a power cut it is an older one, which notices less and never too much.
    mutating func write(
        _ progress: StoreProgress, journal: JournalExtent, at time: Int64, isSynced: Bool
    ) throws(WitnessFault) {
        let isMade = try openFile()
        let next = CommitMark(
            number: (mark?.number ?? 0) + 1, progress: progress, journal: journal,
            time: max(mark?.time ?? 0, time))
        let bytes = next.encoded
        // The bytes stay where they are until the call has returned.
        let count = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(next.offset)) }
        guard count == bytes.count else { throw .last("write \(path)") }
        if isSynced || isMade { guard fsync(descriptor) == 0 else { throw .last("sync \(path)") } }
        if isMade { try JournalFile.syncDirectory(of: path) }
        mark = next
    }

    /// - Returns: whether it was made.
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
