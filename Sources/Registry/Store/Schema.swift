internal import GRDB

/// The tables, and how older files are brought up to them.
enum Schema {
    /// Marks the file as ours (`PRAGMA application_id`): "AGRG".
    static let applicationID: Int32 = 0x4147_5247

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1", migrate: createFirst)
        return migrator
    }

    private static func createFirst(_ database: Database) throws {
        try database.execute(sql: "PRAGMA application_id = \(applicationID)")
        // Devices and bindings are never deleted: a key's row is what keeps it from being registered or bound again.
        // Counters lie apart from devices: folding rewrites them all the time, and small rows share a page.
        try database.execute(
            sql: """
                CREATE TABLE store (
                    only INTEGER PRIMARY KEY CHECK (only = 1),
                    id BLOB NOT NULL CHECK (length(id) = 16),
                    epoch BLOB NOT NULL CHECK (length(epoch) = 16)
                ) STRICT;

                CREATE TABLE device (
                    id INTEGER PRIMARY KEY,
                    hardware_key BLOB NOT NULL UNIQUE CHECK (length(hardware_key) = 32),
                    app TEXT NOT NULL,
                    platform TEXT NOT NULL,
                    environment TEXT NOT NULL,
                    point BLOB NOT NULL CHECK (length(point) = 65),
                    registered_at INTEGER NOT NULL,
                    revoked_at INTEGER
                ) STRICT;

                CREATE TABLE counter (
                    device INTEGER PRIMARY KEY REFERENCES device (id),
                    highest INTEGER NOT NULL CHECK (highest BETWEEN 0 AND 4294967295),
                    bits BLOB NOT NULL CHECK (length(bits) = 128)
                ) STRICT;

                CREATE TABLE binding (
                    key BLOB PRIMARY KEY CHECK (length(key) = 32),
                    device INTEGER NOT NULL REFERENCES device (id),
                    created_at INTEGER NOT NULL,
                    ended_at INTEGER
                ) STRICT, WITHOUT ROWID;
                CREATE INDEX binding_device ON binding (device);

                CREATE TABLE journal (
                    seq INTEGER PRIMARY KEY,
                    device INTEGER NOT NULL,
                    counter INTEGER NOT NULL CHECK (counter BETWEEN 0 AND 4294967295)
                ) STRICT;
                """)
        let identity = StoreIdentity(store: RandomID(), epoch: RandomID())
        try database.execute(
            sql: "INSERT INTO store (only, id, epoch) VALUES (1, ?, ?)",
            arguments: [identity.store.bytes.blob, identity.epoch.bytes.blob])
    }
}
