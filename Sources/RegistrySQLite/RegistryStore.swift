public import EventLoop
internal import struct Foundation.Data
internal import GRDB
internal import GRDBSQLite
public import Registry
public import RevocationJournal
internal import Vocabulary

/// The registry in a SQLite file: devices, bindings, counters, and values that enrolment has used.
///
/// It is used by one thread. The file is locked for the life of the object. After an error the connection is closed,
/// and everything is refused until `reopen()` succeeds. Spent values stay spent in memory meanwhile, and are then
/// written.
public final class RegistryStore {
    public let path: String
    /// The identity at the last successful check.
    public private(set) var identity: StoreIdentity
    /// The reason for the last loss of the connection, for logs.
    public private(set) var lastFault: String?

    package var options: StoreOptions
    private let lock: StoreLock
    /// The witness. Nil in tests, and if there is nothing else to compare with.
    let witness: Witness?
    /// Whether the store was compared with its witness. The witness learns nothing of the store before.
    private(set) var isCompared = false
    /// The opened files by name.
    private var files: [String: StoreFile.Identity?] = [:]
    private var connection: StoreConnection?
    /// A lost connection that cannot be closed yet, because closing moves its log into the file.
    private var dropped: StoreConnection?

    /// The position in the file without its log.
    private(set) var inFile: Int64 = -1

    var devices: ClockCache<DeviceID, WriterRecord>
    var bindings: ClockCache<KeyID, WriterBinding>
    var journal = Journal()
    var round: FoldRound?
    /// The devices whose records are ahead of their rows, without duplicates and without those of the current round.
    var ahead: [DeviceID] = []
    /// Values that are spent in memory but may be missing in the file.
    var owed: [(device: DeviceID, counter: UInt32)] = []

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
        devices = ClockCache(limit: options.recordLimit)
        bindings = ClockCache(limit: options.recordLimit)
        do {
            if options.isLoading {
                // A store whose creation was interrupted counts as new, because it was never compared with a witness.
                let unmet = "is_journaled = 0 AND NOT EXISTS (SELECT 1 FROM device)"
                let which = isNew ? "TRUE" : witness == nil ? "FALSE" : unmet
                try connection.transaction { try $0.execute(sql: "UPDATE store SET is_loading = 1 WHERE \(which)") }
            } else if try connection.read({ try Bool.fetchOne($0, sql: "SELECT is_loading FROM store") }) == true {
                throw StoreOpenError.unfinishedImport(path: path)
            }
            try connection.read { try loadJournal($0) }
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
    public var journalLength: Int { journal.count }

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
        if witness != nil { try writing { try journal.advance($0) } }
        guard let connection else { throw .unavailable }
        let position = journal.position
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
        let floor = devices
        do {
            try connection.transaction { database in
                devices = ClockCache(limit: options.recordLimit)
                bindings.removeAll { _ in true }
                try loadJournal(database)
                try raise(to: floor, database)
                try payOwed(database)
            }
            owed = []
        } catch {
            devices = floor
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
            if database.totalChangesCount != before { try journal.advance(database) }
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

    func compared() { isCompared = true }

    func setEpoch(_ epoch: RandomID) {
        adopt(StoreIdentity(store: identity.store, epoch: epoch))
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

    // MARK: - Commands

    /// Performs an operation.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    public func perform(
        _ command: RegistryCommand, at time: Int64 = WallClock.seconds
    ) -> Result<RegistryReply, StoreError> {
        do throws(StoreError) {
            switch command {
            case .register(let identity, let key):
                return .success(.device(try register(identity, binding: key, at: time)))
            case .bind(let key, let device): return .success(.device(try bind(key, to: device, at: time)))
            case .endBinding(let key): return .success(.device(try endBinding(key, at: time)))
            case .revoke(let device): return .success(.device(try revoke(device, at: time)))
            case .restore(let device): return .success(.device(try restore(device, at: time)))
            case .list(let after, let limit): return .success(.devices(try devices(after: after, limit: limit)))
            case .listPending(let after, let limit):
                return .success(.devices(try pendingDevices(after: after, limit: limit)))
            case .approve(let device): return .success(.device(try approve(device, at: time)))
            case .initialize(let request): return .success(.initialization(try initialize(request, at: time)))
            case .bindKey(let request): return .success(.keyBinding(try bindKey(request, at: time)))
            case .revokeSubject(let subject): return .success(.revoked(try revokeSubject(subject, at: time)))
            case .show(let selector): return .success(.device(try show(selector)))
            case .count(let after, let limit): return .success(.count(try count(after: after, limit: limit)))
            case .listRevokedCertificates(let after, let limit):
                return .success(
                    .revokedCertificates(
                        try SQLiteCertificates(self).revokedCertificates(after: after, limit: limit, at: time)))
            case .drawRevocationListNumber:
                return .success(.revocationListNumber(try SQLiteCertificates(self).drawRevocationListNumber(at: time)))
            case .claimReceipts(let claim):
                return .success(.claimedReceipts(try SQLiteReceipts(self).claimReceipts(claim)))
            case .recordReceipt(let result):
                return .success(.recordedReceipt(try SQLiteReceipts(self).recordReceipt(result)))
            case .receiptFigures(let ceilings, let due):
                return .success(.receiptFigures(try SQLiteReceipts(self).receiptFigures(ceilings, at: due)))
            case .renewEpoch: return .success(.identity(try renewEpoch(at: time)))
            case .export(let cursor, let limit):
                return .success(
                    .exportPage(
                        try SQLiteExporter(self).exportPage(
                            from: cursor, limit: limit, until: .now + ExportPage.time, at: time)))
            }
        } catch {
            return .failure(error)
        }
    }

    // MARK: - Secret

    /// Returns the check value of the secret. Nil if no secret was ever used.
    package func secretCheck() throws(StoreError) -> Fingerprint? {
        try read { database in
            guard let check = try Data.fetchOne(database, sql: "SELECT secret_check FROM store") else { return nil }
            guard let known = Fingerprint(blob: check) else { throw UnreadableRow(table: "store") }
            return known
        }
    }

    /// Checks the secret before the store is used.
    func confirm(_ claim: SecretClaim) throws(StoreOpenError) {
        do {
            let store = SecretClaim.Registered(
                check: try secretCheck(), isPopulated: try isPopulated(), isShared: false, name: path)
            let check = try claim.check(for: store)
            if check != store.check {
                try transaction { try $0.execute(sql: "UPDATE store SET secret_check = ?", arguments: [check.blob]) }
            }
            claim.confirm(check, in: store)
        } catch let error as StoreOpenError {
            throw error
        } catch {
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
    }
}
