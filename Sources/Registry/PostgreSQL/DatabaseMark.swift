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
