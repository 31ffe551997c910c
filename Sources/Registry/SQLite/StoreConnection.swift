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
            identity = try queue.inDatabase { try $0.storeIdentity() }
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

/// How a store is opened. Only the record limit is an operator's business, and what for is a command's; the rest exists for tests and
/// measurements.
package struct StoreOptions {
    /// What survives a power cut.
    package enum Durability: Int {
        /// Nothing is promised. Measures what durability costs.
        case off = 0
        /// Commits may be lost, so values could be accepted again. Shows that tests notice.
        case normal = 1
        /// Every commit. What `PRAGMA synchronous` must read back.
        case full = 2
    }

    package var durability = Durability.full
    /// Counter records kept in memory; about 250 bytes each. Those with unfolded journal rows come on top.
    package var recordLimit = 65_536
    /// Counter rows that one slice of folding writes at most; time and pages bound it before.
    package var foldLimit = 4_096
    /// Pages of the log from which on it grows ahead of commits; one that stays short costs nobody anything.
    package var pagesBeforeLogRoom = 64
    /// Octets that the log grows by then.
    package var logRoomSlice = 1_048_576
    /// SQLite refuses to grow the file beyond: stands in for a full disk.
    package var maximumPages: Int?

    /// Whether an export is to be taken over: a store that is made now is for nobody else until that has ended well.
    package var isLoading = false

    package init() {}
}

/// A statement bound and stepped without GRDB's arguments, rows and observers: for what runs once for each counter, or for each
/// commit of them. GRDB's way of reading one row takes as long as SQLite takes for the commit.
struct DirectStatement {
    /// Kept by GRDB's cache for as long as the connection, and by this.
    private let statement: Statement
    private let database: Database

    init(_ database: Database, _ sql: String) throws {
        statement = try database.cachedStatement(sql: sql)
        self.database = database
    }

    /// Runs a statement without parameters that gives no row.
    func run() throws { try step() }

    /// Runs a query without parameters.
    ///
    /// - Parameter body: sees the first row, and does not keep it.
    /// - Returns: nil if there is no row.
    func first<Result>(_ body: (DirectRow) -> Result) throws -> Result? {
        let pointer = statement.sqliteStatement
        let status = sqlite3_step(pointer)
        guard status == SQLITE_ROW else {
            let message = database.lastErrorMessage
            sqlite3_reset(pointer)
            guard status == SQLITE_DONE else {
                throw DatabaseError(resultCode: ResultCode(rawValue: status), message: message)
            }
            return nil
        }
        defer { sqlite3_reset(pointer) }
        return body(DirectRow(statement: pointer))
    }

    /// Binds the integers to the first parameters, the bytes to the one after, and runs.
    ///
    /// An error of binding itself (no memory) leaves a NULL, which the NOT NULL columns refuse.
    func run(_ first: Int64, _ second: Int64, _ third: Int64) throws {
        sqlite3_bind_int64(statement.sqliteStatement, 1, first)
        sqlite3_bind_int64(statement.sqliteStatement, 2, second)
        sqlite3_bind_int64(statement.sqliteStatement, 3, third)
        try step()
    }

    func run(_ first: Int64, _ second: [UInt8], _ third: Int64) throws {
        sqlite3_bind_int64(statement.sqliteStatement, 1, first)
        sqlite3_bind_int64(statement.sqliteStatement, 3, third)
        // Not copied by SQLite: the bytes stay where they are until the statement has run.
        try second.withUnsafeBytes { bytes in
            sqlite3_bind_blob(statement.sqliteStatement, 2, bytes.baseAddress, Int32(bytes.count), nil)
            defer { sqlite3_bind_null(statement.sqliteStatement, 2) }
            try step()
        }
    }

    private func step() throws {
        let result = sqlite3_step(statement.sqliteStatement)
        // The message is the step's until the next call.
        let message = result == SQLITE_DONE ? nil : database.lastErrorMessage
        sqlite3_reset(statement.sqliteStatement)
        guard result == SQLITE_DONE else {
            throw DatabaseError(resultCode: ResultCode(rawValue: result), message: message)
        }
    }
}

/// The row that a statement stands on, good until it is stepped or reset.
struct DirectRow {
    fileprivate let statement: OpaquePointer

    /// - Parameter body: sees the octets of a column; none if it holds NULL.
    func octets<Result>(_ column: Int32, _ body: (Span<UInt8>) -> Result) -> Result {
        // In this order: the first call decides about the form, of which the second tells the length. SQLite leaves both alone
        // until the statement moves on.
        let address = sqlite3_column_blob(statement, column)
        let count = Int(sqlite3_column_bytes(statement, column))
        return body(
            UnsafeRawBufferPointer(start: address, count: address == nil ? 0 : count).bindMemory(to: UInt8.self).span)
    }
}

/// Something the store did not expect: SQLite's error, or a row it cannot read. Ends the connection.
struct StoreFault: Error {
    let detail: String
    private let code: ResultCode?

    init(_ error: any Error) {
        switch error {
        case let error as StoreFault: self = error
        case let error as DatabaseError:
            code = error.resultCode
            // Not GRDB's own description: it quotes the statement, and some versions its arguments.
            detail = "\(error.message ?? "SQLite failed") (SQLite \(error.extendedResultCode.rawValue))"
        case let error as UnreadableRow:
            code = .SQLITE_CORRUPT
            detail = "a row of table \(error.table) cannot be read"
        default:
            code = nil
            detail = String(describing: error)
        }
    }

    func openError(path: String) -> StoreOpenError {
        switch code {
        case .SQLITE_NOTADB: .foreign(path: path)
        case .SQLITE_CORRUPT: .corrupted(path: path, detail: detail)
        case .SQLITE_BUSY: .locked(path: path)
        default: .failed(path: path, detail: detail)
        }
    }
}
