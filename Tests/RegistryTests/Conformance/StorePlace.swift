import EventLoop
import GRDB
import Testing
import Vocabulary

@testable import Registry

/// Where the stores of one test lie, of one kind: the suites of this folder are run for each kind there is.
protocol StorePlace: AnyObject {
    /// Opens the store, which is made when it is opened first. One that was opened before has been closed.
    func open() throws -> any StoreBackend
    /// Lets no counter become durable from here on, whoever tries.
    func refuseCounters(of backend: any StoreBackend) throws
    func takeCounters(of backend: any StoreBackend) throws
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
}
