internal import GRDB
internal import GRDBSQLite

/// One checked connection to the database file.
///
/// Whatever an operation throws, the connection is not used again: after an I/O error the file and what SQLite and the
/// kernel hold of it may differ (a failed fsync is reported once, and the next one succeeds).
final class StoreConnection {
    private let queue: DatabaseQueue
    private let options: StoreOptions
    private(set) var identity: StoreIdentity
    /// Pages in the write-ahead log as of the last commit; 0 after a checkpoint.
    fileprivate(set) var logPages = 0
    /// Octets that the write-ahead log has room for without growing, as far as that is known.
    private var logRoom = 0

    /// - Parameter creating: whether an absent or empty file becomes a new store.
    init(path: String, creating: Bool, options: StoreOptions) throws(StoreOpenError) {
        self.options = options
        try StoreFile.prepare(path, creating: creating)
        try LogCheck.check(path)
        try StoreFile.replaceLog(of: path)
        do {
            queue = try DatabaseQueue(path: path, configuration: Self.configuration(options))
            try Self.check(queue, path: path, creating: creating, isLoading: options.isLoading)
            // Before the first write.
            try Self.setDurability(queue, options, path: path)
            // The next write restarts the log: no earlier frame can stand behind a current one.
            try queue.inDatabase { _ = try $0.checkpoint(.passive) }
            try SQLiteSchema.migrator(isLoading: options.isLoading).migrate(queue)
            identity = try queue.inDatabase { try StoreIdentity.read($0) }
        } catch let error as StoreOpenError {
            throw error
        } catch {
            throw StoreFault(error).openError(path: path)
        }
        queue.inDatabase { database in
            // The context is this object, which owns the connection: it outlives every commit.
            _ = sqlite3_wal_hook(database.sqliteConnection, logGrew, Unmanaged.passUnretained(self).toOpaque())
        }
    }

    deinit {
        // Nothing can be done about an error, and SQLite has let go of the file all the same.
        try? queue.close()
    }

    private static func configuration(_ options: StoreOptions) -> Configuration {
        var configuration = Configuration()
        configuration.label = "registry"
        // Not GRDB's WAL: that writes to the file before it was looked at, and has commits return before they are durable.
        configuration.journalMode = .default
        configuration.prepareDatabase { database in
            // Before WAL mode, so that SQLite keeps the index of the log in its own memory: no shared memory file, no
            // locking calls in each transaction, and no other process changes a counter under us.
            try database.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            // 16 MiB: the counter rows of 100,000 devices, so that folding reads none.
            try database.execute(sql: "PRAGMA cache_size = -16384")
            if let pages = options.maximumPages { try database.execute(sql: "PRAGMA max_page_count = \(pages)") }
        }
        return configuration
    }

    private static func check(_ queue: DatabaseQueue, path: String, creating: Bool, isLoading: Bool) throws {
        try queue.inDatabase { database in
            let found = try Int32.fetchOne(database, sql: "PRAGMA application_id")
            if found != SQLiteSchema.applicationID {
                // The table of migrations, with its index, is there before the first of them: all of a store whose creation
                // was cut short.
                let others = try Int.fetchOne(
                    database, sql: "SELECT count(*) FROM sqlite_schema WHERE tbl_name <> 'grdb_migrations'")
                guard creating, found == 0, others == 0 else { throw StoreOpenError.foreign(path: path) }
            }
            if !isLoading, try SQLiteSchema.isBeingMade(database) { throw StoreOpenError.unfinishedImport(path: path) }
            if try SQLiteSchema.migrator.hasBeenSuperseded(database) { throw StoreOpenError.newerSchema(path: path) }
            let finding = try String.fetchOne(database, sql: "PRAGMA quick_check(1)") ?? ""
            guard finding == "ok" else { throw StoreOpenError.corrupted(path: path, detail: finding) }
        }
    }

    private static func setDurability(_ queue: DatabaseQueue, _ options: StoreOptions, path: String) throws {
        try queue.inDatabase { database in
            let mode = try String.fetchOne(database, sql: "PRAGMA journal_mode = WAL") ?? ""
            guard mode == "wal" else {
                throw StoreOpenError.failed(
                    path: path, detail: "SQLite cannot use a write-ahead log here: its journal mode is \(mode)")
            }
            try database.execute(sql: "PRAGMA synchronous = \(options.durability.rawValue)")
            // Never a checkpoint inside COMMIT: it would make one request in some thousand wait for the whole log.
            try database.execute(sql: "PRAGMA wal_autocheckpoint = 0")
            let found = try Int.fetchOne(database, sql: "PRAGMA synchronous") ?? -1
            guard found == options.durability.rawValue else {
                throw StoreOpenError.notDurable(path: path, found: found)
            }
        }
    }

    /// What `PRAGMA synchronous` says now.
    var synchronous: Int? {
        get throws { try queue.inDatabase { try Int.fetchOne($0, sql: "PRAGMA synchronous") } }
    }

    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try queue.inDatabase(body)
    }

    /// Runs `body` in one transaction, durable when this returns, undone when it throws.
    func transaction<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try queue.inDatabase { database in
            try DirectStatement(database, "BEGIN IMMEDIATE").run()
            do {
                let result = try body(database)
                try DirectStatement(database, "COMMIT").run()
                return result
            } catch {
                // A failed COMMIT may have rolled back by itself.
                if database.isInsideTransaction { try database.execute(sql: "ROLLBACK") }
                throw error
            }
        }
    }

    /// Writes zeros behind what the log holds, a slice at a time, if it is about to grow: a commit that lies in room the file has
    /// already is synced by one write, one that makes the file longer by a commit of the file system besides (measured on ext4: 1.8
    /// times the processor time, 1.3 times the wait). Not synced: the next commit takes the slice along.
    ///
    /// SQLite ends a log where a frame does not fit, and no frame is all zeros; it writes from the beginning again after a checkpoint,
    /// and leaves the file as long as it was.
    func makeLogRoom() {
        guard logPages >= options.pagesBeforeLogRoom else { return }
        let needed = Self.logHeader + logPages * Self.frame + options.logRoomSlice / 4
        guard needed > logRoom else { return }
        queue.inDatabase { database in
            var file: UnsafeMutablePointer<sqlite3_file>?
            var size: sqlite3_int64 = 0
            // The log's file is SQLite's, and open as long as the connection; between statements nobody else writes to it.
            guard
                sqlite3_file_control(database.sqliteConnection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file)
                    == SQLITE_OK,
                let file, let methods = file.pointee.pMethods?.pointee, methods.xFileSize(file, &size) == SQLITE_OK
            else { return }
            logRoom = Int(size)
            guard needed > logRoom else { return }
            let zeros = [UInt8](repeating: 0, count: Self.piece)
            let goal = size + sqlite3_int64(options.logRoomSlice)
            while size < goal {
                let written = zeros.withUnsafeBytes { methods.xWrite(file, $0.baseAddress, Int32($0.count), size) }
                guard written == SQLITE_OK else { break }
                size += sqlite3_int64(Self.piece)
            }
            // A disk that is full, or broken, is for the next commit to find out. It is not asked again before long.
            logRoom = size < goal ? needed + options.logRoomSlice : Int(size)
        }
    }

    /// SQLite's files take less than 128 KiB at a time.
    private static let piece = 16_384
    private static let logHeader = 32
    /// A page with its header.
    private static let frame = 24 + 4_096

    /// Moves the write-ahead log into the database file. There are no readers to wait for, so it moves all of it.
    ///
    /// - Returns: whether it did.
    func checkpoint() throws -> Bool {
        let moved = try queue.inDatabase { try $0.checkpoint(.passive) }
        logPages = 0
        return moved.checkpointedFrameCount == moved.walFrameCount
    }
}

/// Called after each commit. The context is the connection, see `init`.
private nonisolated func logGrew(
    _ context: UnsafeMutableRawPointer?, _: OpaquePointer?, _: UnsafePointer<CChar>?, _ pages: Int32
) -> Int32 {
    guard let context else { preconditionFailure("a log hook without its connection") }
    Unmanaged<StoreConnection>.fromOpaque(context).takeUnretainedValue().logPages = Int(pages)
    return SQLITE_OK
}
