public import EventLoop
internal import struct Foundation.Data
internal import GRDB
internal import GRDBSQLite
public import Registry
public import RevocationJournal
public import Vocabulary

/// The registry in a SQLite file: devices, bindings, counters, and values that enrolment has used.
///
/// It is used by one thread. The file is locked for the life of the object. After an error the connection is closed,
/// and everything is refused until `reopen()` succeeds. Spent values stay spent in memory meanwhile, and are then
/// written.
public final class RegistryStore: RegistryAtRest, WitnessedStore {
    public let path: String
    /// The identity at the last successful check.
    public private(set) var identity: StoreIdentity
    /// The reason for the last loss of the connection, for logs.
    public private(set) var lastFault: String?

    package var options: StoreOptions
    private let lock: StoreLock
    /// The witness. Nil in tests, and if there is nothing else to compare with.
    private let witness: Witness?
    /// Whether the store was compared with its witness. The witness learns nothing of the store before.
    private var isCompared = false
    /// The opened files by name.
    private var files: [String: StoreFile.Identity?] = [:]
    private var connection: StoreConnection?
    /// A lost connection that cannot be closed yet, because closing moves its log into the file.
    private var dropped: StoreConnection?

    /// The position in the file without its log.
    private var inFile: Int64 = -1

    /// The counters and the records behind them.
    let writer: CounterWriter

    /// Opens the store in a file.
    ///
    /// - Parameters:
    ///   - creating: Whether to create a missing file, with mode 0600.
    ///   - witness: The witness that the store is compared with first.
    public convenience init(
        path: String, creating: Bool, witness: WitnessSettings? = nil
    ) throws(StoreOpenError) {
        try self.init(path: path, creating: creating, options: StoreOptions(), witness: witness)
    }

    package init(
        path: String, creating: Bool, options: StoreOptions, witness: WitnessSettings? = nil
    ) throws(StoreOpenError) {
        self.path = path
        self.options = options
        try StoreFile.requireOrdinary(path, path + "-wal")
        let isMade = try Self.isMade(path, witness)
        if !creating { try StoreFile.prepare(path, creating: false) }
        let isNew = StoreFile.isEmpty(path)
        lock = try StoreLock(path: path)
        self.witness = try witness.map { settings throws(StoreOpenError) in try Witness(settings) }
        try StaleDatabaseFile.check(path, self.witness?.marked)
        let connection = try StoreConnection(path: path, creating: creating, options: options)
        identity = connection.identity
        writer = CounterWriter(options)
        do {
            if options.isLoading {
                // A store whose creation was interrupted counts as new, because it was never compared with a witness.
                let unmet = "is_journaled = 0 AND NOT EXISTS (SELECT 1 FROM device)"
                let which = isNew ? "TRUE" : witness == nil ? "FALSE" : unmet
                try connection.transaction { try $0.execute(sql: "UPDATE store SET is_loading = 1 WHERE \(which)") }
            } else if try connection.read({ try Bool.fetchOne($0, sql: "SELECT is_loading FROM store") }) == true {
                throw StoreOpenError.unfinishedImport(path: path)
            }
            try connection.read { try writer.load($0) }
        } catch let error as StoreOpenError {
            throw error
        } catch {
            throw StoreFault(error).openError(path: path)
        }
        self.connection = connection
        rememberFiles()
        let found = try foundProgress(connection)
        if let witness, !isMade { try requireMet(found, witness) }
        // A missing journal is created only with the imported content. Otherwise an interrupted import would leave an
        // empty journal.
        if !options.isLoading || self.witness?.hasJournal == true { try reconcile(found) }
        if isMade { witness?.notice(.storeMade(path)) }
        if let notice = try refusedTokens(at: WallClock.seconds) { witness?.notice(notice) }
    }

    /// Returns whether a lost store must be created again.
    ///
    /// This precedes all creation, even that of the lock, because the directory may belong to a disk that is not
    /// mounted.
    private static func isMade(_ path: String, _ witness: WitnessSettings?) throws(StoreOpenError) -> Bool {
        guard let witness, StoreFile.isEmpty(path), try witness.knowsStore() else { return false }
        guard witness.acceptsLostStore else { throw .storeLost(path: path, witness: witness.path) }
        return true
    }

    /// Refuses an empty store that an interrupted import has left. It was never compared with the witness, which knows
    /// another store.
    private func requireMet(_ found: WitnessedProgress, _ settings: WitnessSettings) throws(StoreOpenError) {
        guard !options.isLoading, !settings.acceptsLostStore, !found.isJournaled, let marked = witness?.marked,
            marked.store != found.store
        else { return }
        let isPopulated: Bool
        do throws(StoreError) { isPopulated = try self.isPopulated() } catch {
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
        guard !isPopulated else { return }
        // The witness must not learn of this store.
        abandon()
        throw .storeLost(path: path, witness: settings.path)
    }

    /// Returns whether pseudonyms are in use, for devices or barred people.
    func isPopulated() throws(StoreError) -> Bool {
        try read { database in
            try Bool.fetchOne(
                database, sql: "SELECT EXISTS (SELECT 1 FROM device) OR EXISTS (SELECT 1 FROM revoked_subject)") ?? true
        }
    }

    deinit {
        markProgress(isSynced: true)
        closeDropped()
    }

    /// The version of the loaded SQLite library, such as `3.40.1`.
    public static var sqliteVersion: String { String(cString: sqlite3_libversion()) }

    /// Whether operations are possible.
    public var isAvailable: Bool { connection != nil }

    /// The number of journal rows that are not folded yet.
    public var journalLength: Int { writer.journalLength }

    /// The number of pages in the write-ahead log that are not moved into the file yet.
    public var logPages: Int { connection?.logPages ?? 0 }

    /// Extends the write-ahead log between commits instead of during them.
    func makeLogRoom() { connection?.makeLogRoom() }

    /// The value of `PRAGMA synchronous`. Nil while the store is unavailable.
    package var synchronous: Int? { try? connection?.synchronous }

    /// Checks that the file is readable, has the current epoch, and still has its name.
    ///
    /// Data in a removed file is lost with the process, and another process may open the file that replaced it.
    public func confirm() throws(StoreError) {
        try read { database in
            for (name, opened) in self.files where StoreFile.identity(of: name) != opened {
                throw StoreOpenError.replaced(path: name)
            }
            try self.confirmEpoch(database)
        }
    }

    private func rememberFiles() {
        for suffix in ["", "-wal", ".lock"] { files[path + suffix] = StoreFile.identity(of: path + suffix) }
    }

    /// Moves the write-ahead log into the file.
    public func checkpoint() throws(StoreError) {
        try moveLog()
        markProgress(isSynced: false)
    }

    /// Moves the write-ahead log into the file without a mark, for a store that was not compared with its witness yet.
    func moveLog() throws(StoreError) {
        // The file then shows the position without the rows of the journal.
        if witness != nil { try writing { try writer.advance($0) } }
        guard let connection else { throw .unavailable }
        let position = writer.position
        do { if try connection.checkpoint() { inFile = position } } catch { throw drop(error) }
    }

    /// Reopens the file after a failure, with all checks of the first opening.
    ///
    /// Values that are spent in memory stay spent, whatever the file contains, and are written before this returns.
    ///
    /// - Throws: `StoreOpenError`. Nothing has changed then, and the call may be repeated.
    public func reopen() throws(StoreOpenError) {
        try StoreFile.requireOrdinary(path, path + "-wal")
        if dropped != nil { try StoreFile.replaceLog(of: path) }
        dropped = nil
        connection = nil
        try StaleDatabaseFile.check(path, witness?.marked)
        let connection = try StoreConnection(path: path, creating: false, options: options)
        guard connection.identity == identity else { throw .replaced(path: path) }
        // The progress is read before anything is written.
        let found = try foundProgress(connection)
        do {
            try writer.reload { body in try connection.transaction(body) }
        } catch {
            throw StoreFault(error).openError(path: path)
        }
        self.connection = connection
        rememberFiles()
        try reconcile(found)
    }

    /// Reads the progress of the file for its witness.
    private func foundProgress(_ connection: StoreConnection) throws(StoreOpenError) -> WitnessedProgress {
        do { return try connection.read(WitnessedProgress.init) } catch {
            throw StoreFault(error).openError(path: path)
        }
    }

    // MARK: - Transactions

    func read<Result>(_ body: (Database) throws -> Result) throws(StoreError) -> Result {
        guard let connection else { throw .unavailable }
        do { return try connection.read(body) } catch { throw drop(error) }
    }

    /// Runs `body` in a transaction and advances the position if it writes.
    ///
    /// - Parameter body: May throw a `StoreError` to refuse. The transaction is then rolled back, and the connection
    ///   stays open.
    func transaction<Result>(_ body: (Database) throws -> Result) throws(StoreError) -> Result {
        try writing { database in
            let before = database.totalChangesCount
            let result = try body(database)
            // A refused operation writes nothing.
            if database.totalChangesCount != before { try writer.advance(database) }
            return result
        }
    }

    /// Runs `body` in a transaction without advancing the position.
    func writing<Result>(_ body: (Database) throws -> Result) throws(StoreError) -> Result {
        guard let connection else { throw .unavailable }
        do {
            return try connection.transaction { database in
                try confirmEpoch(database)
                return try body(database)
            }
        } catch {
            throw drop(error)
        }
    }

    /// Sets the identity that was written to the file.
    func adopt(_ identity: StoreIdentity) { self.identity = identity }

    /// Checks the epoch before each write. Another epoch in the file means that it is not the opened one.
    private func confirmEpoch(_ database: Database) throws {
        guard try database.storeIdentity() == identity else {
            throw StoreOpenError.replaced(path: path)
        }
    }

    /// Closes a file that must not be used.
    func abandon() {
        guard let open = connection else { return }
        dropped = open
        connection = nil
        closeDropped()
    }

    private func closeDropped() {
        guard dropped != nil else { return }
        do throws(StoreOpenError) {
            try StoreFile.replaceLog(of: path)
            dropped = nil
        } catch {
            // Reopening the store repeats this.
        }
    }

    private func drop(_ error: any Error) -> StoreError {
        if let refusal = error as? StoreError, refusal != .unavailable { return refusal }
        lastFault = StoreFault(error).detail
        dropped = connection
        connection = nil
        closeDropped()
        return .unavailable
    }

    // MARK: - Operations

    /// Performs an operation.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    public func perform(
        _ command: RegistryCommand, at time: Int64 = WallClock.seconds
    ) -> Result<RegistryReply, StoreError> {
        do throws(StoreError) {
            if let rule = command.rule(at: time) {
                return .success(try decide(rule) { command.witnessEntries(for: $0, at: time) })
            }
            if case .export(let cursor, let limit) = command {
                return .success(
                    .exportPage(try exportPage(from: cursor, limit: limit, until: .now + ExportPage.time, at: time)))
            }
            return .success(try read { try reader($0).reply(to: command, at: time) })
        } catch {
            return .failure(error)
        }
    }

    /// Looks, decides and writes in one transaction.
    ///
    /// - Parameter entries: Returns the entries for the revocation journal. Nil for what comes from the journal.
    func decide<Reply>(
        _ rule: StoreRule<Reply>, entries: ((Reply) -> [WitnessEntry])? = nil
    ) throws(StoreError) -> Reply {
        if rule.isOftenIdle {
            let decision = try read { try rule.decide(reader($0).facts(rule.look)) }
            if decision.writes.isEmpty { return decision.reply([]) }
        }
        var writes: [StoreWrite] = []
        let reply: Reply
        do throws(StoreError) {
            reply = try transaction { database in
                let decision = try rule.decide(reader(database).facts(rule.look))
                writes = decision.writes
                return try carryOut(decision, database)
            }
        } catch {
            owe(writes)
            throw error
        }
        settle(writes, reply, entries: entries)
        return reply
    }

    private func carryOut<Reply>(_ decision: StoreDecision<Reply>, _ database: Database) throws -> Reply {
        try write(decision.writes, database)
        return decision.reply(try reader(database).existing(decision.reading))
    }

    /// A COMMIT that failed may still be durable, so values that it would have spent count as spent.
    private func owe(_ writes: [StoreWrite]) {
        for case .spend(let counter, let device, _, _) in writes { writer.owe(counter, of: device) }
    }

    /// Takes over what has become durable.
    private func settle<Reply>(_ writes: [StoreWrite], _ reply: Reply, entries: ((Reply) -> [WitnessEntry])?) {
        // Records in memory change only after the transaction, because it may fail.
        writer.apply(writes)
        for case .setState(let state) in writes where state.identity != identity {
            adopt(state.identity)
            markProgress(isSynced: true)
        }
        if let entries, writes.contains(where: \.changesValidity) { attest(entries(reply)) }
    }

    private func write(_ writes: [StoreWrite], _ database: Database) throws {
        for write in writes {
            // This stays in the writer's record even if the transaction fails.
            if case .spend(let counter, let device, _, let shown) = write {
                try writer.spend(counter, of: device, showing: shown, database)
            }
            for statement in SQLWrites.statements(for: write, shownIn: .device) { try database.run(statement) }
        }
        if writes.contains(where: \.changesValidity) {
            try database.cachedStatement(sql: "UPDATE store SET standing = standing + 1").execute()
        }
    }

    func reader(_ database: Database) -> SQLiteReader { SQLiteReader(database, writer) }

    /// Registers devices in order in one transaction, until one is refused.
    ///
    /// - Returns: The number of registered devices, and the refusal `keyRegistered` or `keyBound` of the next one. The
    ///   refusal is nil if all are registered.
    public func register(
        _ registrations: [(identity: DeviceIdentity, binding: KeyID?)], at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> (registered: Int, refusal: StoreError?) {
        try transaction { database in
            for (index, (identity, key)) in registrations.enumerated() {
                let rule = DeviceRules.register(identity, binding: key, at: time)
                let facts = try reader(database).facts(rule.look)
                let decision: StoreDecision<RegistryReply>
                do throws(StoreError) { decision = try rule.decide(facts) } catch { return (index, error) }
                try write(decision.writes, database)
            }
            return (registrations.count, nil)
        }
    }

    /// Decides each entry by the writer's records, and makes the accepted ones durable in one transaction.
    ///
    /// - Returns: An outcome for each entry, in order. After a failure it is `storeUnavailable` for all.
    public func commit(_ batch: [CounterEntry]) -> [CounterOutcome] {
        do throws(StoreError) {
            return try writing { try writer.commit(batch, identity.epoch, $0) }
        } catch {
            // A COMMIT that failed may still be durable, so all values of the batch count as spent.
            for entry in batch { writer.owe(entry.counter, of: entry.device) }
            return batch.map { _ in .storeUnavailable }
        }
    }

    /// The same, and then performs an operation in the same transaction, because each takes a sync of the disk.
    ///
    /// - Parameter rule: The operation's.
    func commit(
        _ batch: [CounterEntry], performing command: RegistryCommand, _ rule: StoreRule<RegistryReply>, at time: Int64
    ) -> (outcomes: [CounterOutcome], result: Result<RegistryReply, StoreError>) {
        var writes: [StoreWrite] = []
        do throws(StoreError) {
            let committed = try writing { database -> ([CounterOutcome], Result<RegistryReply, StoreError>) in
                let outcomes = try writer.commit(batch, identity.epoch, database)
                let facts = try reader(database).facts(rule.look)
                let decision: StoreDecision<RegistryReply>
                do throws(StoreError) { decision = try rule.decide(facts) } catch {
                    return (outcomes, .failure(error))
                }
                guard !decision.writes.isEmpty else { return (outcomes, .success(decision.reply([]))) }
                writes = decision.writes
                let reply = try carryOut(decision, database)
                try writer.advance(database)
                return (outcomes, .success(reply))
            }
            if case .success(let reply) = committed.1 {
                settle(writes, reply) { command.witnessEntries(for: $0, at: time) }
            }
            return committed
        } catch {
            for entry in batch { writer.owe(entry.counter, of: entry.device) }
            owe(writes)
            return (batch.map { _ in .storeUnavailable }, .failure(error))
        }
    }

    /// Folds journal rows into counter rows in one transaction of about 5 ms.
    ///
    /// - Returns: Whether there are more rows.
    public func fold() throws(StoreError) -> Bool {
        try writer.fold { body throws(StoreError) in try writing(body) }
    }

    /// Returns the device that an mTLS key was bound to.
    ///
    /// - Returns: nil if the key was never bound.
    func find(_ key: KeyID) throws(StoreError) -> FoundDevice? { try read { try writer.find(key, $0) } }

    /// Reads a page of an export.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of rows.
    ///   - deadline: The time after which a page of devices ends. It has at least one device.
    ///   - time: The time of the export for the head, in seconds since 1970-01-01T00:00:00Z.
    func exportPage(
        from cursor: ExportCursor, limit: Int, until deadline: Instant, at time: Int64
    ) throws(StoreError) -> ExportPage {
        try read { try reader($0).exportPage(from: cursor, limit: limit, until: deadline, at: time) }
    }

    // MARK: - Use by commands

    public func exportPage(from cursor: ExportCursor, at time: Int64) throws(RegistryLoadError) -> ExportPage {
        do throws(StoreError) {
            // Only the caller waits.
            return try exportPage(from: cursor, limit: ExportPage.rows, until: .now + .seconds(1), at: time)
        } catch {
            throw .failed("\(path): \(lastFault ?? "\(error)")")
        }
    }

    public func otherUsers() throws(RegistryLoadError) -> Int { 0 }

    public func load(
        at time: Int64, _ fill: (RegistryLoading) throws(RegistryLoadError) -> Void
    ) throws(RegistryLoadError) {
        _ = try SQLiteLoader.load(into: self, at: time, fill)
    }

    // MARK: - Secret

    /// Returns the check value of the secret. Nil if no secret was ever used.
    package func secretCheck() throws(StoreError) -> Fingerprint? {
        try read { database in
            guard let row = try Row.fetchOne(database, sql: "SELECT secret_check FROM store"),
                try row.optionalBytes(0) != nil
            else { return nil }
            return try row.fingerprint(0, "store")
        }
    }

    /// Checks the secret before the store is used.
    func confirm(_ claim: SecretClaim) throws(StoreOpenError) {
        do {
            let store = SecretClaim.Registered(
                check: try secretCheck(), isPopulated: try isPopulated(), isShared: false, name: path)
            let check = try claim.check(for: store)
            if check != store.check {
                try transaction {
                    try $0.execute(sql: "UPDATE store SET secret_check = ?", arguments: [check.bytes.blob])
                }
            }
            claim.confirm(check, in: store)
        } catch let error as StoreOpenError {
            throw error
        } catch {
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
    }

    // MARK: - Witness

    /// Makes entries durable in the journal after the store has made their changes durable.
    private func attest(_ entries: [WitnessEntry]) {
        witness?.append(entries)
        markProgress(isSynced: false)
    }

    /// Marks the progress of the store. Does nothing while the store is unavailable.
    func markProgress(isSynced: Bool) {
        guard let witness, isCompared, let progress = try? progress() else { return }
        witness.mark(progress, isSynced: isSynced)
    }

    /// Updates the witness, each half second.
    func tickWitness() throws(StoreError) {
        guard let witness else { return }
        witness.tick(try progress())
    }

    private func progress() throws(StoreError) -> StoreProgress {
        let found = try read(WitnessedProgress.init)
        var progress = found.progress(at: writer.position)
        progress.inFile = inFile
        return progress
    }

    /// Compares the found progress with the witness and advances the position. An earlier copy of the file then differs
    /// even if nothing else is ever written.
    private func reconcile(_ found: WitnessedProgress) throws(StoreOpenError) {
        guard let witness else { return }
        do {
            isCompared = true
            let number = try witness.reconcile(
                self, found.progress(at: found.position), isJournaled: found.isJournaled, mayJoin: false)
            // As after an import, it is unknown which tokens were used since.
            if let number {
                try drawEpoch(
                    numbered: number, refusingTokensUntil: WallClock.seconds + SingleUse.longestTokenLife)
            }
            try writing { try writer.advance($0) }
            // At once, for a journal without its mark is taken for one that has lost it.
            witness.mark(try progress(), isSynced: true)
            // The earlier log was moved into the file: its mark is nothing to compare with.
            try moveLog()
            witness.mark(try progress(), isSynced: false)
        } catch let error as StoreOpenError {
            abandon()
            throw error
        } catch {
            abandon()
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
    }

    /// Draws a fresh epoch for a process that starts: if the file was set back without notice, no proof that was used before
    /// passes again. Durable when it returns.
    func beginEpoch() throws(StoreOpenError) {
        do throws(StoreError) { try drawEpoch() } catch {
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
    }

    /// Draws a fresh epoch. See `StoreState.renewed`.
    private func drawEpoch(numbered number: Int64 = 0, refusingTokensUntil tokenEnd: Int64 = 0) throws(StoreError) {
        let epoch = RandomID()
        try decide(
            StoreRule(look: StoreLook()) { facts in
                let state = facts.state.renewed(epoch, numbered: number, refusingTokensUntil: tokenEnd)
                return StoreDecision([.setState(state)], reply: ())
            })
    }

    /// Returns a notice if admission tokens are refused for longer than their lifetime, because the clock was ahead
    /// when one was removed.
    private func refusedTokens(at time: Int64) throws(StoreOpenError) -> WitnessNotice? {
        do {
            let end = try read { try reader($0).facts(StoreLook()).state.tokensRemoved }
            return WitnessNotice(tokensRefusedUntil: end, at: time)
        } catch {
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
    }

    package func standing() throws -> Int64 { try read(WitnessedProgress.init).standing }

    package func becomeJournaled() throws {
        try transaction { try $0.execute(sql: "UPDATE store SET is_journaled = 1") }
    }

    package func eachRevocation(_ body: ([WitnessEntry]) -> Void) throws {
        try read { try reader($0).eachRevocation(body) }
    }

    package func replay(_ entries: [WitnessEntry], at time: Int64) throws {
        try decide(JournalReplay.rule(for: entries, at: time))
    }
}

/// The progress of a file as read from it.
struct WitnessedProgress {
    let store: RandomID
    /// The greatest number of all changes.
    let position: Int64
    let standing: Int64
    let epochNumber: Int64
    let isJournaled: Bool

    init(_ database: Database) throws {
        let statement = try database.cachedStatement(
            sql: """
                SELECT id, max(position, coalesce((SELECT max(seq) FROM journal), 0)), standing, epoch_number, is_journaled
                FROM store
                """)
        guard let row = try Row.fetchOne(statement), let store = RandomID([UInt8](row[0] as Data)) else {
            throw UnreadableRow(table: "store")
        }
        self.store = store
        (position, standing, epochNumber, isJournaled) = (row[1], row[2], row[3], row[4])
    }

    func progress(at position: Int64) -> StoreProgress {
        StoreProgress(store: store, lineage: "", position: position, standing: standing, epochNumber: epochNumber)
    }
}
