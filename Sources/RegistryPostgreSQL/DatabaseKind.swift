/// The kind of a database that speaks PostgreSQL's protocol. All kinds use the same statements but differ in locking
/// and notification.
enum DatabaseKind {
    case postgresql
    /// Every transaction is serializable. There are no notifications, so changes are found by polling.
    case cockroach
    case yugabyte

    /// Recognizes the kind of a database.
    ///
    /// - Parameter version: The result of `version()`.
    init(version: String) {
        if version.contains("CockroachDB") {
            self = .cockroach
        } else if version.contains("-YB-") {
            self = .yugabyte
        } else {
            self = .postgresql
        }
    }

    var notifies: Bool { self == .postgresql }
    /// Whether transactions that change devices wait for each other. Otherwise they fail and are retried.
    var locksTables: Bool { self == .postgresql }
}

/// The identity of the database of a store, which detects that it may have gone back: the cluster, its timeline and the
/// table.
///
/// The timeline changes with each promotion of a standby and each point-in-time recovery. It is that of the log being
/// written now, because `pg_control_checkpoint()` keeps the old one until the first checkpoint after a promotion. The
/// number of the table changes when a dump is restored.
enum DatabaseMark {
    /// Reads the mark.
    ///
    /// - Parameter run: Runs a statement without parameters.
    static func read(
        _ kind: DatabaseKind, _ run: (String) throws -> DatabaseResult
    ) throws -> String {
        let table = try run("SELECT 'store'::regclass::oid::bigint").integer(0, 0)
        guard kind == .postgresql else { return "\(table)" }
        let timeline = try run("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)").text(0, 0)
        return "\(try system(run))/\(timeline)/\(table)"
    }

    private static func system(_ run: (String) throws -> DatabaseResult) throws -> String {
        do {
            return "\(try run("SELECT system_identifier FROM pg_control_system()").integer(0, 0))"
        } catch let fault as DatabaseFault where fault.state == "42501" {
            // The role may not read the identifier. The operator must then notice another cluster with the same table
            // number and timeline.
            return "-"
        }
    }
}

/// The position up to which PostgreSQL's log is durable, at a record boundary. Everything before it survives a crash.
///
/// The flushed position may be within a record, which a crash undoes. A position counts if it was between two records
/// when it was read, and the log is flushed beyond it.
struct LogPosition {
    private(set) var durable: Int64
    private var next: Int64?

    init(durable: Int64) {
        self.durable = durable
    }

    /// Updates the position.
    ///
    /// - Parameters:
    ///   - inserted: The start of the next record.
    ///   - flushed: The position up to which the log is on disk.
    mutating func update(inserted: Int64, flushed: Int64) {
        if let waiting = next, waiting <= flushed {
            durable = max(durable, waiting)
            next = nil
        }
        if inserted <= flushed {
            durable = max(durable, inserted)
        } else if next == nil {
            next = inserted
        }
    }

    /// The columns of a query for both positions.
    static func columns(_ kind: DatabaseKind) -> String {
        kind == .postgresql
            ? """
            (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint, (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint
            """ : "0::bigint, 0::bigint"
    }
}
