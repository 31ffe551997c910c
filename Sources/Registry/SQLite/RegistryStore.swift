public import EventLoop
internal import struct Foundation.Data
internal import GRDB
internal import Vocabulary

/// The registry in one SQLite file: devices, bindings, counters, and what enrolment has used up.
///
/// Used by one thread. The file is locked for as long as the object lives. After an error the connection is dropped and
/// everything is refused until `reopen()` succeeds; what was spent stays spent in memory meanwhile, and is written down
/// then.
public final class RegistryStore {
    public let path: String
    /// As of the last successful check.
    public private(set) var identity: StoreIdentity
    /// Why the connection was dropped last, for logs.
    public private(set) var lastFault: String?

    package var options: StoreOptions
    private let lock: StoreLock
    /// Nil in tests, and where nothing else would be compared with it.
    let witness: Witness?
    /// Whether the witness knows of this store: not before it has been compared with what the witness knows.
    private(set) var isCompared = false
    /// The files that were opened, by name.
    private var files: [String: StoreFile.Identity?] = [:]
    private var connection: StoreConnection?
    /// One that was dropped, and that cannot be closed yet: closing it moves its log into the file.
    private var dropped: StoreConnection?

    /// What the file says of its position without its log.
    private(set) var inFile: Int64 = -1

    var devices: ClockCache<DeviceID, WriterRecord>
    var bindings: ClockCache<KeyID, WriterBinding>
    var journal = Journal()
    var round: FoldRound?
    /// Devices whose records are ahead of their rows, each once, but for those that the round has taken over.
    var ahead: [DeviceID] = []
    /// Values spent in memory whose fate in the file is unknown, or which it could not take.
    var owed: [(device: DeviceID, counter: UInt32)] = []

    /// Opens the store in a file.
    ///
    /// - Parameters:
    ///   - creating: whether to create the file, with mode 0600, where there is none.
    ///   - witness: what it is compared with first.
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
                // One whose making was cut short is as good as new: it has never met its witness.
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
        // A journal that is gone is made only with what an import brings: by one that is killed before, the next would seem to have one.
        if !options.isLoading || self.witness?.hasJournal == true { try reconcile(found) }
        if isMade { witness?.notice(.storeMade(path)) }
        if let notice = try refusedTokens(at: WallClock.seconds) { witness?.notice(notice) }
    }

    /// Before anything is made, the lock included: its directory may be that of a disk that is not mounted.
    ///
    /// - Returns: whether a lost store is to be made again.
    private static func isMade(_ path: String, _ witness: WitnessSettings?) throws(StoreOpenError) -> Bool {
        guard let witness, StoreFile.isEmpty(path), try witness.knowsStore() else { return false }
        guard witness.acceptsLostStore else { throw .storeLost(path: path, witness: witness.path) }
        return true
    }

    /// Refuses what a command has left that was killed while it made a store to import into: tables, and nobody in them. It has never
    /// met the witness, which knows another store.
    private func requireMet(_ found: WitnessedProgress, _ settings: WitnessSettings) throws(StoreOpenError) {
        guard !options.isLoading, !settings.acceptsLostStore, !found.isJournaled, let marked = witness?.marked,
            marked.store != found.store
        else { return }
        let isPopulated: Bool
        do throws(StoreError) { isPopulated = try self.isPopulated() } catch {
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
        guard !isPopulated else { return }
        // So that the witness hears nothing of it.
        abandon()
        throw .storeLost(path: path, witness: settings.path)
    }

    /// Whether there is a device, or a person, that services or the registry name by the secret.
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

    /// Whether operations are possible.
    public var isAvailable: Bool { connection != nil }

    /// Journal rows not yet folded into the device rows.
    public var journalLength: Int { journal.count }

    /// Pages of the write-ahead log not yet moved into the file.
    public var logPages: Int { connection?.logPages ?? 0 }

    /// Lets the write-ahead log grow between commits rather than in them.
    func makeLogRoom() { connection?.makeLogRoom() }

    /// What `PRAGMA synchronous` reads back; nil while unavailable.
    package var synchronous: Int? { try? connection?.synchronous }

    /// Makes sure that the file can still be read, is still of this epoch, and still has its name: what is written to a file
    /// that was removed is gone with the process, and another process may open the one that took its place.
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

    /// The same without a word to the witness, for a store that was not compared with it yet.
    func moveLog() throws(StoreError) {
        // So that the file says by itself how far it has come, without the journal's rows.
        if witness != nil { try writing { try journal.advance($0) } }
        guard let connection else { throw .unavailable }
        let position = journal.position
        do { if try connection.checkpoint() { inFile = position } } catch { throw drop(error) }
    }

    /// Opens the file again after a failure, with every check of the first time.
    ///
    /// Memory is a floor: what it holds as spent stays so, whatever the file says, and is written to it before this
    /// returns. - Throws: nothing has changed then, and it can be tried again.
    public func reopen() throws(StoreOpenError) {
        try StoreFile.requireOrdinary(path, path + "-wal")
        if dropped != nil { try StoreFile.replaceLog(of: path) }
        dropped = nil
        connection = nil
        try StaleDatabaseFile.check(path, witness?.marked)
        let connection = try StoreConnection(path: path, creating: false, options: options)
        guard connection.identity == identity else { throw .replaced(path: path) }
        // Before anything is written to it.
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

    /// How far the file has come, for its witness.
    func foundProgress(_ connection: StoreConnection) throws(StoreOpenError) -> WitnessedProgress {
        do { return try connection.read(WitnessedProgress.init) } catch {
            throw StoreFault(error).openError(path: path)
        }
    }

    // MARK: - For the operations

    func read<Result>(_ body: (Database) throws -> Result) throws(StoreError) -> Result {
        guard let connection else { throw .unavailable }
        do { return try connection.read(body) } catch { throw drop(error) }
    }

    /// - Parameter body: may throw a `StoreError` to refuse: the transaction is undone and the connection stays.
    func transaction<Result>(_ body: (Database) throws -> Result) throws(StoreError) -> Result {
        try writing { database in
            let before = database.totalChangesCount
            let result = try body(database)
            // What is refused writes nothing.
            if database.totalChangesCount != before { try journal.advance(database) }
            return result
        }
    }

    /// The same, where the journal or nothing tells how far the store has come.
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

    /// What has been written to the file as its own.
    func adopt(_ identity: StoreIdentity) { self.identity = identity }

    /// Every write is conditional on the epoch: another one in the file means that it is not the one opened.
    private func confirmEpoch(_ database: Database) throws {
        guard try database.storeIdentity() == identity else {
            throw StoreOpenError.replaced(path: path)
        }
    }

    /// Lets go of a file that must not be used.
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
            // The same is tried when the store is opened again.
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

    /// - Parameter time: seconds since 1970-01-01T00:00:00Z.
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
                return .success(.revokedCertificates(try revokedCertificates(after: after, limit: limit, at: time)))
            case .drawRevocationListNumber:
                return .success(.revocationListNumber(try drawRevocationListNumber(at: time)))
            case .claimReceipts(let claim): return .success(.claimedReceipts(try claimReceipts(claim)))
            case .recordReceipt(let result): return .success(.recordedReceipt(try recordReceipt(result)))
            case .receiptFigures(let ceilings, let due):
                return .success(.receiptFigures(try receiptFigures(ceilings, at: due)))
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

    /// Its check value; nil if none was ever shown.
    package func secretCheck() throws(StoreError) -> Fingerprint? {
        try read { database in
            guard let check = try Data.fetchOne(database, sql: "SELECT secret_check FROM store") else { return nil }
            guard let known = Fingerprint(blob: check) else { throw UnreadableRow(table: "store") }
            return known
        }
    }

    /// Before anybody uses the store with the secret.
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
