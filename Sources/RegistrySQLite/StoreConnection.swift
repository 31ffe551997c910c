internal import GRDB
internal import GRDBSQLite
internal import Registry

/// A checked connection to the database file.
///
/// It is not used after any error. After an I/O error the file may differ from the memory of SQLite and the kernel: a
/// failed fsync is reported once, and the next one succeeds.
final class StoreConnection {
    private let queue: DatabaseQueue
    private let options: StoreOptions
    private(set) var identity: StoreIdentity
    /// The number of pages in the write-ahead log at the last commit. It is 0 after a checkpoint.
    fileprivate(set) var logPages = 0
    /// The known size of the log file in bytes, up to which the log does not grow.
    private var logRoom = 0

    /// Opens a connection.
    ///
    /// - Parameter creating: Whether a missing or empty file becomes a new store.
    init(path: String, creating: Bool, options: StoreOptions) throws(StoreOpenError) {
        self.options = options
        try StoreFile.prepare(path, creating: creating)
        try LogCheck.check(path)
        try StoreFile.replaceLog(of: path)
        do {
            queue = try DatabaseQueue(path: path, configuration: Self.configuration(options))
            try Self.check(queue, path: path, creating: creating, isLoading: options.isLoading)
            // This precedes the first write.
            try Self.setDurability(queue, options, path: path)
            // The next write restarts the log, so no earlier frames follow current ones.
            try queue.inDatabase { _ = try $0.checkpoint(.passive) }
            try SQLiteSchema.migrator(isLoading: options.isLoading).migrate(queue)
            identity = try queue.inDatabase { try $0.storeIdentity() }
        } catch let error as StoreOpenError {
            throw error
        } catch {
            throw StoreFault(error).openError(path: path)
        }
        queue.inDatabase { database in
            // The context is this object, which owns the connection and outlives its commits.
            _ = sqlite3_wal_hook(database.sqliteConnection, logGrew, Unmanaged.passUnretained(self).toOpaque())
        }
    }

    deinit {
        // An error cannot be handled, and SQLite closes the file anyway.
        try? queue.close()
    }

    private static func configuration(_ options: StoreOptions) -> Configuration {
        var configuration = Configuration()
        configuration.label = "registry"
        // GRDB's WAL mode would write to the file before the checks, and commit without a sync.
        configuration.journalMode = .default
        configuration.prepareDatabase { database in
            // Before WAL mode is set, this keeps the index of the log in private memory. It saves the shared memory
            // file and locking calls, and excludes other processes.
            try database.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            // 16 MiB hold the counter rows of 100,000 devices, so that folding reads none from the file.
            try database.execute(sql: "PRAGMA cache_size = -16384")
            if let pages = options.maximumPages { try database.execute(sql: "PRAGMA max_page_count = \(pages)") }
        }
        return configuration
    }

    private static func check(_ queue: DatabaseQueue, path: String, creating: Bool, isLoading: Bool) throws {
        try queue.inDatabase { database in
            let found = try Int32.fetchOne(database, sql: "PRAGMA application_id")
            if found != SQLiteSchema.applicationID {
                // The table of migrations exists before the first migration. A store whose creation was interrupted has
                // only that table.
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
            // A checkpoint during COMMIT would make one request in some thousand wait for the whole log.
            try database.execute(sql: "PRAGMA wal_autocheckpoint = 0")
            let found = try Int.fetchOne(database, sql: "PRAGMA synchronous") ?? -1
            guard found == options.durability.rawValue else {
                throw StoreOpenError.notDurable(path: path, found: found)
            }
        }
    }

    /// The value of `PRAGMA synchronous`.
    var synchronous: Int? {
        get throws { try queue.inDatabase { try Int.fetchOne($0, sql: "PRAGMA synchronous") } }
    }

    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try queue.inDatabase(body)
    }

    /// Runs `body` in a transaction, which is durable when this returns and rolled back when it throws.
    func transaction<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try queue.inDatabase { database in
            try DirectStatement(database, "BEGIN IMMEDIATE").run()
            do {
                let result = try body(database)
                try DirectStatement(database, "COMMIT").run()
                return result
            } catch {
                // A failed COMMIT may already have rolled back.
                if database.isInsideTransaction { try database.execute(sql: "ROLLBACK") }
                throw error
            }
        }
    }

    /// Extends the log with a slice of zeros if it is about to grow.
    ///
    /// A commit within the existing file is synced with one write. A commit that extends the file also needs a commit
    /// of the file system (measured on ext4: 1.8 times the processor time, 1.3 times the wait). The slice is not
    /// synced, because the next commit syncs it too.
    ///
    /// SQLite ends a log at the first invalid frame, and a frame of zeros is invalid. After a checkpoint it writes from
    /// the start again and keeps the size of the file.
    func makeLogRoom() {
        guard logPages >= options.pagesBeforeLogRoom else { return }
        let needed = Self.logHeader + logPages * Self.frame + options.logRoomSlice / 4
        guard needed > logRoom else { return }
        queue.inDatabase { database in
            var file: UnsafeMutablePointer<sqlite3_file>?
            var size: sqlite3_int64 = 0
            // SQLite owns the file of the log, which is open for the life of the connection. Between statements nothing
            // else writes to it.
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
            // The next commit reports a full or broken disk. The extension is not tried again soon.
            logRoom = size < goal ? needed + options.logRoomSlice : Int(size)
        }
    }

    /// The size of a write. SQLite's files accept less than 128 KiB at a time.
    private static let piece = 16_384
    private static let logHeader = 32
    /// The size of a frame: a page with its header.
    private static let frame = 24 + 4_096

    /// Moves the whole write-ahead log into the database file. There are no readers to wait for.
    ///
    /// - Returns: Whether everything was moved.
    func checkpoint() throws -> Bool {
        let moved = try queue.inDatabase { try $0.checkpoint(.passive) }
        logPages = 0
        return moved.checkpointedFrameCount == moved.walFrameCount
    }
}

/// Records the size of the log after a commit. The context is the connection, see `init`.
private nonisolated func logGrew(
    _ context: UnsafeMutableRawPointer?, _: OpaquePointer?, _: UnsafePointer<CChar>?, _ pages: Int32
) -> Int32 {
    guard let context else { preconditionFailure("a log hook without its connection") }
    Unmanaged<StoreConnection>.fromOpaque(context).takeUnretainedValue().logPages = Int(pages)
    return SQLITE_OK
}

/// Options for opening a store. Operators set the record limit, and commands set `isLoading`. The others are for tests
/// and measurements.
package struct StoreOptions {
    /// The durability of commits in a power failure.
    package enum Durability: Int {
        /// Nothing is durable. It is for measuring the cost of durability.
        case off = 0
        /// Commits may be lost, so that values could be accepted again. It shows that tests notice this.
        case normal = 1
        /// Every commit is durable. `PRAGMA synchronous` must return this value.
        case full = 2
    }

    package var durability = Durability.full
    /// The number of counter records in memory, of about 250 bytes each. Records with unfolded journal rows are
    /// additional.
    package var recordLimit = 65_536
    /// The maximum number of counter rows in a fold. Time and pages limit it too.
    package var foldLimit = 4_096
    /// The number of pages in the log from which it is extended before commits. A short log is not extended.
    package var pagesBeforeLogRoom = 64
    /// The number of bytes by which the log is extended.
    package var logRoomSlice = 1_048_576
    /// The maximum number of pages in the file, which simulates a full disk.
    package var maximumPages: Int?

    /// Whether the store is opened for an import. A new store is then reserved for it until it has succeeded.
    package var isLoading = false

    package init() {}
}

/// A statement that is bound and stepped without GRDB's arguments, rows and observers, for each counter and each
/// commit. Reading one row through GRDB takes as long as the commit in SQLite.
struct DirectStatement {
    /// The statement. GRDB's cache keeps it for the life of the connection.
    private let statement: Statement
    private let database: Database

    init(_ database: Database, _ sql: String) throws {
        statement = try database.cachedStatement(sql: sql)
        self.database = database
    }

    /// Runs a statement without parameters and rows.
    func run() throws { try step() }

    /// Runs a query without parameters.
    ///
    /// - Parameter body: Reads the first row and must not keep it.
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

    /// Binds the arguments in order and runs the statement.
    ///
    /// If binding fails because of low memory, the parameter stays NULL, which the NOT NULL columns refuse.
    func run(_ first: Int64, _ second: Int64, _ third: Int64) throws {
        sqlite3_bind_int64(statement.sqliteStatement, 1, first)
        sqlite3_bind_int64(statement.sqliteStatement, 2, second)
        sqlite3_bind_int64(statement.sqliteStatement, 3, third)
        try step()
    }

    func run(_ first: Int64, _ second: [UInt8], _ third: Int64) throws {
        sqlite3_bind_int64(statement.sqliteStatement, 1, first)
        sqlite3_bind_int64(statement.sqliteStatement, 3, third)
        // SQLite does not copy the bytes. They are valid until the statement has run.
        try second.withUnsafeBytes { bytes in
            sqlite3_bind_blob(statement.sqliteStatement, 2, bytes.baseAddress, Int32(bytes.count), nil)
            defer { sqlite3_bind_null(statement.sqliteStatement, 2) }
            try step()
        }
    }

    private func step() throws {
        let result = sqlite3_step(statement.sqliteStatement)
        // The message is valid until the next call.
        let message = result == SQLITE_DONE ? nil : database.lastErrorMessage
        sqlite3_reset(statement.sqliteStatement)
        guard result == SQLITE_DONE else {
            throw DatabaseError(resultCode: ResultCode(rawValue: result), message: message)
        }
    }
}

/// The current row of a statement, valid until the statement is stepped or reset.
struct DirectRow {
    fileprivate let statement: OpaquePointer

    /// Reads the bytes of a column.
    ///
    /// - Parameter body: Receives the bytes. They are empty for NULL.
    func bytes<Result>(_ column: Int32, _ body: (Span<UInt8>) -> Result) -> Result {
        // The first call converts the value, and the second returns the size of the converted one. SQLite keeps both
        // until the next step.
        let address = sqlite3_column_blob(statement, column)
        let count = Int(sqlite3_column_bytes(statement, column))
        return body(
            UnsafeRawBufferPointer(start: address, count: address == nil ? 0 : count).bindMemory(to: UInt8.self).span)
    }
}

/// An unexpected error of the store: an error of SQLite or an unreadable row. It ends the connection.
struct StoreFault: Error {
    let detail: String
    private let code: ResultCode?

    init(_ error: any Error) {
        switch error {
        case let error as StoreFault: self = error
        case let error as DatabaseError:
            code = error.resultCode
            // GRDB's description quotes the statement, and in some versions its arguments.
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
