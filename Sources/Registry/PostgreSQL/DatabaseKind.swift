/// Who speaks PostgreSQL's protocol. The statements are the same for all; what surrounds them is not.
enum DatabaseKind {
    case postgresql
    /// Every transaction is serializable; nobody is notified, so changes are found by looking.
    case cockroach
    case yugabyte

    /// - Parameter version: what `version()` says.
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
    /// Transactions that change devices wait for each other instead of failing and being tried again.
    var locksTables: Bool { self == .postgresql }
}

/// Which database a store is in, so that one which may have gone back is found out: the cluster, its timeline, and the table.
///
/// The timeline changes with every promotion of a standby and every point-in-time recovery. It is that of the log being
/// written now: `pg_control_checkpoint()` keeps the old one until the first checkpoint after a promotion. The table's number
/// changes when a dump is restored.
enum DatabaseMark {
    /// - Parameter run: runs a statement without parameters.
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
            // The role may not ask. Another cluster with this table, of this number, on this timeline is then the operator's to
            // tell.
            return "-"
        }
    }
}

/// How far PostgreSQL's log is durable, at the end of a record: what is there after any crash.
///
/// What it calls flushed may lie in the midst of a record, which a crash undoes. So a position counts that was between two records
/// when it was read, once the log is flushed beyond it.
struct LogPosition {
    private(set) var durable: Int64
    private var next: Int64?

    init(durable: Int64) {
        self.durable = durable
    }

    /// - Parameters:
    ///   - inserted: where the next record begins.
    ///   - flushed: up to where the log is on the disk.
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

    /// The two, as columns of a query.
    static func columns(_ kind: DatabaseKind) -> String {
        kind == .postgresql
            ? """
            (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint, (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint
            """ : "0::bigint, 0::bigint"
    }
}
