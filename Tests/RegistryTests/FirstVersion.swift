import GRDB
import Vocabulary

@testable import Registry

/// A file as the first version of the schema has it.
enum FirstVersion {
    /// Three devices as the first version wrote them: 1 bound, with counters folded and in the journal; 2 revoked, its
    /// binding ended; 3 unbound.
    static func write(_ scratch: Scratch) throws -> StoreIdentity {
        let queue = try DatabaseQueue(path: scratch.file())
        defer { try? queue.close() }
        try queue.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        try SQLiteSchema.migrator.migrate(queue, upTo: "v1")
        return try queue.write { database in
            for number in 1...3 {
                let identity = Fixture.identity(number)
                try database.execute(
                    sql: "INSERT INTO device VALUES (?, ?, ?, 'ios', 'production', ?, ?, ?)",
                    arguments: [
                        number, identity.hardwareKey.blob, identity.app.description, identity.point.bytes.blob,
                        1_000 + number, number == 2 ? 1_500 : nil,
                    ])
                var window = CounterWindow()
                if number == 1 { _ = window.accept(10, mode: .strict) }
                try database.execute(
                    sql: "INSERT INTO counter VALUES (?, ?, ?)",
                    arguments: [number, window.highest, window.bits.blob])
            }
            for number in 1...2 {
                try database.execute(
                    sql: "INSERT INTO binding VALUES (?, ?, ?, ?)",
                    arguments: [Fixture.bindingKey(number).blob, number, 1_100, number == 2 ? 1_400 : nil])
            }
            try database.execute(sql: "INSERT INTO journal VALUES (5, 1, 12), (6, 1, 20)")
            return try StoreIdentity.read(database)
        }
    }
}
