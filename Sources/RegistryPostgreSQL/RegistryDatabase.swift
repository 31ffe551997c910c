internal import EventLoop
internal import Glibc
internal import Registry
internal import RevocationJournal
internal import Vocabulary

/// The registry in PostgreSQL with blocking operations and transactions, for operators and enrolment.
///
/// It is used by one thread at a time. Counters use another connection.
final class RegistryDatabase: WitnessedStore {
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
            let row = try run("SELECT mark FROM store")
            let state = try DatabaseReader(self).facts(StoreLook()).state
            // The first mark belongs to the initial epoch.
            let hasMoved = !row.isNull(0, 0) && row.optionalText(0, 0) != mark
            // Another gateway may already have drawn an epoch for the same reason.
            if number.map({ state.epochNumber < $0 }) ?? hasMoved {
                _ = try run(StoreWrite.setState(state.renewed(RandomID(), numbered: number ?? 0)).databaseStatements)
            }
            _ = try run("UPDATE store SET mark = $1", [.text(mark)])
            return try readIdentity()
        }
    }

    // MARK: - Statements

    func run(_ sql: String, _ arguments: [SQLValue] = []) throws(DatabaseFault) -> DatabaseResult {
        try connection.run(sql, arguments, until: .now + settings.limits.answering)
    }

    /// Runs statements in one round trip until one fails.
    func run(_ statements: [SQLStatement]) throws(DatabaseFault) -> [DatabaseResult] {
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
        _ = try execute(purpose == .reading ? Self.beginReading : Self.beginWriting)
        let result: Result
        do {
            // The lock precedes the first read, which would otherwise see the state before the wait.
            if purpose == .changing, kind.locksTables { _ = try execute(Self.lock) }
            result = try body()
        } catch {
            if let fault = error as? DatabaseFault, fault.state.isEmpty { throw error }
            _ = try execute("ROLLBACK")
            throw error
        }
        try commit()
        return result
    }

    static let beginReading = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    private static let beginWriting = "BEGIN ISOLATION LEVEL SERIALIZABLE"
    static let lock = "LOCK TABLE feed IN EXCLUSIVE MODE"
    private static let notify = "NOTIFY attestgate"

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

    // MARK: - Operations

    /// Performs an operation.
    ///
    /// - Parameters:
    ///   - time: The current time, in seconds since 1970-01-01T00:00:00Z.
    ///   - spending: Receives the device before its counter is written. From then on the value counts as spent,
    ///     whatever the outcome of the transaction.
    func perform(
        _ command: RegistryCommand, at time: Int64, spending: (DeviceID) -> Void = { _ in }
    ) throws -> RegistryReply {
        if let rule = command.rule(at: time) { return try decide(rule, at: time, spending: spending) }
        if case .export(let cursor, let limit) = command {
            return .exportPage(try exportPage(from: cursor, limit: limit, at: time))
        }
        return try retrying {
            try DatabaseReader(self, before: [Self.beginReading], after: [Self.commit]).reply(to: command, at: time)
        }
    }

    /// Reads a page of an export in one transaction. See `DatabaseReader.exportPage`.
    func exportPage(from cursor: ExportCursor, limit: Int, at time: Int64) throws -> ExportPage {
        try transaction(.reading) { try DatabaseReader(self).exportPage(from: cursor, limit: limit, at: time) }
    }

    /// Looks, decides and writes in one transaction with two round trips. It has the guarantees of `transaction`.
    func decide<Reply>(
        _ rule: StoreRule<Reply>, at time: Int64, spending: (DeviceID) -> Void = { _ in }
    ) throws -> Reply {
        if rule.isOftenIdle {
            let decision = try rule.decide(try DatabaseReader(self).facts(rule.look))
            if decision.writes.isEmpty { return decision.reply([]) }
        }
        return try retrying {
            let decision = try look(rule)
            if decision.writes.isEmpty, decision.reading.isEmpty {
                _ = try execute("ROLLBACK")
                return decision.reply([])
            }
            for case .spend(_, let device, _, _) in decision.writes { spending(device) }
            return decision.reply(try write(decision.writes, reading: decision.reading, at: time))
        }
    }

    private func look<Reply>(_ rule: StoreRule<Reply>) throws -> StoreDecision<Reply> {
        // LOCK takes no snapshot, so the reads see the state after the wait.
        let begin = [Self.beginWriting] + (rule.isExclusive && kind.locksTables ? [Self.lock] : [])
        do {
            return try rule.decide(try DatabaseReader(self, before: begin).facts(rule.look))
        } catch {
            try undo(after: error)
            throw error
        }
    }

    /// Writes and commits in one round trip, which shortens the wait of others.
    ///
    /// - Returns: The details of the devices after the writes.
    private func write(
        _ writes: [StoreWrite], reading devices: [DeviceSelector], at time: Int64
    ) throws -> [DeviceDetails] {
        let changes = writes.flatMap(\.databaseStatements)
        let details = devices.flatMap { DatabaseReader.details(of: $0) }
        let notes = Announcement.all(of: writes).map { $0.statement(at: time) }
        var statements = changes + details + notes
        if !notes.isEmpty, kind.notifies { statements.append(SQLStatement(Self.notify)) }
        statements.append(SQLStatement(Self.commit))
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
        let read = changes.count + details.count
        if !notes.isEmpty { lastChange = try results[read + notes.count - 1].integer(0, 0) }
        return try DatabaseReader(self).existing(results[changes.count..<read].map(\.all), devices.count)
    }

    func undo(after error: any Error) throws {
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

    // MARK: - Witness

    /// The progress of a database as read from it.
    struct FoundProgress {
        let progress: StoreProgress
        let isJournaled: Bool
        /// Whether the database is not the one in which its epoch was drawn.
        let hasMoved: Bool

        func progress(at position: Int64) -> StoreProgress {
            StoreProgress(
                store: progress.store, lineage: progress.lineage, position: position, standing: progress.standing,
                epochNumber: progress.epochNumber)
        }
    }

    func readProgress() throws -> FoundProgress {
        let row = try run(
            """
            SELECT \(LogPosition.columns(kind)), last, epoch_number, is_journaled, mark, id FROM store CROSS JOIN feed
            """)
        guard row.rows == 1, let store = RandomID(row.bytes(0, 6)) else { throw UnreadableRow(table: "store") }
        return FoundProgress(
            progress: StoreProgress(
                store: store, lineage: mark, position: try row.integer(0, 0), standing: try row.integer(0, 2),
                epochNumber: try row.integer(0, 3)),
            isJournaled: try row.integer(0, 4) != 0,
            hasMoved: !row.isNull(0, 5) && row.optionalText(0, 5) != mark)
    }

    func standing() throws -> Int64 { try readProgress().progress.standing }

    func becomeJournaled() throws {
        try transaction(.unordered) { _ = try run("UPDATE store SET is_journaled = 1") }
    }

    func eachRevocation(_ body: ([WitnessEntry]) -> Void) throws {
        try DatabaseReader(self).eachRevocation(body)
    }

    func replay(_ entries: [WitnessEntry], at time: Int64) throws {
        try decide(JournalReplay.rule(for: entries, at: time), at: time)
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
