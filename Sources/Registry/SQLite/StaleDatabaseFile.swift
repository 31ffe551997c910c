internal import GRDB
internal import GRDBSQLite
internal import Glibc
internal import Vocabulary

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
