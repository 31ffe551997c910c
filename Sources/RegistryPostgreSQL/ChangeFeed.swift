internal import Registry
internal import RevocationJournal
internal import Vocabulary

/// The position of this gateway in the changes of devices, with the callers that wait for a change. Changes are
/// numbered without gaps, so that a missed one is noticed.
struct ChangeFeed {
    /// The number of the latest change that is applied in memory.
    private(set) var position: Int64
    private var isLooking = false
    private var isToLookAgain = false
    private var waiting: [(number: Int64, done: () -> Void)] = []

    init(position: Int64) {
        self.position = position
    }

    /// Starts a look for changes.
    ///
    /// - Returns: false if one is in progress. Another one will then follow.
    mutating func beginLook() -> Bool {
        guard !isLooking else {
            isToLookAgain = true
            return false
        }
        isLooking = true
        isToLookAgain = false
        return true
    }

    /// Ends a look for changes.
    ///
    /// - Returns: Whether to look again.
    mutating func endLook() -> Bool {
        isLooking = false
        return isToLookAgain
    }

    func isBehind(_ last: Int64) throws -> Bool {
        guard last >= position else { throw DatabaseFault("the database was rolled back") }
        return last > position
    }

    /// Calls `done` when a change is applied in memory.
    mutating func wait(for number: Int64, done: @escaping () -> Void) {
        waiting.append((number, done))
    }

    /// Records that changes up to a number are applied.
    ///
    /// - Returns: The callbacks that waited for them.
    mutating func advance(to number: Int64) -> [() -> Void] {
        position = number
        let due = waiting.filter { $0.number <= number }.map(\.done)
        waiting.removeAll { $0.number <= number }
        return due
    }

    mutating func endWaiting() -> [() -> Void] {
        defer { waiting = [] }
        return waiting.map(\.done)
    }

    struct Update {
        var position: Int64
        var devices: Set<DeviceID> = []
        var changes: [StoreChange] = []
        /// The entries for the revocation journal.
        var entries: [WitnessEntry] = []
    }

    /// Reads the rows of `CounterStatements.changes`: one for each change and each binding of its device.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    func changes(_ result: DatabaseResult, at time: Int64) throws -> Update {
        var news = Update(position: position)
        var row = 0
        while row < result.rows {
            let number = try result.integer(row, 0)
            // Changes are removed after an hour, so a gateway that did not look for that long has missed some.
            guard number == news.position + 1 else { throw DatabaseFault("changes were missed") }
            news.position = number
            var end = row + 1
            while end < result.rows, try result.integer(end, 0) == number { end += 1 }
            try read(result, row..<end, into: &news)
            try witness(result, row..<end, time, into: &news)
            row = end
        }
        guard news.position > position else { throw DatabaseFault("changes were missed") }
        return news
    }

    private func read(_ result: DatabaseResult, _ rows: Range<Int>, into news: inout Update) throws {
        let first = rows.lowerBound
        let device = try result.device(first, 1, "change")
        let isRevoked = try result.boolean(first, 6)
        let bindings = try rows.filter { !result.isNull($0, 8) }.map { row in
            (key: try result.key(row, 8, "binding"), isActive: try result.boolean(row, 9))
        }
        news.devices.insert(device)
        news.changes += [
            .device(
                DeviceUpdate(
                    id: device, isRevoked: isRevoked, shown: try result.shown(first, 5),
                    riskMetric: result.isNull(first, 7) ? nil : try result.uint32(first, 7, "receipt"),
                    isKeyListed: try result.integer(first, 13) != 0, bindings: bindings)),
            .window(try result.window(first, 3), of: device),
        ]
        if isRevoked { news.changes.append(.barred(bindings.map(\.key))) }
        if !result.isNull(first, 2) { news.changes.append(.ended([try result.key(first, 2, "change")])) }
    }

    private func witness(_ result: DatabaseResult, _ rows: Range<Int>, _ time: Int64, into news: inout Update) throws {
        let key = try result.key(rows.lowerBound, 10, "device")
        let revokedAt = try result.optionalInteger(rows.lowerBound, 11)
        news.entries.append(revokedAt.map { .revoked(key, at: $0) } ?? .restored(key, at: time))
        for row in rows {
            guard let end = try result.optionalInteger(row, 12) else { continue }
            news.entries.append(.ended(try result.key(row, 8, "binding"), at: end))
        }
    }
}
