internal import EventLoop
internal import Glibc
internal import Registry
internal import RevocationJournal
internal import Vocabulary

/// The registry in PostgreSQL with blocking operations and transactions, for operators and enrolment.
///
/// It is used by one thread at a time. Counters use another connection.
final class RegistryDatabase {
    let settings: PostgreSQLSettings
    let kind: DatabaseKind
    let connection: DatabaseConnection
    private(set) var identity = StoreIdentity(store: RandomID(), epoch: RandomID())
    /// The identity of the database.
    private(set) var mark = ""
    /// The progress when the database was opened.
    private(set) var initialProgress = StoreProgress(
        store: RandomID(), lineage: "", position: 0, standing: 0, epochNumber: 0)
    /// Whether the tables were created when the database was opened.
    private(set) var isMade = false
    /// The number of the latest change in the current transaction.
    private var noted: Int64?
    /// The number of the latest change of this object's transactions.
    private(set) var lastChange: Int64 = 0

    /// Connects, migrates the tables, and compares the database with its witness. Blocks.
    ///
    /// - Parameter making: Whether to create missing tables.
    convenience init(_ settings: PostgreSQLSettings, _ witness: Witness?, making: Bool) throws {
        do { try self.init(atRest: settings, making: making, isLoading: false) } catch is PostgreSQLSchema.Missing {
            guard let witness = settings.witness else { throw StoreOpenError.missing(path: settings.name) }
            throw StoreOpenError.storeLost(path: settings.name, witness: witness.path)
        }
        mark = try DatabaseMark.read(kind) { try run($0) }
        let found = try readProgress()
        // The new mark is written later. If this opening fails, the next one still notices a move.
        let number = try witness?.reconcile(
            self, found.progress, isJournaled: found.isJournaled, mayJoin: !found.hasMoved)
        try begin(epochNumber: number ?? nil)
        // Everything up to this position is durable, because a commit followed.
        var initialProgress = try readProgress().progress(at: found.progress.position)
        // The journal does not contain later changes of other gateways yet. They come from the feed.
        initialProgress.standing = found.progress.standing
        self.initialProgress = initialProgress
        witness?.mark(initialProgress, isSynced: true)
        try compareClocks()
    }

    /// Returns whether pseudonyms are in use, for devices or barred people.
    func isPopulated() throws -> Bool { try hasRows("device") || hasRows("revoked_subject") }

    private func hasRows(_ table: String) throws -> Bool {
        try run("SELECT 1::bigint FROM \(table) LIMIT 1").rows > 0
    }

    /// Connects without a witness, for commands. A gateway notices later if the database has moved.
    ///
    /// - Parameter isLoading: Whether the command imports.
    init(atRest settings: PostgreSQLSettings, making: Bool, isLoading: Bool) throws {
        self.settings = settings
        connection = try DatabaseConnection.open(settings)
        let answer = try connection.run("SELECT version()", [], until: .now + settings.limits.answering)
        kind = DatabaseKind(version: answer.text(0, 0))
        try DatabaseDurability(self).check()
        isMade = try PostgreSQLSchema.migrate(self, making: making, isLoading: isLoading)
        if !isLoading, try run("SELECT is_loading FROM store").integer(0, 0) != 0 {
            throw StoreOpenError.unfinishedImport(path: settings.name)
        }
        identity = try readIdentity()
    }

    /// Returns the time of the database, in seconds since 1970-01-01T00:00:00Z.
    func clock() throws -> Int64 { try run("SELECT floor(extract(epoch FROM now()))::bigint").integer(0, 0) }

    private func compareClocks() throws {
        let now = WallClock.seconds
        if let notice = WitnessNotice(clock: now, database: try clock()) { settings.witness?.notice(notice) }
        let end = try run("SELECT tokens_removed FROM store").integer(0, 0)
        if let notice = WitnessNotice(tokensRefusedUntil: end, at: now) { settings.witness?.notice(notice) }
    }

    private func readIdentity() throws -> StoreIdentity {
        let row = try run("SELECT id, epoch FROM store")
        guard row.rows == 1, let store = RandomID(row.bytes(0, 0)), let epoch = RandomID(row.bytes(0, 1)) else {
            throw UnreadableRow(table: "store")
        }
        return StoreIdentity(store: store, epoch: epoch)
    }

    /// Draws a fresh epoch if the database has moved since the current one was drawn. Always writes.
    ///
    /// - Parameter number: The minimum number of a required epoch. Nil if the epoch is fresh only after a move.
    private func begin(epochNumber number: Int64?) throws {
        let mark = mark
        // The identity is stored only after the transaction has succeeded.
        identity = try transaction(.changing) {
            let row = try run("SELECT mark, epoch_number FROM store")
            guard row.rows == 1 else { throw UnreadableRow(table: "store") }
            // The first mark belongs to the initial epoch.
            let hasMoved = !row.isNull(0, 0) && row.optionalText(0, 0) != mark
            // Another gateway may already have drawn an epoch for the same reason.
            if try number.map({ try row.integer(0, 1) < $0 }) ?? hasMoved {
                try writeEpoch(RandomID(), numbered: number ?? 0)
            }
            _ = try run("UPDATE store SET mark = $1", [.text(mark)])
            return try readIdentity()
        }
    }

    /// Writes an epoch.
    ///
    /// - Parameter latest: See `RegistryStore.renewEpoch`.
    private func writeEpoch(
        _ epoch: RandomID, numbered number: Int64, refusingTokensAtMostUntil latest: Int64 = .max
    ) throws {
        // Nonces belong to an epoch, so removed ones cannot return.
        _ = try run(
            """
            UPDATE store SET epoch = $1, nonces_removed = 0, epoch_number = greatest(epoch_number + 1, $2),
                tokens_removed = least(tokens_removed, $3)
            """, [.bytes(epoch.bytes), .integer(number), .integer(latest)])
    }

    func renewEpoch(at time: Int64) throws -> StoreIdentity {
        let epoch = RandomID()
        try transaction(.changing) {
            try writeEpoch(epoch, numbered: 0, refusingTokensAtMostUntil: time + SingleUse.longestTokenLife)
        }
        identity = StoreIdentity(store: identity.store, epoch: epoch)
        return identity
    }

    // MARK: - Statements

    func run(_ sql: String, _ arguments: [DatabaseValue] = []) throws(DatabaseFault) -> DatabaseResult {
        try connection.run(sql, arguments, until: .now + settings.limits.answering)
    }

    /// Runs statements in one round trip until one fails.
    func run(_ statements: [DatabaseStatement]) throws(DatabaseFault) -> [DatabaseResult] {
        let results = try connection.run(statements, patience: settings.limits.answering)
        if let fault = results.last?.fault { throw fault }
        return results
    }

    func execute(_ sql: String) throws(DatabaseFault) -> DatabaseResult {
        try connection.execute(sql, until: .now + settings.limits.answering)
    }

    // MARK: - Transactions

    enum Purpose {
        case reading
        /// Changes devices. These transactions run one after the other, so that their reads stay valid.
        case changing
        /// Writes before there are tables, or where order does not matter.
        case unordered
    }

    /// An error after which the transaction may or may not be committed.
    struct UnknownOutcome: Error {
        let detail: String
    }

    /// Runs `body` in a transaction, which is durable when this returns and rolled back when it throws. It may be
    /// either after `UnknownOutcome`.
    ///
    /// Conflicts with other transactions are retried for a limited time.
    func transaction<Result>(_ purpose: Purpose, _ body: () throws -> Result) throws -> Result {
        try retrying { try tryTransaction(purpose, body) }
    }

    func retrying<Result>(_ body: () throws -> Result) throws -> Result {
        let deadline = Instant.now + settings.limits.queueing
        var attempt: UInt32 = 0
        while true {
            do {
                return try body()
            } catch let fault as DatabaseFault where fault.isPassing && Instant.now < deadline {
                attempt += 1
                usleep(UInt32.random(in: 500...(2_000 * min(attempt, 20))))
            }
        }
    }

    private func tryTransaction<Result>(_ purpose: Purpose, _ body: () throws -> Result) throws -> Result {
        noted = nil
        _ = try execute(purpose == .reading ? Self.beginReading : Self.beginWriting)
        let result: Result
        do {
            // The lock precedes the first read, which would otherwise see the state before the wait.
            if purpose == .changing, kind.locksTables { _ = try execute(Self.lock) }
            result = try body()
            if noted != nil, kind.notifies { _ = try execute(Self.notify) }
        } catch {
            if let fault = error as? DatabaseFault, fault.state.isEmpty { throw error }
            _ = try execute("ROLLBACK")
            throw error
        }
        try commit()
        if let noted { lastChange = noted }
        return result
    }

    private static let beginReading = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    private static let beginWriting = "BEGIN ISOLATION LEVEL SERIALIZABLE"
    static let lock = "LOCK TABLE feed IN EXCLUSIVE MODE"
    static let notify = "NOTIFY attestgate"

    func commit() throws {
        let warnings = connection.warnings
        let answer: DatabaseResult
        do { answer = try execute(Self.commit) } catch { throw Self.trouble(ofCommit: error) }
        try check(commit: answer, warningsBefore: warnings)
    }

    static let commit = "COMMIT"

    /// Returns the error of a failed COMMIT. It is the fault itself if nothing was done.
    static func trouble(ofCommit fault: DatabaseFault) -> any Error {
        // Everything before was successful, so the wait is mostly for the standby in synchronous_standby_names.
        let question = fault.isNoAnswer ? ": is a synchronous standby connected? see pg_stat_replication" : ""
        return fault.isPassing ? fault : UnknownOutcome(detail: "COMMIT: \(fault)\(question)")
    }

    /// The server reports a cancelled wait for a synchronous standby as done, with a warning.
    func check(commit answer: DatabaseResult, warningsBefore warnings: Int) throws {
        guard answer.tag == "COMMIT", connection.warnings == warnings else {
            throw UnknownOutcome(detail: "COMMIT was answered with \(answer.tag) and a warning")
        }
    }

    /// Announces a change of a device to all gateways.
    ///
    /// - Parameter ended: The binding that has ended, if any.
    func note(_ device: DeviceID, ended: KeyID? = nil, at time: Int64) throws {
        noted = try run([Self.note(device, ended: ended, at: time)])[0].integer(0, 0)
    }

    /// Returns a statement that announces a change and returns its number.
    static func note(_ device: DeviceID, ended: KeyID? = nil, at time: Int64) -> DatabaseStatement {
        DatabaseStatement(
            """
            WITH next AS (UPDATE feed SET last = last + 1 RETURNING last)
            INSERT INTO change (seq, device, ended, changed_at)
            SELECT last, $1::bigint, $2::bytea, $3::bigint FROM next RETURNING seq
            """, [.device(device), .bytes(ended?.bytes), .integer(time)])
    }

    /// Records the number of a change in a committed transaction.
    private func hasNoted(_ number: Int64) { lastChange = number }

    /// Records that the validity of the device or a binding has changed. Counters that were planned with the old
    /// standing are decided again.
    func changeStanding(of device: DeviceID) throws {
        _ = try run("UPDATE counter SET standing = standing + 1 WHERE device = $1", [.device(device)])
    }

    // MARK: - Decisions

    /// The decision after a read.
    enum Decision<Result> {
        /// Nothing is written.
        case refused(Result)
        /// Statements are written. `noting` is the device whose change is announced, and `reading` converts the
        /// results.
        case write([DatabaseStatement], noting: DeviceID?, reading: ([DatabaseResult]) throws -> Result)
    }

    /// Reads, decides and writes in one transaction with two round trips. It has the guarantees of `transaction`.
    ///
    /// - Parameters:
    ///   - purpose: `changing` if a change is announced.
    ///   - decide: Receives the results of `looks`. It is called again after a conflict.
    func decide<Result>(
        _ purpose: Purpose, by looks: [DatabaseStatement], at time: Int64,
        _ decide: ([DatabaseResult]) throws -> Decision<Result>
    ) throws -> Result {
        try retrying {
            switch try look(purpose, looks, decide) {
            case .refused(let result):
                _ = try execute("ROLLBACK")
                return result
            case .write(let statements, let noting, let reading):
                return try reading(try write(statements, noting: noting, at: time))
            }
        }
    }

    private func look<Result>(
        _ purpose: Purpose, _ looks: [DatabaseStatement], _ decide: ([DatabaseResult]) throws -> Decision<Result>
    ) throws -> Decision<Result> {
        var statements = [DatabaseStatement(Self.beginWriting)]
        // LOCK takes no snapshot, so the reads see the state after the wait.
        if purpose == .changing, kind.locksTables { statements.append(DatabaseStatement(Self.lock)) }
        let begin = statements.count
        do {
            return try decide([DatabaseResult](try run(statements + looks)[begin...]))
        } catch {
            try undo(after: error)
            throw error
        }
    }

    /// Writes and commits in one round trip, which shortens the wait of others.
    private func write(
        _ changes: [DatabaseStatement], noting device: DeviceID?, at time: Int64
    ) throws -> [DatabaseResult] {
        var statements = changes
        if let device {
            statements.append(Self.note(device, at: time))
            if kind.notifies { statements.append(DatabaseStatement(Self.notify)) }
        }
        statements.append(DatabaseStatement(Self.commit))
        // If this fails, nothing was sent, so the outcome is known.
        do { try connection.prepare(statements, patience: settings.limits.answering) } catch {
            try undo(after: error)
            throw error
        }
        let warnings = connection.warnings
        let results: [DatabaseResult]
        // The transaction may be committed although the answer is missing.
        do { results = try connection.run(statements, patience: settings.limits.answering) } catch {
            throw Self.trouble(ofCommit: error)
        }
        if let fault = results.last?.fault {
            guard results.count < statements.count else { throw Self.trouble(ofCommit: fault) }
            try undo(after: fault)
            throw fault
        }
        try check(commit: results[statements.count - 1], warningsBefore: warnings)
        if device != nil { hasNoted(try results[changes.count].integer(0, 0)) }
        return [DatabaseResult](results[..<changes.count])
    }

    private func undo(after error: any Error) throws {
        // A failed connection is rolled back by its end.
        if let fault = error as? DatabaseFault, fault.state.isEmpty { return }
        _ = try execute("ROLLBACK")
    }

    // MARK: - Secret

    /// Returns the check value of the secret. Nil if no secret was ever used.
    func secretCheck() throws -> Fingerprint? {
        let row = try run("SELECT secret_check FROM store")
        guard row.rows == 1 else { throw UnreadableRow(table: "store") }
        guard let bytes = row.optionalBytes(0, 0) else { return nil }
        guard let check = Fingerprint(bytes) else { throw UnreadableRow(table: "store") }
        return check
    }

    /// Checks the secret before the database is used. Of gateways that start at the same time with different secrets,
    /// only one succeeds.
    func confirm(_ claim: SecretClaim) throws {
        let (store, check) = try transaction(.changing) {
            let store = SecretClaim.Registered(
                check: try secretCheck(), isPopulated: try isPopulated(), isShared: true, name: settings.name)
            let check = try claim.check(for: store)
            if check != store.check {
                _ = try run("UPDATE store SET secret_check = $1", [.bytes(check.bytes)])
            }
            return (store, check)
        }
        claim.confirm(check, in: store)
    }

    // MARK: - Other users, owed values

    /// Returns the number of other connections of gateways and commands.
    func otherUsers() throws -> Int {
        guard kind == .postgresql else { return 0 }
        return Int(
            try run(
                """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'attestgate' AND pid <> pg_backend_pid()
                """
            ).integer(0, 0))
    }

    /// Writes values that are spent in memory but may be missing in the database.
    func pay(_ owed: [DeviceID: [UInt32]]) throws {
        for (device, values) in owed.sorted(by: { $0.key < $1.key }) {
            try transaction(.unordered) {
                let row = try run("SELECT highest, bits FROM counter WHERE device = $1 FOR UPDATE", [.device(device)])
                guard row.rows == 1 else { return }
                var window = try row.window(0, 0)
                // Values below the window count as spent.
                for value in values { _ = window.accept(value, mode: .unspent) }
                _ = try run(
                    "UPDATE counter SET highest = $1, bits = $2 WHERE device = $3",
                    [.integer(Int64(window.highest)), .bytes(window.bits), .device(device)])
            }
        }
    }
}

/// A check that committed transactions are on disk and survive a failover.
private struct DatabaseDurability {
    private let database: RegistryDatabase

    init(_ database: RegistryDatabase) {
        self.database = database
    }

    func check() throws {
        // The other kinds replicate by consensus and need no settings.
        guard database.kind == .postgresql else { return }
        for name in ["fsync", "full_page_writes"] where try setting(name) != "on" {
            throw refusal("\(name) must be on")
        }
        let commit = try setting("synchronous_commit")
        guard database.settings.hosts.count > 1 else {
            if commit == "off" { throw refusal("synchronous_commit must not be off") }
            return
        }
        // A promoted host must have every acknowledged transaction.
        guard ["on", "remote_apply"].contains(commit) else {
            throw refusal("with several hosts synchronous_commit must be on or remote_apply, not \(commit)")
        }
        guard try !setting("synchronous_standby_names").isEmpty else {
            throw refusal("with several hosts synchronous_standby_names must not be empty")
        }
    }

    private func setting(_ name: String) throws -> String {
        try database.run("SELECT current_setting($1)", [.text(name)]).text(0, 0)
    }

    private func refusal(_ detail: String) -> StoreOpenError {
        .failed(path: database.settings.name, detail: detail)
    }
}
