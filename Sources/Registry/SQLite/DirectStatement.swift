internal import GRDB
internal import GRDBSQLite

/// A statement that writes, bound and stepped without GRDB's arguments: for what runs once for each counter, a hundred
/// thousand times a second.
struct DirectStatement {
    /// Kept by GRDB's cache for as long as the connection, and by this.
    private let statement: Statement
    private let database: Database

    init(_ database: Database, _ sql: String) throws {
        statement = try database.cachedStatement(sql: sql)
        self.database = database
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
