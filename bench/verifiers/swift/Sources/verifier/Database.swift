import CSQLite
import Foundation

/// SQLite says no.
struct DatabaseError: Error {
    let text: String
}

/// Devices and their counters. Its commits are durable when they return.
///
/// Unchecked: its opener uses it alone, and then hands it to the one thread of `Counters`.
final class Database: @unchecked Sendable {
    private let connection: OpaquePointer
    private var update: OpaquePointer?
    /// SQLITE_TRANSIENT, which is a macro that Swift does not see: SQLite copies what it is given.
    private let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    private struct Registration: Decodable {
        let appId: String
        let publicKey: Data
        let certificateKey: Data
    }

    init(_ path: String) throws {
        var opened: OpaquePointer?
        guard sqlite3_open(path, &opened) == SQLITE_OK, let opened else { throw DatabaseError(text: path) }
        connection = opened
        // FULL: in WAL mode every commit is synchronised to the disk (sqlite.org/pragma.html#pragma_synchronous).
        try execute("PRAGMA journal_mode = WAL")
        try execute("PRAGMA synchronous = FULL")
        try execute(
            """
            CREATE TABLE IF NOT EXISTS device (
              certificate_key BLOB PRIMARY KEY, public_key BLOB NOT NULL, app TEXT NOT NULL, active INTEGER NOT NULL DEFAULT 1,
              counter INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID
            """)
        update = try prepare(
            "UPDATE device SET counter = ?1 WHERE certificate_key = ?2 AND active AND counter < ?1")
    }

    /// - Parameter lines: as `attestgate-load --prepare` writes them.
    func register(_ lines: some Sequence<Substring>) throws {
        let insert = try prepare(
            "INSERT OR IGNORE INTO device (certificate_key, public_key, app) VALUES (?1, ?2, ?3)")
        defer { sqlite3_finalize(insert) }
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        try execute("BEGIN")
        for line in lines {
            let row = try decoder.decode(Registration.self, from: Data(line.utf8))
            bind(row.certificateKey, at: 1, of: insert)
            bind(row.publicKey, at: 2, of: insert)
            sqlite3_bind_text(insert, 3, row.appId, -1, copied)
            try step(insert)
        }
        try execute("COMMIT")
    }

    /// All that may make requests, with their counters.
    func devices() throws -> [(device: Device, counter: UInt32)] {
        let select = try prepare("SELECT certificate_key, public_key, app, counter FROM device WHERE active")
        defer { sqlite3_finalize(select) }
        var found: [(Device, UInt32)] = []
        while sqlite3_step(select) == SQLITE_ROW {
            let device = try Device(
                certificateKey: blob(select, 0), publicKey: blob(select, 1),
                app: String(cString: sqlite3_column_text(select, 2)))
            found.append((device, UInt32(sqlite3_column_int64(select, 3))))
        }
        return found
    }

    /// Makes new highest counters durable, all in one commit.
    func spend(_ highest: [Data: UInt32]) throws {
        try execute("BEGIN IMMEDIATE")
        do {
            for (key, value) in highest {
                sqlite3_bind_int64(update, 1, Int64(value))
                bind(key, at: 2, of: update)
                try step(update)
                guard sqlite3_changes(connection) == 1 else {
                    throw DatabaseError(text: "a counter is not behind its new value")
                }
            }
            try execute("COMMIT")
        } catch {
            try? execute("ROLLBACK")
            throw error
        }
    }

    private func execute(_ sql: String) throws {
        guard sqlite3_exec(connection, sql, nil, nil, nil) == SQLITE_OK else { throw fault }
    }

    private func prepare(_ sql: String) throws -> OpaquePointer? {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(connection, sql, -1, &statement, nil) == SQLITE_OK else { throw fault }
        return statement
    }

    private func step(_ statement: OpaquePointer?) throws {
        defer { sqlite3_reset(statement) }
        guard sqlite3_step(statement) == SQLITE_DONE else { throw fault }
    }

    private func bind(_ data: Data, at index: Int32, of statement: OpaquePointer?) {
        _ = data.withUnsafeBytes { sqlite3_bind_blob(statement, index, $0.baseAddress, Int32($0.count), copied) }
    }

    private func blob(_ statement: OpaquePointer?, _ column: Int32) -> Data {
        guard let start = sqlite3_column_blob(statement, column) else { return Data() }
        return Data(bytes: start, count: Int(sqlite3_column_bytes(statement, column)))
    }

    private var fault: DatabaseError { DatabaseError(text: String(cString: sqlite3_errmsg(connection))) }
}
