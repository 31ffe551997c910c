internal import EventLoop
internal import GRDB
internal import Registry
internal import Vocabulary

/// The reading side of a file, within a transaction of it.
struct SQLiteReader: SQLReader {
    private let database: Database
    private let writer: CounterWriter

    init(_ database: Database, _ writer: CounterWriter) {
        self.database = database
        self.writer = writer
    }

    func rows(_ statements: [SQLStatement]) throws -> [[Row]] {
        try statements.map { statement in
            try Row.fetchAll(
                try database.cachedStatement(sql: statement.sql),
                arguments: StatementArguments(statement.arguments.map(\.stored)))
        }
    }

    static func statements(_ sql: String, anyOf keys: [KeyID]) -> [SQLStatement] {
        keys.map { SQLStatement("\(sql) = $1", [.bytes($0.bytes)]) }
    }

    /// Only one connection has the file open.
    static let locking = ""

    func window(of device: DeviceID) -> CounterWindow? { writer.window(of: device) }

    // MARK: - Exports

    /// Reads a page of an export. See `RegistryStore.exportPage`.
    func exportPage(
        from cursor: ExportCursor, limit: Int, until deadline: Instant, at time: Int64
    ) throws -> ExportPage {
        let head = try exportHead(at: time)
        let start: [ExportRecord] = cursor == .start ? [.head(head)] : []
        let (records, next) =
            cursor.section == .devices
            ? try exportDevices(after: cursor.device, limit, until: deadline)
            : try exportRows(after: cursor, limit: limit)
        return ExportPage(store: head.store, records: start + records, next: next)
    }

    private func exportDevices(
        after number: Int64, _ limit: Int, until deadline: Instant
    ) throws -> ([ExportRecord], ExportCursor?) {
        var records: [ExportRecord] = []
        var weight = 0
        let rows = try Row.fetchCursor(try database.cachedStatement(sql: Self.devices), arguments: [number])
        while let row = try rows.next() {
            let id = try row.device(0, "device")
            let bindings = try Row.fetchAll(
                try database.cachedStatement(sql: Self.bindings), arguments: [id.number]
            ).map { ExportedBinding(try $0.binding()) }
            let serials = try Row.fetchAll(
                try database.cachedStatement(sql: Self.serials), arguments: [id.number]
            ).map { try $0.attestedSerial().serial }
            let device = try row.exportedDevice(window: window(of: id), bindings: bindings, serials: serials)
            records.append(.device(device))
            weight += device.weight
            if records.count >= limit || weight >= ExportPage.weight || Instant.now >= deadline {
                return (records, ExportCursor(behind: id.number))
            }
        }
        return (records, ExportCursor(behind: .devices))
    }

    private static let devices = """
        SELECT \(SQLColumns.device), \(SQLColumns.exported) FROM \(SQLColumns.exportedTables)
        WHERE device.id > ? ORDER BY device.id
        """
    private static let bindings = "SELECT \(SQLColumns.binding) FROM binding WHERE device = ? ORDER BY created_at, key"
    private static let serials = "SELECT \(SQLColumns.serial) FROM attested_serial WHERE device = ?"
}
