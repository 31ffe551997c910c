/// Which database a store is in, so that one which may have gone back is found out: the cluster, its timeline, and the table.
///
/// The timeline changes with every promotion of a standby and every point-in-time recovery. It is that of the log being
/// written now: `pg_control_checkpoint()` keeps the old one until the first checkpoint after a promotion. The table's number
/// changes when a dump is restored.
enum DatabaseMark {
    static func read(_ database: RegistryDatabase) throws -> String {
        let table = try database.run("SELECT 'store'::regclass::oid::bigint").integer(0, 0)
        guard database.kind == .postgresql else { return "\(table)" }
        let timeline = try database.run("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)").text(0, 0)
        return "\(try system(database))/\(timeline)/\(table)"
    }

    private static func system(_ database: RegistryDatabase) throws -> String {
        do {
            return "\(try database.run("SELECT system_identifier FROM pg_control_system()").integer(0, 0))"
        } catch let fault as DatabaseFault where fault.state == "42501" {
            // The role may not ask. Another cluster with this table, of this number, on this timeline is then the operator's to
            // tell.
            return "-"
        }
    }
}
