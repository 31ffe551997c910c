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
    /// The files that were opened, by name.
    private var files: [String: StoreFile.Identity?] = [:]
    private var connection: StoreConnection?
    /// One that was dropped, and that cannot be closed yet: closing it moves its log into the file.
    private var dropped: StoreConnection?

    var devices: ClockCache<DeviceID, WriterRecord>
    var bindings: ClockCache<KeyID, WriterBinding>
    var journal = Journal()
    var round: FoldRound?
    /// Devices whose records are ahead of their rows, each once, but for those that the round has taken over.
    var ahead: [DeviceID] = []
    /// Values spent in memory whose fate in the file is unknown, or which it could not take.
    var owed: [(device: DeviceID, counter: UInt32)] = []

    /// Opens the store in a file. - Parameter creating: whether to create the file, with mode 0600, where there is none.
    public convenience init(path: String, creating: Bool) throws(StoreOpenError) {
        try self.init(path: path, creating: creating, options: StoreOptions())
    }

    package init(path: String, creating: Bool, options: StoreOptions) throws(StoreOpenError) {
        self.path = path
        self.options = options
        if !creating { try StoreFile.prepare(path, creating: false) }
        lock = try StoreLock(path: path)
        let connection = try StoreConnection(path: path, creating: creating, options: options)
        identity = connection.identity
        devices = ClockCache(limit: options.recordLimit)
        bindings = ClockCache(limit: options.recordLimit)
        do {
            try connection.read { try loadJournal($0) }
        } catch {
            throw StoreFault(error).openError(path: path)
        }
        self.connection = connection
        rememberFiles()
    }

    deinit { closeDropped() }

    /// Whether operations are possible.
    public var isAvailable: Bool { connection != nil }

    /// Journal rows not yet folded into the device rows.
    public var journalLength: Int { journal.count }

    /// Pages of the write-ahead log not yet moved into the file.
    public var logPages: Int { connection?.logPages ?? 0 }

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
        guard let connection else { throw .unavailable }
        do { try connection.checkpoint() } catch { throw drop(error) }
    }

    /// Opens the file again after a failure, with every check of the first time.
    ///
    /// Memory is a floor: what it holds as spent stays so, whatever the file says, and is written to it before this
    /// returns. - Throws: nothing has changed then, and it can be tried again.
    public func reopen() throws(StoreOpenError) {
        if dropped != nil { try StoreFile.settleLog(of: path) }
        dropped = nil
        connection = nil
        let connection = try StoreConnection(path: path, creating: false, options: options)
        guard connection.identity == identity else { throw .replaced(path: path) }
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
    }

    // MARK: - For the operations

    func read<Result>(_ body: (Database) throws -> Result) throws(StoreError) -> Result {
        guard let connection else { throw .unavailable }
        do { return try connection.read(body) } catch { throw drop(error) }
    }

    /// - Parameter body: may throw a `StoreError` to refuse: the transaction is undone and the connection stays.
    func transaction<Result>(_ body: (Database) throws -> Result) throws(StoreError) -> Result {
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

    func setEpoch(_ epoch: RandomID) {
        identity = StoreIdentity(store: identity.store, epoch: epoch)
    }

    /// Every write is conditional on the epoch: another one in the file means that it is not the one opened.
    private func confirmEpoch(_ database: Database) throws {
        guard try StoreIdentity.read(database) == identity else {
            throw StoreOpenError.replaced(path: path)
        }
    }

    private func closeDropped() {
        guard dropped != nil else { return }
        do throws(StoreOpenError) {
            try StoreFile.settleLog(of: path)
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
}
