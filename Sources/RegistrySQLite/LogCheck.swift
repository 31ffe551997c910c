internal import Encoding
internal import GRDB
internal import GRDBSQLite
internal import Glibc
internal import Registry
internal import RevocationJournal
internal import Vocabulary

/// A check of a write-ahead log for damage before SQLite opens it. SQLite would silently drop everything after the
/// damage.
///
/// Each commit is synced before the next one starts, and an existing log is moved into the file before it grows. A
/// power failure therefore damages at most one commit, at the end. If two or more commits follow the first invalid
/// frame, acknowledged commits are lost.
///
/// The format is described in sqlite.org/fileformat2.html, section 4.
struct LogCheck {
    private let descriptor: Int32
    private let isBigEndian: Bool
    private let pageSize: Int
    private let salts: ArraySlice<UInt8>
    private var sum: (UInt32, UInt32) = (0, 0)

    private static let headerSize = 32
    private static let frameHeaderSize = 24

    /// Checks the log of a database.
    ///
    /// - Throws: `corrupted`. A missing or unreadable log is not an error here.
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

    /// Reads the header. Returns nil if SQLite would ignore the log, because none of its frames is known to be valid
    /// then.
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

    /// Counts the commits from the first invalid frame on.
    ///
    /// - Parameter most: The maximum number of pages of a database with this file and log. A frame with a greater
    ///   number was never written. A power failure can leave anything in a sector, and the boundary of one may be
    ///   between that number and the salts.
    private mutating func commitsBehindDamage(upTo most: Int) -> Int {
        var commits = 0
        var isWhole = true
        let size = Self.frameHeaderSize + pageSize
        var offset = Self.headerSize
        while let frame = Self.read(descriptor, at: offset, size) {
            offset += size
            // Other salts belong to an earlier use of the file. The following frames have them too, or this one is
            // damaged.
            let isOurs = frame[8..<16] == salts
            if isWhole, isOurs {
                add(frame[0..<8])
                add(frame[Self.frameHeaderSize...])
            }
            isWhole = isWhole && isOurs && isSum(frame[16..<24])
            // The number is the size of the database after a commit. It is 0 in frames that do not end a commit.
            if !isWhole, isOurs, (1...most).contains(Int(Self.word(frame[4..<8]))) { commits += 1 }
        }
        return commits
    }

    private mutating func add(_ bytes: ArraySlice<UInt8>) {
        // Headers and pages are multiples of eight bytes, so there are only pairs of words.
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

    /// Reads a big-endian number, as all numbers of the format are.
    private static func word(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// Reads bytes.
    ///
    /// - Returns: nil if there are fewer.
    private static func read(_ descriptor: Int32, at offset: Int, _ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        // The buffer has room for `count` bytes and lives until the call returns.
        let found = bytes.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, count, off_t(offset)) }
        return found == count ? bytes : nil
    }
}

/// A check for a database file that is older than its log. SQLite does not tie a log to a file, so changes that were
/// moved from the log into the previous file would be missing.
enum StaleDatabaseFile {
    /// The progress that a database contains.
    private enum Position: Equatable {
        /// The file is empty, or older than the column of the position.
        case none
        case at(Int64, store: RandomID)

        func isBehind(_ position: Int64, of store: RandomID) -> Bool {
            if case .at(let own, let ownStore) = self { own < position || ownStore != store } else { true }
        }
    }

    /// Reads the row of the store without the log. During a checkpoint the file is inconsistent, but this row is in one
    /// page. It is therefore never older than the mark of the previous checkpoint.
    private static let alone = "SELECT id, position FROM store"
    private static let throughLog =
        "SELECT id, max(position, coalesce((SELECT max(seq) FROM journal), 0)) FROM store"

    /// Checks a file and its log without changing them.
    ///
    /// - Throws: `olderThanLog`.
    static func check(_ path: String, _ mark: StoreProgress?) throws(StoreOpenError) {
        guard let mark, mark.inFile >= 0, access(path + "-wal", F_OK) == 0 else { return }
        switch read(path, alone, seesLog: false) {
        // An unreadable file is checked completely when it is opened with its log. A torn page may contain any id.
        case nil: return
        case .at(let position, let store)? where store != mark.store || position >= mark.inFile: return
        case .none?, .at?: break
        }
        // Both may come from the same copy, which has then gone back completely and is detected as such.
        guard try isBehindWithLog(path, mark) else { throw .olderThanLog(path: path) }
    }

    /// Checks copies, because closing a database moves its log into the file.
    private static func isBehindWithLog(_ path: String, _ mark: StoreProgress) throws(StoreOpenError) -> Bool {
        let copy = path + ".look"
        let remove = { for suffix in ["", "-wal", "-shm", "-journal"] { unlink(copy + suffix) } }
        remove()
        defer { remove() }
        for suffix in ["", "-wal"] { try StoreFile.copy(path + suffix, to: copy + suffix) }
        return read(copy, throughLog, seesLog: true)?.isBehind(mark.position, of: mark.store) ?? false
    }

    /// Reads a position.
    ///
    /// - Returns: nil if it is unreadable.
    private static func read(_ path: String, _ sql: String, seesLog: Bool) -> Position? {
        // An immutable file is opened without locks, log or changes (sqlite.org/c3ref/open.html).
        let name = seesLog ? path : "file:\(escaped(path))?immutable=1"
        let flags = seesLog ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
        var handle: OpaquePointer?
        var statement: OpaquePointer?
        // The handle exists even after an error, and both functions accept nil. Statements are finalized first.
        defer {
            sqlite3_finalize(statement)
            sqlite3_close(handle)
        }
        guard sqlite3_open_v2(name, &handle, flags, nil) == SQLITE_OK,
            sqlite3_exec(handle, "PRAGMA locking_mode = EXCLUSIVE", nil, nil, nil) == SQLITE_OK
        else { return nil }
        let prepared = sqlite3_prepare_v2(handle, sql, -1, &statement, nil)
        // The table or the column does not exist.
        guard prepared != SQLITE_ERROR else { return Position.none }
        guard prepared == SQLITE_OK else { return nil }
        switch sqlite3_step(statement) {
        case SQLITE_DONE: return Position.none
        case SQLITE_ROW:
            // The blob is valid until the next step.
            let blob = UnsafeRawBufferPointer(
                start: sqlite3_column_blob(statement, 0), count: Int(sqlite3_column_bytes(statement, 0)))
            return RandomID([UInt8](blob)).map { .at(sqlite3_column_int64(statement, 1), store: $0) }
        default: return nil
        }
    }

    /// Escapes a path for a URI.
    private static func escaped(_ path: String) -> String {
        let absolute = path.hasPrefix("/") ? "//" + path : path
        return absolute.utf8.reduce(into: "") { text, byte in
            let isPlain = byte > 0x20 && byte < 0x7F && byte != 0x25 && byte != 0x3F && byte != 0x23
            text += isPlain ? String(UnicodeScalar(byte)) : "%" + Hexadecimal.encode([byte])
        }
    }
}
