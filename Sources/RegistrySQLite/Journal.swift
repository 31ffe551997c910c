internal import GRDB
internal import Registry

/// The journal rows that are not folded yet, the oldest first, with their devices. The counter values are in the
/// records.
struct Journal {
    private struct Item {
        let number: Int64
        let device: DeviceID
    }

    private var items: [Item] = []
    private var start = 0
    private var next: Int64 = 1

    var count: Int { items.count - start }
    /// The greatest used number, which is the position of the store. Each row has a greater number than all earlier
    /// ones, folded or not.
    var position: Int64 { next - 1 }
    /// The number of the oldest row.
    var first: Int64? { count > 0 ? items[start].number : nil }
    /// The number of the newest row.
    var last: Int64? { count > 0 ? items.last?.number : nil }

    /// Removes the oldest row if its number does not exceed `number`.
    mutating func takeFirst(through number: Int64) -> (number: Int64, device: DeviceID)? {
        guard start < items.count, items[start].number <= number else { return nil }
        let item = items[start]
        start += 1
        compact()
        return (item.number, item.device)
    }

    /// Releases the memory of removed rows. Under steady load the journal is never empty, so this does not wait until
    /// it is.
    private mutating func compact() {
        if start == items.count {
            items.removeAll(keepingCapacity: items.capacity <= Self.keptCapacity)
            start = 0
        } else if start >= Self.keptCapacity / 2, start >= count {
            // A copy, unlike a move within the array, also releases the capacity of a peak.
            items = Array(items[start...])
            start = 0
        }
    }

    /// The number of rows, of 16 bytes each, whose memory an empty journal keeps.
    private static let keptCapacity = 65_536

    /// The number of rows for which memory is allocated.
    var capacity: Int { items.capacity }

    static let insertion = "INSERT INTO journal (seq, device, counter) VALUES (?, ?, ?)"

    /// Writes a row for a value with the statement `insertion`, in the caller's transaction.
    mutating func write(_ counter: UInt32, of device: DeviceID, _ statement: DirectStatement) throws {
        try statement.run(next, device.number, Int64(counter))
        append(next, device)
    }

    /// Reads all rows of the database in order.
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

    /// Takes a number for a change outside the journal, so that its loss is noticed like that of a row.
    mutating func advance(_ database: Database) throws {
        try database.cachedStatement(sql: "UPDATE store SET position = ?").execute(arguments: [next])
        next += 1
    }

    /// Appends a row that is in the database.
    mutating func append(_ number: Int64, _ device: DeviceID) {
        items.append(Item(number: number, device: device))
        // The numbers between were used for changes outside the journal.
        next = max(next, number + 1)
    }
}

/// A pass over the devices with journal rows. Their counter rows are written in the order of device numbers, then the
/// journal rows from before the pass are deleted.
///
/// Neighbouring devices share a page. Writing in the order of the journal would cost a page for each row, ten times as
/// much. After a crash between the two steps the journal is read again, which changes nothing.
struct FoldRound {
    /// The newest journal row of the pass.
    let through: Int64
    private let devices: [DeviceID]
    private var next = 0

    /// The number of counter rows in a page of 4 KiB.
    static let rowsPerPage: Int64 = 28

    /// Starts a pass.
    ///
    /// - Parameter ahead: The devices whose records are ahead of their rows, without duplicates.
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
