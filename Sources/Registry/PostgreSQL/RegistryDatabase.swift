internal import EventLoop
internal import Glibc
internal import Vocabulary

/// The registry in PostgreSQL, with methods that wait: operations of operators and enrolment, in transactions of their
/// own.
///
/// Used by one thread at a time. Counters take another connection.
final class RegistryDatabase {
    let settings: PostgreSQLSettings
    let kind: DatabaseKind
    let connection: DatabaseConnection
    private(set) var identity = StoreIdentity(store: RandomID(), epoch: RandomID())
    /// Which database this is.
    private(set) var mark = ""
    /// How far it had come when it was opened.
    private(set) var begun = StoreProgress(store: RandomID(), lineage: "", position: 0, standing: 0, epochNumber: 0)
    /// Whether its tables were made when it was opened.
    private(set) var isMade = false
    /// The number of the latest change that the transaction under way has noted.
    private var noted: Int64?
    /// That of the last transaction that noted any.
    private(set) var lastChange: Int64 = 0

    /// Connects, brings the tables up to date, and compares them with what is known of them. Waits.
    ///
    /// - Parameter making: whether tables are made where there are none.
    convenience init(_ settings: PostgreSQLSettings, _ witness: Witness?, making: Bool) throws {
        do { try self.init(atRest: settings, making: making, isLoading: false) } catch is PostgreSQLSchema.Missing {
            guard let witness = settings.witness else { throw StoreOpenError.missing(path: settings.name) }
            throw StoreOpenError.storeLost(path: settings.name, witness: witness.path)
        }
        mark = try DatabaseMark.read(kind) { try run($0) }
        let found = try readProgress()
        // Before the new mark is written: if this opening is refused, the next one still notices the move.
        let number = try witness?.reconcile(
            self, found.progress, isJournaled: found.isJournaled, mayJoin: !found.hasMoved)
        try begin(epochNumber: number ?? nil)
        // All that was written when it was read is durable, for something has been committed since.
        var begun = try readProgress().progress(at: found.progress.position)
        // What others have changed since, the journal does not say yet: it is heard from the feed, from here on.
        begun.standing = found.progress.standing
        self.begun = begun
        witness?.mark(begun, isSynced: true)
        try compareClocks()
    }

    /// Whether there is a device, or a person, that services or the registry name by the secret.
    func isPopulated() throws -> Bool { try hasRows("device") || hasRows("revoked_subject") }

    private func hasRows(_ table: String) throws -> Bool {
        try run("SELECT 1::bigint FROM \(table) LIMIT 1").rows > 0
    }

    /// Without the comparison, for commands: that the database has moved is left to be noticed by a gateway, which has a witness.
    ///
    /// - Parameter isLoading: whether it is for an import.
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

    /// Its clock, in seconds since 1970-01-01T00:00:00Z.
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

    /// Draws a fresh epoch unless the database is where it was when the current one was drawn. Writes in any case.
    ///
    /// - Parameter number: which epoch it is to have at least, whether or not it has moved; nil if it is as good as it was.
    private func begin(epochNumber number: Int64?) throws {
        let mark = mark
        // Remembered only when the transaction has succeeded.
        identity = try transaction(.changing) {
            let row = try run("SELECT mark, epoch_number FROM store")
            guard row.rows == 1 else { throw UnreadableRow(table: "store") }
            // The very first mark goes with the epoch that the store was made with.
            let hasMoved = !row.isNull(0, 0) && row.optionalText(0, 0) != mark
            // Another gateway may have come first, and for the same reason.
            if try number.map({ try row.integer(0, 1) < $0 }) ?? hasMoved {
                try writeEpoch(RandomID(), numbered: number ?? 0)
            }
            _ = try run("UPDATE store SET mark = $1", [.text(mark)])
            return try readIdentity()
        }
    }

    /// - Parameter latest: see `RegistryStore.renewEpoch`.
    private func writeEpoch(
        _ epoch: RandomID, numbered number: Int64, refusingTokensAtMostUntil latest: Int64 = .max
    ) throws {
        // Nonces are bound to the epoch too: none of those removed from the list can come back.
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

    /// In one way to the database and back, until one fails.
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
        /// Changes devices, and so one after the other: what has been looked at does not change until it is decided.
        case changing
        /// The same before there are tables, or where order does not matter.
        case unordered
    }

    /// The database may or may not have done it.
    struct Unknown: Error {
        let detail: String
    }

    /// Runs `body` in one transaction, durable when this returns, undone when it throws; unknown if it throws `Unknown`.
    ///
    /// What fails because of others is tried again from the beginning, for a while.
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
            // Before the first look, which would otherwise be at what was there before the wait.
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
    static let beginWriting = "BEGIN ISOLATION LEVEL SERIALIZABLE"
    static let lock = "LOCK TABLE feed IN EXCLUSIVE MODE"
    static let notify = "NOTIFY attestgate"

    func commit() throws {
        let warnings = connection.warnings
        let answer: DatabaseResult
        do { answer = try execute(Self.commit) } catch { throw Self.trouble(ofCommit: error) }
        try check(commit: answer, warningsBefore: warnings)
    }

    static let commit = "COMMIT"

    /// - Returns: the fault itself where nothing was done.
    static func trouble(ofCommit fault: DatabaseFault) -> any Error {
        // All went well up to here, so what is waited for is mostly the standby that synchronous_standby_names promises.
        let question = fault.isNoAnswer ? ": is a synchronous standby connected? see pg_stat_replication" : ""
        return fault.isPassing ? fault : Unknown(detail: "COMMIT: \(fault)\(question)")
    }

    /// The server reports a cancelled wait for a synchronous standby as done, with a warning.
    func check(commit answer: DatabaseResult, warningsBefore warnings: Int) throws {
        guard answer.tag == "COMMIT", connection.warnings == warnings else {
            throw Unknown(detail: "COMMIT was answered with \(answer.tag) and a warning")
        }
    }

    /// Tells every gateway that the device has changed. - Parameter ended: the binding that has ended, if one has.
    func note(_ device: DeviceID, ended: KeyID? = nil, at time: Int64) throws {
        noted = try run([Self.note(device, ended: ended, at: time)])[0].integer(0, 0)
    }

    /// - Returns: a statement that answers with the number of the change.
    static func note(_ device: DeviceID, ended: KeyID? = nil, at time: Int64) -> DatabaseStatement {
        DatabaseStatement(
            """
            WITH next AS (UPDATE feed SET last = last + 1 RETURNING last)
            INSERT INTO change (seq, device, ended, changed_at)
            SELECT last, $1::bigint, $2::bytea, $3::bigint FROM next RETURNING seq
            """, [.device(device), .bytes(ended?.bytes), .integer(time)])
    }

    /// The number of the change in a transaction that has been committed.
    func hasNoted(_ number: Int64) { lastChange = number }

    /// Whether the device and its bindings are valid has changed: counters that were planned with the old state are
    /// decided again.
    func changeStanding(of device: DeviceID) throws {
        _ = try run("UPDATE counter SET standing = standing + 1 WHERE device = $1", [.device(device)])
    }

    // MARK: - Decisions

    /// What was made of a look.
    enum Decision<Result> {
        /// Nothing is written.
        case refused(Result)
        /// - noting: the device whose change is announced to other gateways; nil if none is.
        /// - reading: what comes of it, by what the statements have answered.
        case write([DatabaseStatement], noting: DeviceID?, reading: ([DatabaseResult]) throws -> Result)
    }

    /// In one transaction, with the promises of `transaction`.
    ///
    /// - Parameters:
    ///   - purpose: `changing` for whatever notes a change.
    ///   - decide: is given the answers of `looks`; called again where something has to be tried again.
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
        // Takes no snapshot: what is looked at after it is what is there after the wait.
        if purpose == .changing, kind.locksTables { statements.append(DatabaseStatement(Self.lock)) }
        let begin = statements.count
        do {
            return try decide([DatabaseResult](try run(statements + looks)[begin...]))
        } catch {
            try undo(after: error)
            throw error
        }
    }

    /// With the end of the transaction: nobody waits for the way that its answer takes.
    private func write(
        _ changes: [DatabaseStatement], noting device: DeviceID?, at time: Int64
    ) throws -> [DatabaseResult] {
        var statements = changes
        if let device {
            statements.append(Self.note(device, at: time))
            if kind.notifies { statements.append(DatabaseStatement(Self.notify)) }
        }
        statements.append(DatabaseStatement(Self.commit))
        // What fails here was not sent, so nothing is unknown of it.
        do { try connection.prepare(statements, patience: settings.limits.answering) } catch {
            try undo(after: error)
            throw error
        }
        let warnings = connection.warnings
        let results: [DatabaseResult]
        // It may have been committed, whatever became of the answer.
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
        // A connection that has failed undoes it by its end.
        if let fault = error as? DatabaseFault, fault.state.isEmpty { return }
        _ = try execute("ROLLBACK")
    }

    // MARK: - Secret

    /// Its check value; nil if none was ever shown.
    func secretCheck() throws -> Fingerprint? {
        let row = try run("SELECT secret_check FROM store")
        guard row.rows == 1 else { throw UnreadableRow(table: "store") }
        guard let bytes = row.optionalBytes(0, 0) else { return nil }
        guard let check = Fingerprint(bytes) else { throw UnreadableRow(table: "store") }
        return check
    }

    /// Before anybody uses the database with the secret. Of gateways that start together, each with a secret of its own, one is first.
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

    // MARK: - Others

    /// Others who use the database, by what they call themselves.
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

    /// Writes down values that are spent in memory, and may or may not be here.
    func pay(_ owed: [DeviceID: [UInt32]]) throws {
        for (device, values) in owed.sorted(by: { $0.key < $1.key }) {
            try transaction(.unordered) {
                let row = try run("SELECT highest, bits FROM counter WHERE device = $1 FOR UPDATE", [.device(device)])
                guard row.rows == 1 else { return }
                var window = try row.window(0, 0)
                // Further behind than the window reaches counts as spent anyway.
                for value in values { _ = window.accept(value, mode: .unspent) }
                _ = try run(
                    "UPDATE counter SET highest = $1, bits = $2 WHERE device = $3",
                    [.integer(Int64(window.highest)), .bytes(window.bits), .device(device)])
            }
        }
    }
}

/// Whether what the database calls committed is on disk, and stays when it fails over.
private struct DatabaseDurability {
    private let database: RegistryDatabase

    init(_ database: RegistryDatabase) {
        self.database = database
    }

    func check() throws {
        // The others replicate by consensus and have nothing to be set.
        guard database.kind == .postgresql else { return }
        for name in ["fsync", "full_page_writes"] where try setting(name) != "on" {
            throw refusal("\(name) must be on")
        }
        let commit = try setting("synchronous_commit")
        guard database.settings.hosts.count > 1 else {
            if commit == "off" { throw refusal("synchronous_commit must not be off") }
            return
        }
        // Another host may be promoted: it must have everything that was acknowledged.
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
