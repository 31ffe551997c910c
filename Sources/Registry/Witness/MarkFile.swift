internal import Glibc

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
