internal import EventLoop
internal import struct Foundation.Data
internal import GRDB
public import Registry
internal import Vocabulary

// Group commits of counters, the records behind them, and the fold of the journal.
extension RegistryStore {
    /// Decides each entry by the writer's records, and makes the accepted ones durable in one transaction.
    ///
    /// - Returns: An outcome for each entry, in order. After a failure it is `storeUnavailable` for all.
    public func commit(_ batch: [CounterEntry]) -> [CounterOutcome] {
        do throws(StoreError) {
            return try writing { database in
                let insertion = try DirectStatement(database, Journal.insertion)
                return try batch.map { entry in
                    let outcome = try decide(entry, database)
                    if outcome == .committed { try journal.write(entry.counter, of: entry.device, insertion) }
                    return outcome
                }
            }
        } catch {
            // A COMMIT that failed may still be durable, so all values of the batch count as spent.
            for entry in batch { owed.append((entry.device, entry.counter)) }
            return batch.map { _ in .storeUnavailable }
        }
    }

    /// Spends a value in the writer's record if all conditions hold, and writes new extensions of the device.
    private func decide(_ entry: CounterEntry, _ database: Database) throws -> CounterOutcome {
        guard entry.epoch == identity.epoch else { return .epochChanged }
        guard let binding = try binding(of: entry.binding, database), binding.device == entry.device else {
            return .unknown
        }
        var isAheadNow = false
        var showsMore = false
        let outcome = try update(entry.device, database) { record -> CounterOutcome in
            if record.isRevoked { return .deviceRevoked }
            guard binding.isActive else { return .bindingEnded }
            guard entry.shown.isSuperset(of: record.shown) else { return .extensionWithheld }
            switch record.spend(entry.counter, mode: entry.mode, becomesAhead: &isAheadNow) {
            case .replayed: return .replayed
            case .late: return .late(highest: record.window.highest)
            case .accepted:
                showsMore = record.add(entry.shown)
                return .committed
            }
        }
        if showsMore { try write(entry.shown, of: entry.device, database) }
        if isAheadNow { ahead.append(entry.device) }
        return outcome ?? .unknown
    }

    /// Folds journal rows into counter rows in one transaction of about 5 ms.
    ///
    /// - Returns: Whether there are more rows.
    public func fold() throws(StoreError) -> Bool {
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
        while rows < options.foldLimit, pages < Self.pageLimit, Instant.now < deadline, let device = round.takeDevice()
        {
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
    func update<Result>(
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
                SELECT revoked_at IS NOT NULL, highest, bits, shown_extensions, risk_metric
                FROM device JOIN counter ON counter.device = device.id
                LEFT JOIN receipt ON receipt.device = device.id WHERE device.id = ?
                """)
        guard let row = try Row.fetchOne(statement, arguments: [device.number]) else { return nil }
        guard let window = CounterWindow(highest: row[1], bits: [UInt8](row[2] as Data)) else {
            throw UnreadableRow(table: "device")
        }
        return WriterRecord(
            isRevoked: row[0], window: window, shown: ShownExtensions(rawValue: row[3]), riskMetric: row[4])
    }

    /// Returns the writer's record of an mTLS key.
    ///
    /// - Returns: nil if the key was never bound.
    func binding(of key: KeyID, _ database: Database) throws -> WriterBinding? {
        if let known = bindings.use(key) { return known }
        let statement = try database.cachedStatement(sql: "SELECT device, ended_at IS NULL FROM binding WHERE key = ?")
        guard let row = try Row.fetchOne(statement, arguments: [key.blob]) else { return nil }
        guard let device = DeviceID(row[0]) else { throw UnreadableRow(table: "binding") }
        let binding = WriterBinding(device: device, isActive: row[1])
        bindings.insert(key, binding)
        return binding
    }

    /// Builds the records that are ahead of their rows.
    func loadJournal(_ database: Database) throws {
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
        let wasAhead = try update(device, database) { record in
            defer { record.isAhead = true }
            // The value was accepted before. Values below the window count as spent.
            _ = record.window.accept(counter, mode: .unspent)
            record.unfolded += 1
            return record.isAhead
        }
        if wasAhead == false { ahead.append(device) }
        return wasAhead != nil
    }

    /// Adds the values that were spent in memory before the file was reopened to the records and their rows.
    func raise(to floor: ClockCache<DeviceID, WriterRecord>, _ database: Database) throws {
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

    /// Adds extensions to a device's record and row.
    func add(_ shown: ShownExtensions, to device: DeviceID, _ database: Database) throws {
        if try update(device, database, { $0.add(shown) }) == true { try write(shown, of: device, database) }
    }

    /// Adds extensions of a record to the device's row.
    func write(_ shown: ShownExtensions, of device: DeviceID, _ database: Database) throws {
        let statement = try database.cachedStatement(
            sql: "UPDATE device SET shown_extensions = shown_extensions | ? WHERE id = ?")
        try statement.execute(arguments: [shown.rawValue, device.number])
    }

    /// Writes the values that may be missing in the file.
    func payOwed(_ database: Database) throws {
        let statement = try DirectStatement(database, Journal.insertion)
        for value in owed {
            if try replay(value.counter, of: value.device, database) {
                try journal.write(value.counter, of: value.device, statement)
            }
        }
    }

    /// Returns the device that an mTLS key was bound to.
    ///
    /// - Returns: nil if the key was never bound.
    func find(_ key: KeyID) throws(StoreError) -> FoundDevice? {
        try read { database in
            guard let binding = try binding(of: key, database) else { return nil }
            let statement = try database.cachedStatement(
                sql: """
                    SELECT \(SharedSQL.deviceColumns), os_version FROM \(SharedSQL.deviceTables)
                    LEFT JOIN attestation ON attestation.device = device.id WHERE device.id = ?
                    """)
            guard let row = try Row.fetchOne(statement, arguments: [binding.device.number]),
                let record = try update(binding.device, database, { $0 })
            else { throw UnreadableRow(table: "binding") }
            return FoundDevice(
                id: binding.device, identity: try row.deviceIdentity(), isRevoked: record.isRevoked,
                isBound: binding.isActive, window: record.window, shown: record.shown, riskMetric: record.riskMetric,
                systemVersion: try SystemVersion(stored: row[13]))
        }
    }

    static let windowUpdate = "UPDATE counter SET highest = ?, bits = ? WHERE device = ?"

    /// Writes a window to its row with the statement `windowUpdate`.
    func write(_ window: CounterWindow, of device: DeviceID, _ statement: DirectStatement) throws {
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
    /// The risk metric of the newest receipt.
    var riskMetric: UInt32?
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

    /// Spends a value that is then written to the journal.
    ///
    /// - Parameter becomesAhead: Set if the record was not ahead of the device's row before.
    mutating func spend(_ value: UInt32, mode: CounterMode, becomesAhead: inout Bool) -> CounterVerdict {
        let verdict = window.accept(value, mode: mode)
        if verdict == .accepted {
            unfolded += 1
            becomesAhead = !isAhead
            isAhead = true
        }
        return verdict
    }
}

/// The writer's record of an mTLS key.
struct WriterBinding {
    let device: DeviceID
    var isActive: Bool
}
