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

    /// The first column of `CounterStatements.changes` after those of the device.
    private static let end = SQLColumns.postureEnd

    /// Reads the rows of `CounterStatements.changes`: one for each change and each binding of its device.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    func changes(_ result: DatabaseResult, at time: Int64) throws -> Update {
        var news = Update(position: position)
        var row = 0
        while row < result.rows {
            let number = try result.integer(row, Self.end)
            // Changes are removed after an hour, so a gateway that did not look for that long has missed some.
            guard number == news.position + 1 else { throw DatabaseFault("changes were missed") }
            news.position = number
            var end = row + 1
            while end < result.rows, try result.integer(end, Self.end) == number { end += 1 }
            try read(result, row..<end, into: &news)
            try witness(result, row..<end, time, into: &news)
            row = end
        }
        guard news.position > position else { throw DatabaseFault("changes were missed") }
        return news
    }

    private func read(_ result: DatabaseResult, _ rows: Range<Int>, into news: inout Update) throws {
        let first = rows.lowerBound
        let (row, end) = (DatabaseRow(result, first), Self.end)
        let device = try row.device(0, "device")
        let isRevoked = !result.isNull(first, 7)
        let (posture, isKeyListed) = try row.posture()
        let bindings = try rows.filter { !result.isNull($0, end + 3) }.map { row in
            (key: try result.key(row, end + 3, "binding"), isActive: try result.boolean(row, end + 4))
        }
        news.devices.insert(device)
        news.changes += [
            .device(
                DeviceUpdate(
                    id: device, isRevoked: isRevoked, shown: try row.shown(12), posture: posture,
                    isKeyListed: isKeyListed, bindings: bindings)),
            .window(try row.window(8, end + 2), of: device),
        ]
        if isRevoked { news.changes.append(.barred(bindings.map(\.key))) }
        if let ended = try row.optionalKey(end + 1, "change") { news.changes.append(.ended([ended])) }
    }

    private func witness(_ result: DatabaseResult, _ rows: Range<Int>, _ time: Int64, into news: inout Update) throws {
        let key = try result.key(rows.lowerBound, 1, "device")
        let revokedAt = try result.optionalInteger(rows.lowerBound, 7)
        news.entries.append(revokedAt.map { .revoked(key, at: $0) } ?? .restored(key, at: time))
        for row in rows {
            guard let end = try result.optionalInteger(row, Self.end + 5) else { continue }
            news.entries.append(.ended(try result.key(row, Self.end + 3, "binding"), at: end))
        }
    }
}
