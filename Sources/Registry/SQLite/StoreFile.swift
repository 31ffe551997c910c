internal import GRDB
internal import GRDBSQLite
internal import Glibc
internal import Vocabulary

/// The database file, and its log, before SQLite sees them.
enum StoreFile {
    /// Whether there is no file, or nothing in it. False if that is unknown.
    static func isEmpty(_ path: String) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return errno == ENOENT }
        return status.st_size == 0
    }

    /// Refuses links, pipes and the like, where there is anything. Behind a link SQLite would have its log beside the
    /// link's target, where nobody looks at it; a pipe would block the process that opens it for ever.
    static func requireOrdinary(_ paths: String...) throws(StoreOpenError) {
        for path in paths {
            var status = stat()
            // Opening the file reports any other fault.
            guard lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG else { continue }
            throw .failed(
                path: path, detail: "not a regular file but, for example, a link or a pipe: name the file itself")
        }
    }

    /// Creates the file, readable by its owner alone, or finds that it is there. SQLite gives its log the same mode.
    static func prepare(_ path: String, creating: Bool) throws(StoreOpenError) {
        guard creating else {
            guard access(path, F_OK) == 0 else { throw errno == ENOENT ? .missing(path: path) : failure(path, "find") }
            return
        }
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor < 0 {
            if errno == EEXIST { return }
            throw failure(path, "create")
        }
        close(descriptor)
        try syncDirectory(of: path)
    }

    /// Makes what the log seems to hold what it does hold, before anything is built on it: a copy takes its place.
    ///
    /// After a sync that failed, the kernel reads back what never reached the disk, and has its next sync succeed
    /// without writing it. Commits behind such a gap would be lost with it in a power cut, and so would what was moved
    /// into the database from there. A process that opens a log cannot know whether that has happened to an earlier
    /// one.
    static func replaceLog(of path: String) throws(StoreOpenError) {
        let log = path + "-wal"
        let copy = log + ".copy"
        let source = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard source >= 0 else {
            if errno == ENOENT { return }
            throw failure(path, "read the log of")
        }
        defer { close(source) }
        // Of a process that was killed while it copied.
        unlink(copy)
        let target = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard target >= 0 else { throw failure(path, "copy the log of") }
        let isCopied = copyAll(from: source, to: target) && fdatasync(target) == 0 && rename(copy, log) == 0
        let reason = errno
        close(target)
        guard isCopied else {
            unlink(copy)
            errno = reason
            throw failure(path, "copy the log of")
        }
        try syncDirectory(of: path)
    }

    /// For a look at it. - Precondition: nothing has the other name.
    static func copy(_ path: String, to copy: String) throws(StoreOpenError) {
        let source = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard source >= 0 else { throw failure(path, "read") }
        defer { close(source) }
        let target = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard target >= 0 else { throw failure(copy, "make") }
        defer { close(target) }
        guard copyAll(from: source, to: target) else { throw failure(copy, "write") }
    }

    private static func copyAll(from source: Int32, to target: Int32) -> Bool {
        while true {
            // In the kernel; at most 2 GiB at a time (sendfile(2)).
            let count = sendfile(target, source, nil, 1 << 30)
            if count == 0 { return true }
            if count < 0, errno != EINTR { return false }
        }
    }

    /// Which file has the name now; nil if none has. Names can be given to other files while one is open.
    static func identity(of path: String) -> Identity? {
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        return Identity(device: UInt64(status.st_dev), node: UInt64(status.st_ino))
    }

    struct Identity: Equatable {
        let device: UInt64
        let node: UInt64
    }

    /// Without this a power cut could take the name of a file whose content was synced.
    static func syncDirectory(of path: String) throws(StoreOpenError) {
        let directory =
            path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path, "open the directory of") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure(path, "sync the directory of") }
    }

    private static func failure(_ path: String, _ doing: String) -> StoreOpenError {
        .failed(path: path, detail: "cannot \(doing) the file: \(String(cString: strerror(errno)))")
    }
}

/// Looks at a write-ahead log for damage, before SQLite does: which takes everything behind it for never written, and forgets it.
///
/// Each commit is synced before the next is begun, and a log that was found is moved into the file before it grows. So a power
/// cut leaves at most one commit that is not whole, at the end. Two or more behind the first frame that does not fit were
/// acknowledged, and are lost. The format is SQLite's (sqlite.org/fileformat2.html, section 4).
struct LogCheck {
    private let descriptor: Int32
    private let isBigEndian: Bool
    private let pageSize: Int
    private let salts: ArraySlice<UInt8>
    private var sum: (UInt32, UInt32) = (0, 0)

    private static let headerSize = 32
    private static let frameHeaderSize = 24

    /// - Throws: `corrupted`. Nothing is thrown for a log that is not there, or cannot be read: others say that.
    static func check(_ path: String) throws(StoreOpenError) {
        let descriptor = open(path + "-wal", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        guard var log = LogCheck(descriptor) else { return }
        let lost = log.commitsBehindDamage(upTo: (size(of: path) + size(of: path + "-wal")) / log.pageSize + 1)
        guard lost < 2 else {
            throw .corrupted(path: path, detail: "its log is damaged, and \(lost) commits follow the damage")
        }
    }

    /// Nil where SQLite sees no log: as far as can be known, none of its frames is valid then.
    private init?(_ descriptor: Int32) {
        guard let header = Self.read(descriptor, at: 0, Self.headerSize) else { return nil }
        let magic = Self.word(header[0..<4])
        guard magic & ~1 == 0x377F_0682 else { return nil }
        self.descriptor = descriptor
        isBigEndian = magic & 1 == 1
        pageSize = Int(Self.word(header[8..<12]))
        salts = header[16..<24]
        guard (512...65_536).contains(pageSize) else { return nil }
        add(header[0..<24])
        guard isSum(header[24..<32]) else { return nil }
    }

    private static func size(of path: String) -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : 0
    }

    /// Frames that end a commit, from the first on that does not fit.
    ///
    /// - Parameter most: pages that a database can have with this file and this log. A frame that says more was never written: a power
    ///   cut can leave anything in a sector, and the boundary of one may lie between that number and the salts.
    private mutating func commitsBehindDamage(upTo most: Int) -> Int {
        var commits = 0
        var isWhole = true
        let size = Self.frameHeaderSize + pageSize
        var offset = Self.headerSize
        while let frame = Self.read(descriptor, at: offset, size) {
            offset += size
            // Of an earlier use of the file: those that follow are so too, or the one before is the damage.
            let isOurs = frame[8..<16] == salts
            if isWhole, isOurs {
                add(frame[0..<8])
                add(frame[Self.frameHeaderSize...])
            }
            isWhole = isWhole && isOurs && isSum(frame[16..<24])
            // The size of the database after the commit; 0 in frames that end none.
            if !isWhole, isOurs, (1...most).contains(Int(Self.word(frame[4..<8]))) { commits += 1 }
        }
        return commits
    }

    private mutating func add(_ bytes: ArraySlice<UInt8>) {
        // Whole pairs of words: headers and pages are multiples of eight octets.
        for index in stride(from: bytes.startIndex, to: bytes.endIndex, by: 8) {
            var first = Self.word(bytes[index..<index + 4])
            var second = Self.word(bytes[index + 4..<index + 8])
            if !isBigEndian { (first, second) = (first.byteSwapped, second.byteSwapped) }
            sum.0 &+= first &+ sum.1
            sum.1 &+= second &+ sum.0
        }
    }

    private func isSum(_ bytes: ArraySlice<UInt8>) -> Bool {
        Self.word(bytes.prefix(4)) == sum.0 && Self.word(bytes.suffix(4)) == sum.1
    }

    /// Big-endian, as all numbers of the format.
    private static func word(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// - Returns: nil if there are fewer.
    private static func read(_ descriptor: Int32, at offset: Int, _ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        // The buffer has room for `count` octets, and lives as long as the call.
        let found = bytes.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, count, off_t(offset)) }
        return found == count ? bytes : nil
    }
}

/// Tells a file that is older than the log beside it. SQLite ties a log to no file: it reads one through the other whatever they are,
/// and what was moved from the log into the file that is gone is missing then.
enum StaleDatabaseFile {
    /// What a database says of its progress.
    private enum Position: Equatable {
        /// The file is empty, or older than the position column.
        case none
        case at(Int64, store: RandomID)

        func isBehind(_ position: Int64, of store: RandomID) -> Bool {
            if case .at(let own, let ownStore) = self { own < position || ownStore != store } else { true }
        }
    }

    /// In the midst of a checkpoint a file is no whole database. But the row of the store lies in one page, and that is of the checkpoint
    /// before or of this one: never older than what was marked when the one before was over.
    private static let alone = "SELECT id, position FROM store"
    private static let throughLog =
        "SELECT id, max(position, coalesce((SELECT max(seq) FROM journal), 0)) FROM store"

    /// Changes neither of the two. - Throws: `olderThanLog`.
    static func check(_ path: String, _ mark: StoreProgress?) throws(StoreOpenError) {
        guard let mark, mark.inFile >= 0, access(path + "-wal", F_OK) == 0 else { return }
        switch read(path, alone, seesLog: false) {
        // What cannot be read is looked at through the log next, and checked as a whole; a page that a power cut has torn may name
        // any store.
        case nil: return
        case .at(let position, let store)? where store != mark.store || position >= mark.inFile: return
        case .none?, .at?: break
        }
        // Both may be of one copy. That one has gone back altogether, and is found to have.
        guard try isBehindWithLog(path, mark) else { throw .olderThanLog(path: path) }
    }

    /// Works on copies: closing a database moves its log into the file.
    private static func isBehindWithLog(_ path: String, _ mark: StoreProgress) throws(StoreOpenError) -> Bool {
        let copy = path + ".look"
        let remove = { for suffix in ["", "-wal", "-shm", "-journal"] { unlink(copy + suffix) } }
        remove()
        defer { remove() }
        for suffix in ["", "-wal"] { try StoreFile.copy(path + suffix, to: copy + suffix) }
        return read(copy, throughLog, seesLog: true)?.isBehind(mark.position, of: mark.store) ?? false
    }

    /// - Returns: nil if it cannot be read.
    private static func read(_ path: String, _ sql: String, seesLog: Bool) -> Position? {
        // Immutable: without locks, log or a change of anything (sqlite.org/c3ref/open.html).
        let name = seesLog ? path : "file:\(escaped(path))?immutable=1"
        let flags = seesLog ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
        var handle: OpaquePointer?
        var statement: OpaquePointer?
        // A handle is there even after an error, and takes nil as well; statements go before it.
        defer {
            sqlite3_finalize(statement)
            sqlite3_close(handle)
        }
        guard sqlite3_open_v2(name, &handle, flags, nil) == SQLITE_OK,
            sqlite3_exec(handle, "PRAGMA locking_mode = EXCLUSIVE", nil, nil, nil) == SQLITE_OK
        else { return nil }
        let prepared = sqlite3_prepare_v2(handle, sql, -1, &statement, nil)
        // No such table, or column.
        guard prepared != SQLITE_ERROR else { return Position.none }
        guard prepared == SQLITE_OK else { return nil }
        switch sqlite3_step(statement) {
        case SQLITE_DONE: return Position.none
        case SQLITE_ROW:
            // The blob is there until the next step, and as long as SQLite says.
            let blob = UnsafeRawBufferPointer(
                start: sqlite3_column_blob(statement, 0), count: Int(sqlite3_column_bytes(statement, 0)))
            return RandomID([UInt8](blob)).map { .at(sqlite3_column_int64(statement, 1), store: $0) }
        default: return nil
        }
    }

    /// As the path of a URI.
    private static func escaped(_ path: String) -> String {
        let absolute = path.hasPrefix("/") ? "//" + path : path
        return absolute.utf8.reduce(into: "") { text, byte in
            let isPlain = byte > 0x20 && byte < 0x7F && byte != 0x25 && byte != 0x3F && byte != 0x23
            text += isPlain ? String(UnicodeScalar(byte)) : "%" + Hexadecimal.encode([byte])
        }
    }
}
