internal import GRDB

/// The journal's rows that are not folded yet, oldest first: which device each belongs to. The counters themselves are in
/// the records.
struct Journal {
    private struct Item {
        let number: Int64
        let device: DeviceID
    }

    private var items: [Item] = []
    private var start = 0
    private var next: Int64 = 1

    var count: Int { items.count - start }
    /// The greatest number that was used: the store's position. Every row has a greater one than all before it, folded or not.
    var position: Int64 { next - 1 }
    /// The number of the oldest row.
    var first: Int64? { count > 0 ? items[start].number : nil }
    /// The number of the newest row.
    var last: Int64? { count > 0 ? items.last?.number : nil }

    /// Takes the oldest row, if its number is at most this.
    mutating func takeFirst(through number: Int64) -> (number: Int64, device: DeviceID)? {
        guard start < items.count, items[start].number <= number else { return nil }
        let item = items[start]
        start += 1
        compact()
        return (item.number, item.device)
    }

    /// Releases the memory of rows that were taken. Under steady load the journal is never empty, so this must not wait until
    /// it is.
    private mutating func compact() {
        if start == items.count {
            items.removeAll(keepingCapacity: items.capacity <= Self.keptCapacity)
            start = 0
        } else if start >= Self.keptCapacity / 2, start >= count {
            // Copied rather than moved within the array, so that the capacity of a peak is released too.
            items = Array(items[start...])
            start = 0
        }
    }

    /// Rows, of 16 bytes each, whose memory an empty journal keeps.
    private static let keptCapacity = 65_536

    /// Rows for which memory is allocated.
    var capacity: Int { items.capacity }

    static let insertion = "INSERT INTO journal (seq, device, counter) VALUES (?, ?, ?)"

    /// Writes a row for one value, with the statement `insertion`. The transaction is the caller's.
    mutating func write(_ counter: UInt32, of device: DeviceID, _ statement: DirectStatement) throws {
        try statement.run(next, device.number, Int64(counter))
        append(next, device)
    }

    /// Reads all rows in the database, in order.
    mutating func load(_ database: Database, _ body: (DeviceID, UInt32) throws -> Void) throws {
        self = Journal()
        next = (try Int64.fetchOne(database, sql: "SELECT position FROM store") ?? 0) + 1
        let rows = try Row.fetchCursor(database, sql: "SELECT seq, device, counter FROM journal ORDER BY seq")
        while let row = try rows.next() {
            guard let device = DeviceID(row[1]) else { throw UnreadableRow(table: "journal") }
            append(row[0], device)
            try body(device, row[2])
        }
    }

    /// Takes a number for what is written elsewhere: as little as a row may it be forgotten unseen.
    mutating func advance(_ database: Database) throws {
        try database.cachedStatement(sql: "UPDATE store SET position = ?").execute(arguments: [next])
        next += 1
    }

    /// Appends a row that is in the database.
    mutating func append(_ number: Int64, _ device: DeviceID) {
        items.append(Item(number: number, device: device))
        // Those that were taken for something else lie between.
        next = max(next, number + 1)
    }
}

/// One pass over the devices with journal rows: first their rows are written, in the order of their ids, then the journal
/// rows are deleted that were there when it began.
///
/// In this order because many neighbours then share a page: writing in the journal's order costs a page for each row, ten
/// times as much. A crash in between leaves rows that are ahead of a journal which is read again, and says the same.
struct FoldRound {
    /// The newest journal row it covers.
    let through: Int64
    private let devices: [DeviceID]
    private var next = 0

    /// Counter rows that fit into a page of 4 KiB.
    static let rowsPerPage: Int64 = 28

    /// - Parameter ahead: the devices whose records are ahead of their rows, each once.
    init(through: Int64, ahead: [DeviceID]) {
        self.through = through
        devices = ahead.sorted()
    }

    var hasDevices: Bool { next < devices.count }

    mutating func takeDevice() -> DeviceID? {
        guard next < devices.count else { return nil }
        next += 1
        return devices[next - 1]
    }
}
