import EventLoop
import GRDB
import Testing
import Vocabulary

@testable import Registry

/// Where the stores of one test lie, of one kind: the suites of this folder are run for each kind there is.
protocol StorePlace: AnyObject {
    /// Opens the store, which is made when it is opened first. One that was opened before has been closed.
    func open() throws -> any StoreBackend
    /// Opens it for a command. What was opened before has been closed.
    func openAtRest() throws -> RegistryAtRest
    /// Lets no counter become durable from here on, for no writer.
    func refuseCounters(of backend: any StoreBackend) throws
    func takeCounters(of backend: any StoreBackend) throws
    /// Writes a row of a key that is barred into a store that is closed.
    func bar(_ key: KeyID, _ kind: BarredKeyKind) throws
    /// Has a store that is closed refuse admission tokens that expire until then.
    func refuseTokens(until end: Int64) throws
    /// Opens the store as a process does that uses this secret, and closes it.
    func confirm(_ secret: SecretClaim) throws
    /// Opens it for an import, which makes it where there is none.
    func openForLoading() throws -> RegistryAtRest
}

/// The kinds of stores, as arguments of tests.
enum StoreKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case sqlite = "SQLite"
    case postgresql = "PostgreSQL"

    /// Those that can be run here.
    static var allCases: [StoreKind] { PostgreSQLServer.shared == nil ? [.sqlite] : [.sqlite, .postgresql] }

    var testDescription: String { rawValue }

    func makePlace() throws -> any StorePlace {
        switch self {
        case .sqlite: try SQLitePlace()
        case .postgresql: try PostgreSQLPlace()
        }
    }
}

/// Refuses by a trigger, which lies in the file.
final class SQLitePlace: StorePlace {
    private let scratch: Scratch
    private var store: RegistryStore?

    init() throws {
        scratch = try Scratch()
    }

    func open() throws -> any StoreBackend {
        store = nil
        let opened = try RegistryStore(path: scratch.file(), creating: true)
        store = opened
        return SQLiteBackend(opened)
    }

    func openAtRest() throws -> RegistryAtRest {
        store = nil
        return RegistryAtRest(try RegistryStore(path: scratch.file(), creating: true))
    }

    func refuseCounters(of backend: any StoreBackend) throws {
        try store?.transaction { database in
            try database.execute(
                sql: """
                    CREATE TRIGGER refuse BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'refused by a test'); END
                    """)
        }
    }

    func takeCounters(of backend: any StoreBackend) throws {
        // The store has let go of the file when it failed.
        let queue = try DatabaseQueue(path: scratch.file())
        try queue.writeWithoutTransaction { try $0.execute(sql: "DROP TRIGGER refuse") }
        try queue.close()
    }

    func refuseTokens(until end: Int64) throws {
        store = try RegistryStore(path: scratch.file(), creating: true)
        try store?.transaction { try $0.execute(sql: "UPDATE store SET tokens_removed = ?", arguments: [end]) }
        store = nil
    }

    func confirm(_ secret: SecretClaim) throws {
        store = nil
        try RegistryStore(path: scratch.file(), creating: true).confirm(secret)
    }

    func openForLoading() throws -> RegistryAtRest {
        store = nil
        var options = StoreOptions()
        options.isLoading = true
        return RegistryAtRest(try RegistryStore(path: scratch.file(), creating: true, options: options))
    }

    func bar(_ key: KeyID, _ kind: BarredKeyKind) throws {
        store = nil
        let queue = try DatabaseQueue(path: scratch.file())
        try queue.write {
            try $0.execute(
                sql: "INSERT INTO barred_key (key, kind, barred_at) VALUES (?, ?, 900)",
                arguments: [key.blob, kind.rawValue])
        }
        try queue.close()
    }
}
