internal import EventLoop
internal import Registry

/// The prepared statements of the connection for counters.
enum CounterStatements {
    static let commit = "commit"
    static let read = "read"
    static let find = "find"
    static let confirm = "confirm"
    static let changes = "changes"

    private static func confirmation(_ kind: DatabaseKind) -> String {
        "SELECT id, epoch, last, epoch_number, \(LogPosition.columns(kind)) FROM store CROSS JOIN feed"
    }

    private static let all = [
        // The statement has one row for each device. It writes a row only if spent values, shown extensions and
        // standing are those that the gateway assumed. If another transaction changes the row meanwhile, the newest
        // version is compared, even after a wait for that transaction.
        commit: """
        UPDATE counter SET highest = new.highest, bits = new.bits, shown_extensions = new.shown
        FROM unnest(
                $1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bytea[],
                $8::bigint[])
            AS new (device, standing, old_highest, old_bits, old_shown, highest, bits, shown),
            store
        WHERE counter.device = new.device AND counter.standing = new.standing
            AND counter.highest = new.old_highest AND counter.bits = new.old_bits
            AND counter.shown_extensions = new.old_shown AND store.epoch = $9
        RETURNING counter.device
        """,
        // The state of a device and of the binding of a request, in one snapshot.
        read: """
        SELECT asked.device, asked.key, highest, bits, shown_extensions, standing, revoked_at IS NOT NULL,
            binding.key IS NOT NULL, binding.ended_at IS NULL, epoch
        FROM unnest($1::bigint[], $2::bytea[]) AS asked (device, key)
        JOIN counter ON counter.device = asked.device JOIN device ON device.id = asked.device
        LEFT JOIN binding ON binding.key = asked.key AND binding.device = asked.device
        CROSS JOIN store
        """,
        find: """
        SELECT \(SQLColumns.device), \(SQLColumns.posture), binding.created_at, bits, standing,
            binding.ended_at IS NULL
        FROM \(SQLColumns.deviceTables) JOIN binding ON binding.device = device.id \(SQLColumns.postureTables)
        WHERE binding.key = $1
        """,
        // The current state of changed devices, with a row for each change and each binding of its device.
        changes: """
        SELECT \(SQLColumns.device), \(SQLColumns.posture), change.seq, change.ended, bits, binding.key,
            binding.ended_at IS NULL, coalesce(ended_at, ends_at)
        FROM (SELECT * FROM change WHERE seq > $1 ORDER BY seq LIMIT 32) AS change
        JOIN device ON device.id = change.device JOIN counter ON counter.device = change.device
        \(SQLColumns.postureTables)
        LEFT JOIN binding ON binding.device = change.device
        ORDER BY change.seq
        """,
    ]

    /// Connects to the database of a store. Blocks.
    ///
    /// - Returns: The connection in pipeline mode, and the number of the latest change.
    static func connect(
        _ settings: PostgreSQLSettings, to identity: StoreIdentity, _ kind: DatabaseKind, mark: String
    ) throws -> (DatabaseConnection, position: Int64) {
        let connection = try DatabaseConnection.open(settings)
        let deadline = { Instant.now + settings.limits.answering }
        for (name, sql) in all { try connection.prepare(name, sql, until: deadline()) }
        try connection.prepare(confirm, confirmation(kind), until: deadline())
        // Listening starts before the first look, so that no later change is missed.
        if kind.notifies { _ = try connection.execute("LISTEN attestgate", until: deadline()) }
        let row = try connection.run(confirmation(kind), [], until: deadline())
        // A standby may have been promoted, or an epoch drawn, since the other connection was opened.
        let found = try DatabaseMark.read(kind) { try connection.run($0, [], until: deadline()) }
        guard found == mark, row.rows == 1, row.bytes(0, 0) == identity.store.bytes,
            row.bytes(0, 1) == identity.epoch.bytes
        else { throw DatabaseFault("two connections reached different databases, or different epochs of one") }
        let position = try row.integer(0, 2)
        try connection.enterPipeline()
        return (connection, position)
    }
}
