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
