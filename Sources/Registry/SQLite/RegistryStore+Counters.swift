internal import EventLoop
internal import GRDB

// Group commits, and the fold of the journal they write.
extension RegistryStore {
    /// Decides each entry against the writer's records and makes the accepted ones durable, all in one transaction.
    ///
    /// - Returns: an outcome for each entry, in order. If anything fails, it is `storeUnavailable` for all of them.
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
            // COMMIT may have been durable although it failed, so a value that was in the batch is spent in any case.
            for entry in batch { owed.append((entry.device, entry.counter)) }
            return batch.map { _ in .storeUnavailable }
        }
    }

    /// Spends a value in the writer's record, if everything it depends on holds, and writes down what is new about the
    /// device.
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

    /// Folds journal rows into the counter rows, for at most about 5 ms, in one transaction.
    ///
    /// - Returns: whether there are more.
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
                // The window holds every value of the device, those of later journal rows too.
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
        // When the last row is gone, the next one still has a greater number.
        try database.cachedStatement(sql: "UPDATE store SET position = max(position, ?)").execute(arguments: [last])
    }

    /// Leaves the rest of the 5 ms to the commit, which writes the pages and syncs them.
    private static let foldTime = TimeSpan.milliseconds(2)
    private static let pageLimit = 512
}
