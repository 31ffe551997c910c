internal import struct Foundation.Data
internal import GRDB
internal import Registry
internal import Vocabulary

// Conversions between values and rows. GRDB represents bytes as `Data`, which is used only in these files.

extension [UInt8] {
    var blob: Data { Data(self) }
}

extension KeyID {
    var blob: Data { bytes.blob }
}

extension Row: SQLRow {
    package func optionalInteger(_ column: Int) throws -> Int64? {
        switch (self[column] as DatabaseValue).storage {
        case .int64(let number): number
        case .null: nil
        default: throw UnreadableRow(table: "of a query")
        }
    }

    package func optionalBytes(_ column: Int) throws -> [UInt8]? {
        switch (self[column] as DatabaseValue).storage {
        case .blob(let data): [UInt8](data)
        case .null: nil
        default: throw UnreadableRow(table: "of a query")
        }
    }

    package func optionalText(_ column: Int) throws -> String? {
        switch (self[column] as DatabaseValue).storage {
        case .string(let text): text
        case .null: nil
        default: throw UnreadableRow(table: "of a query")
        }
    }
}

extension SQLValue {
    var stored: DatabaseValue {
        switch self {
        case .integer(let number): number.databaseValue
        case .bytes(let bytes): bytes.blob.databaseValue
        case .text(let text): text.databaseValue
        case .null: .null
        default: preconditionFailure("SQLite has no lists")
        }
    }
}

extension Database {
    func run(_ statement: SQLStatement) throws {
        try cachedStatement(sql: statement.sql)
            .execute(arguments: StatementArguments(statement.arguments.map(\.stored)))
    }

    func storeIdentity() throws -> StoreIdentity {
        let found = try DirectStatement(self, "SELECT id, epoch FROM store").first { row -> StoreIdentity? in
            guard let store = row.bytes(0, RandomID.init), let epoch = row.bytes(1, RandomID.init) else { return nil }
            return StoreIdentity(store: store, epoch: epoch)
        }
        guard let identity = found ?? nil else { throw UnreadableRow(table: "store") }
        return identity
    }
}
