internal import struct Foundation.Data
internal import GRDB
internal import Vocabulary

// The writer's records: read from rows, ahead of them by the journal.
extension RegistryStore {
    /// Calls `body` with the record of a device in place. - Returns: nil if there is no such device.
    func update<Result>(
        _ device: DeviceID, _ database: Database, _ body: (inout WriterRecord) -> Result
    ) throws -> Result? {
        if devices.slot(of: device) == nil {
            guard let record = try readRecord(device, database) else { return nil }
            // Over the limit if need be: the journal's bound is what bounds the pinned ones.
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

    /// What the writer knows of an mTLS key. - Returns: nil if it was never bound.
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
        // Apart, because `update` changes the object.
        var loaded = Journal()
        try loaded.load(database) { device, counter in
            // A row of no device can only come from a damaged file; it is folded away like the others.
            try replay(counter, of: device, database)
        }
        journal = loaded
    }

    /// Spends a value that has a row in the journal, or is about to. - Returns: whether there is such a device.
    @discardableResult
    private func replay(_ counter: UInt32, of device: DeviceID, _ database: Database) throws -> Bool {
        let wasAhead = try update(device, database) { record in
            defer { record.isAhead = true }
            // Accepted before; further behind than the window reaches it counts as spent anyway.
            _ = record.window.accept(counter, mode: .unspent)
            record.unfolded += 1
            return record.isAhead
        }
        if wasAhead == false { ahead.append(device) }
        return wasAhead != nil
    }

    /// Raises the records, and the rows behind them, to what memory held before the file was opened again.
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

    /// Remembers what a device has shown, in its record and its row.
    func add(_ shown: ShownExtensions, to device: DeviceID, _ database: Database) throws {
        if try update(device, database, { $0.add(shown) }) == true { try write(shown, of: device, database) }
    }

    /// Adds to a device's row what its record knows already.
    func write(_ shown: ShownExtensions, of device: DeviceID, _ database: Database) throws {
        let statement = try database.cachedStatement(
            sql: "UPDATE device SET shown_extensions = shown_extensions | ? WHERE id = ?")
        try statement.execute(arguments: [shown.rawValue, device.number])
    }

    /// Writes down what the file did not take, or may not have taken.
    func payOwed(_ database: Database) throws {
        let statement = try DirectStatement(database, Journal.insertion)
        for value in owed {
            if try replay(value.counter, of: value.device, database) {
                try journal.write(value.counter, of: value.device, statement)
            }
        }
    }

    /// What workers are to know of the device an mTLS key was bound to. - Returns: nil if it never was.
    func find(_ key: KeyID) throws(StoreError) -> FoundDevice? {
        try read { database in
            guard let binding = try binding(of: key, database) else { return nil }
            let statement = try database.cachedStatement(
                sql: """
                    SELECT \(DeviceIdentity.columns), os_version FROM \(DeviceIdentity.tables)
                    LEFT JOIN attestation ON attestation.device = device.id WHERE device.id = ?
                    """)
            guard let row = try Row.fetchOne(statement, arguments: [binding.device.number]),
                let record = try update(binding.device, database, { $0 })
            else { throw UnreadableRow(table: "binding") }
            return FoundDevice(
                id: binding.device, identity: try DeviceIdentity(row: row), isRevoked: record.isRevoked,
                isBound: binding.isActive, window: record.window, shown: record.shown, riskMetric: record.riskMetric,
                systemVersion: try SystemVersion(stored: row[13]))
        }
    }

    static let windowUpdate = "UPDATE counter SET highest = ?, bits = ? WHERE device = ?"

    /// Writes a record to its row, with the statement `windowUpdate`.
    func write(_ window: CounterWindow, of device: DeviceID, _ statement: DirectStatement) throws {
        try statement.run(Int64(window.highest), window.bits, device.number)
    }
}
