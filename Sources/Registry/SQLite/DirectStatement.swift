internal import GRDB
internal import GRDBSQLite

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
