internal import EventLoop
internal import GRDB
internal import Registry
internal import Vocabulary

/// The writer of counters: records that decide on counter values, and the journal of values that are not in the
/// counter rows yet.
///
/// All functions with a database are called within a transaction of it.
final class CounterWriter {
    private var devices: ClockCache<DeviceID, WriterRecord>
    private var bindings: ClockCache<KeyID, WriterBinding>
    private var journal = Journal()
    private var round: FoldRound?
    /// The devices whose records are ahead of their rows, without duplicates and without those of the current round.
    private(set) var ahead: [DeviceID] = []
    /// Values that are spent in memory but may be missing in the file.
    private(set) var owed: [(device: DeviceID, counter: UInt32)] = []
    private let recordLimit: Int
    private let foldLimit: Int

    init(_ options: StoreOptions) {
        recordLimit = options.recordLimit
        foldLimit = options.foldLimit
        devices = ClockCache(limit: recordLimit)
        bindings = ClockCache(limit: recordLimit)
    }

    /// The number of journal rows that are not folded yet.
    var journalLength: Int { journal.count }
    /// The greatest number of all changes.
    var position: Int64 { journal.position }

    /// Takes a number for a change outside the journal.
    func advance(_ database: Database) throws { try journal.advance(database) }

    /// Records a value that is spent in memory but may be missing in the file.
    func owe(_ counter: UInt32, of device: DeviceID) { owed.append((device, counter)) }

    /// Returns the spent values of a device if they are in memory.
    func window(of device: DeviceID) -> CounterWindow? { devices.use(device)?.window }

    // MARK: - Commits

    /// Decides each entry by the records, and writes the accepted ones to the journal.
    ///
    /// - Returns: An outcome for each entry, in order.
    func commit(_ batch: [CounterEntry], _ epoch: RandomID, _ database: Database) throws -> [CounterOutcome] {
        let insertion = try DirectStatement(database, Journal.insertion)
        return try batch.map { entry in
            let outcome = try decide(entry, epoch, database)
            if outcome == .committed { try journal.write(entry.counter, of: entry.device, insertion) }
            return outcome
        }
    }

    /// Spends a value in the writer's record if all conditions hold, and writes new extensions of the device.
    private func decide(_ entry: CounterEntry, _ epoch: RandomID, _ database: Database) throws -> CounterOutcome {
        guard entry.epoch == epoch else { return .epochChanged }
        guard let binding = try binding(of: entry.binding, database), binding.device == entry.device else {
            return .unknown
        }
        var isAheadNow = false
        var showsMore = false
        let outcome = try update(entry.device, database) { record -> CounterOutcome in
            let before = record.shown
            let outcome = record.window.spend(
                entry.counter, mode: entry.mode, showing: entry.shown, after: &record.shown,
                isRevoked: record.isRevoked, isBound: binding.isActive)
            guard case .committed = outcome else { return outcome }
            isAheadNow = record.addRow()
            showsMore = record.shown != before
            return outcome
        }
        if showsMore { try write(entry.shown, of: entry.device, database) }
        if isAheadNow { ahead.append(entry.device) }
        return outcome ?? .unknown
    }

    /// Spends a value that a rule has accepted, and adds the extensions of its assertion.
    func spend(_ counter: UInt32, of device: DeviceID, showing shown: ShownExtensions, _ database: Database) throws {
        var becomesAhead = false
        _ = try update(device, database) { record in
            _ = record.window.accept(counter, mode: .unspent)
            becomesAhead = record.addRow()
        }
        if becomesAhead { ahead.append(device) }
        try journal.write(counter, of: device, try DirectStatement(database, Journal.insertion))
        try add(shown, to: device, database)
    }

    /// Applies writes that are in the file to the records.
    func apply(_ writes: [StoreWrite]) {
        for write in writes {
            switch write {
            case .endBinding(let key, _, _), .expireBinding(let key, _): bindings.update(key) { $0.isActive = false }
            case .revoke(let device, _): devices.update(device) { $0.isRevoked = true }
            case .restore(let device, _): devices.update(device) { $0.isRevoked = false }
            default: break
            }
        }
    }

    // MARK: - Folding

    /// Folds journal rows into counter rows in one transaction.
    ///
    /// - Parameter writing: Runs a function in a transaction.
    /// - Returns: Whether there are more rows.
    func fold<Failure>(_ writing: ((Database) throws -> Void) throws(Failure) -> Void) throws(Failure) -> Bool {
        guard let last = journal.last else { return false }
        var round = round ?? beginRound(through: last)
        let deadline = Instant.now + Self.foldTime
        try writing { database in
            try writeRows(&round, database, until: deadline)
            if !round.hasDevices { try deleteRows(round, database, until: deadline) }
        }
        let isLeft = round.hasDevices || journal.first.map { $0 <= round.through } ?? false
        self.round = isLeft ? round : nil
        return journal.count > 0
    }

    private func beginRound(through last: Int64) -> FoldRound {
        defer { ahead.removeAll(keepingCapacity: true) }
        return FoldRound(through: last, ahead: ahead)
    }

    private func writeRows(_ round: inout FoldRound, _ database: Database, until deadline: Instant) throws {
        let statement = try DirectStatement(database, Self.windowUpdate)
        var rows = 0
        var pages = 0
        var page: Int64 = -1
        while rows < foldLimit, pages < Self.pageLimit, Instant.now < deadline, let device = round.takeDevice() {
            let window = try update(device, database) { record -> CounterWindow? in
                // The window contains all values of the device, those of later journal rows too.
                defer { record.isAhead = false }
                return record.isAhead ? record.window : nil
            }
            guard let window = window ?? nil else { continue }
            try write(window, of: device, statement)
            rows += 1
            if device.number / FoldRound.rowsPerPage != page {
                page = device.number / FoldRound.rowsPerPage
                pages += 1
            }
        }
    }

    private func deleteRows(_ round: FoldRound, _ database: Database, until deadline: Instant) throws {
        var last: Int64?
        while Instant.now < deadline, let row = journal.takeFirst(through: round.through) {
            last = row.number
            _ = try update(row.device, database) { $0.unfolded -= 1 }
        }
        guard let last else { return }
        let statement = try database.cachedStatement(sql: "DELETE FROM journal WHERE seq <= ?")
        try statement.execute(arguments: [last])
        // The position keeps numbers growing after the last row is deleted.
        try database.cachedStatement(sql: "UPDATE store SET position = max(position, ?)").execute(arguments: [last])
    }

    /// The rest of the 5 ms is for the commit, which writes and syncs the pages.
    private static let foldTime = TimeSpan.milliseconds(2)
    private static let pageLimit = 512

    // MARK: - Records

    /// Calls `body` with the record of a device in place.
    ///
    /// - Returns: nil if there is no such device.
    private func update<Result>(
        _ device: DeviceID, _ database: Database, _ body: (inout WriterRecord) -> Result
    ) throws -> Result? {
        if devices.slot(of: device) == nil {
            guard let record = try readRecord(device, database) else { return nil }
            // The limit may be exceeded, because the limit of the journal bounds the pinned records.
            devices.insert(device, record, mayGrow: true) { $0.unfolded > 0 }
        }
        return devices.update(device, body)
    }

    private func readRecord(_ device: DeviceID, _ database: Database) throws -> WriterRecord? {
        let statement = try database.cachedStatement(
            sql: """
                SELECT revoked_at IS NOT NULL, highest, bits, shown_extensions
                FROM device JOIN counter ON counter.device = device.id WHERE device.id = ?
                """)
        guard let row = try Row.fetchOne(statement, arguments: [device.number]) else { return nil }
        return WriterRecord(
            isRevoked: row[0], window: try row.window(1, 2), shown: try row.shown(3))
    }

    /// Returns the writer's record of an mTLS key.
    ///
    /// - Returns: nil if the key was never bound.
    private func binding(of key: KeyID, _ database: Database) throws -> WriterBinding? {
        if let known = bindings.use(key) { return known }
        let statement = try database.cachedStatement(sql: "SELECT device, ended_at IS NULL FROM binding WHERE key = ?")
        guard let row = try Row.fetchOne(statement, arguments: [key.blob]) else { return nil }
        guard let device = DeviceID(row[0]) else { throw UnreadableRow(table: "binding") }
        let binding = WriterBinding(device: device, isActive: row[1])
        bindings.insert(key, binding)
        return binding
    }

    /// Returns the device that an mTLS key was bound to.
    ///
    /// - Returns: nil if the key was never bound.
    func find(_ key: KeyID, _ database: Database) throws -> FoundDevice? {
        guard let binding = try binding(of: key, database) else { return nil }
        let statement = try database.cachedStatement(
            sql: """
                SELECT \(SQLColumns.device), \(SQLColumns.posture), binding.created_at
                FROM \(SQLColumns.deviceTables) JOIN binding ON binding.device = device.id
                \(SQLColumns.postureTables) WHERE binding.key = ?
                """)
        guard let row = try Row.fetchOne(statement, arguments: [key.blob]),
            let record = try update(binding.device, database, { $0 })
        else { throw UnreadableRow(table: "binding") }
        let (posture, isKeyListed) = try row.posture(boundAt: row.integer(SQLColumns.postureEnd))
        return FoundDevice(
            id: binding.device, identity: try row.deviceIdentity(), isRevoked: record.isRevoked,
            isBound: binding.isActive, window: record.window, shown: record.shown, posture: posture,
            isKeyListed: isKeyListed)
    }

    // MARK: - Opening

    /// Builds the records that are ahead of their rows.
    func load(_ database: Database) throws {
        round = nil
        ahead = []
        // A local variable is used, because `update` changes the object.
        var loaded = Journal()
        try loaded.load(database) { device, counter in
            // A row without a device comes from a damaged file. It is folded like the others.
            try replay(counter, of: device, database)
        }
        journal = loaded
    }

    /// Spends a value that has a journal row, or will get one.
    ///
    /// - Returns: Whether there is such a device.
    @discardableResult
    private func replay(_ counter: UInt32, of device: DeviceID, _ database: Database) throws -> Bool {
        let isAheadNow = try update(device, database) { record in
            // The value was accepted before. Values below the window count as spent.
            _ = record.window.accept(counter, mode: .unspent)
            return record.addRow()
        }
        if isAheadNow == true { ahead.append(device) }
        return isAheadNow != nil
    }

    /// Reads the file again after a failure. Values that are spent in memory stay spent, whatever the file contains, and
    /// are written.
    ///
    /// - Parameter transaction: Runs a function in a transaction.
    func reload(_ transaction: ((Database) throws -> Void) throws -> Void) throws {
        let floor = devices
        do {
            try transaction { database in
                devices = ClockCache(limit: recordLimit)
                bindings.removeAll { _ in true }
                try load(database)
                try raise(to: floor, database)
                try payOwed(database)
            }
            owed = []
        } catch {
            devices = floor
            throw error
        }
    }

    /// Adds the values that were spent in memory before the file was reopened to the records and their rows.
    private func raise(to floor: ClockCache<DeviceID, WriterRecord>, _ database: Database) throws {
        let statement = try DirectStatement(database, Self.windowUpdate)
        for (device, known) in floor.entries {
            let raised = try update(device, database) { record -> CounterWindow? in
                let before = record.window
                record.window.merge(known.window)
                return record.window == before ? nil : record.window
            }
            if let window = raised ?? nil { try write(window, of: device, statement) }
            try add(known.shown, to: device, database)
        }
    }

    /// Writes the values that may be missing in the file.
    private func payOwed(_ database: Database) throws {
        let statement = try DirectStatement(database, Journal.insertion)
        for value in owed {
            if try replay(value.counter, of: value.device, database) {
                try journal.write(value.counter, of: value.device, statement)
            }
        }
    }

    // MARK: - Rows

    /// Adds extensions to a device's record and row.
    private func add(_ shown: ShownExtensions, to device: DeviceID, _ database: Database) throws {
        if try update(device, database, { $0.add(shown) }) == true { try write(shown, of: device, database) }
    }

    /// Adds extensions of a record to the device's row.
    private func write(_ shown: ShownExtensions, of device: DeviceID, _ database: Database) throws {
        let statement = try database.cachedStatement(
            sql: "UPDATE device SET shown_extensions = shown_extensions | ? WHERE id = ?")
        try statement.execute(arguments: [shown.rawValue, device.number])
    }

    private static let windowUpdate = "UPDATE counter SET highest = ?, bits = ? WHERE device = ?"

    /// Writes a window to its row with the statement `windowUpdate`.
    private func write(_ window: CounterWindow, of device: DeviceID, _ statement: DirectStatement) throws {
        try statement.run(Int64(window.highest), window.bits, device.number)
    }
}

/// The writer's record of a device, which decides on counter values.
struct WriterRecord {
    var isRevoked: Bool
    var window: CounterWindow
    /// The extensions of the device's row. Unlike the window, they are written in the transaction that adds them,
    /// because that happens at most twice for a device.
    var shown: ShownExtensions
    /// The number of journal rows that are not folded. The record must stay while there are any, because the device's
    /// row is outdated.
    var unfolded = 0
    /// Whether the window has changed since it was written to the device's row.
    var isAhead = false

    /// Adds the extensions of an assertion.
    ///
    /// - Returns: Whether any of them is new and must be written.
    mutating func add(_ shown: ShownExtensions) -> Bool {
        defer { self.shown.formUnion(shown) }
        return !self.shown.isSuperset(of: shown)
    }

    /// Counts a journal row of the device.
    ///
    /// - Returns: Whether the record was not ahead of the device's row before.
    mutating func addRow() -> Bool {
        defer { isAhead = true }
        unfolded += 1
        return !isAhead
    }
}

/// The writer's record of an mTLS key.
struct WriterBinding {
    let device: DeviceID
    var isActive: Bool
}
