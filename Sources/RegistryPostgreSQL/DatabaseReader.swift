internal import Registry
internal import Vocabulary

/// The reading side of a database: each set of queries takes one round trip.
struct DatabaseReader: SQLReader {
    private let database: RegistryDatabase
    /// The statements before and after each set of queries, in the same round trip.
    private let before: [String]
    private let after: [String]

    /// Creates a reader.
    ///
    /// - Parameters:
    ///   - before: The statements that begin a transaction. Empty within one.
    ///   - after: The statements that end the transaction. Empty if it continues.
    init(_ database: RegistryDatabase, before: [String] = [], after: [String] = []) {
        self.database = database
        self.before = before
        self.after = after
    }

    func rows(_ statements: [SQLStatement]) throws -> [[DatabaseRow]] {
        let all = before.map { SQLStatement($0) } + statements + after.map { SQLStatement($0) }
        do {
            return try database.run(all)[before.count...].prefix(statements.count).map(\.all)
        } catch {
            if !after.isEmpty { try database.undo(after: error) }
            throw error
        }
    }

    static func statements(_ sql: String, anyOf keys: [KeyID]) -> [SQLStatement] {
        keys.isEmpty ? [] : [SQLStatement("\(sql) = ANY($1)", [.bytesList(keys.map(\.bytes))])]
    }

    static let locking = "FOR UPDATE"

    /// Other gateways may have spent values, so memory decides nothing.
    func window(of device: DeviceID) -> CounterWindow? { nil }

    // MARK: - Exports

    /// Reads a page of an export.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of rows.
    ///   - time: The time of the export for the head, in seconds since 1970-01-01T00:00:00Z.
    func exportPage(from cursor: ExportCursor, limit: Int, at time: Int64) throws -> ExportPage {
        let head = try exportHead(at: time)
        let start: [ExportRecord] = cursor == .start ? [.head(head)] : []
        let (records, next) =
            cursor.section == .devices
            ? try exportDevices(after: cursor.device, limit) : try exportRows(after: cursor, limit: limit)
        return ExportPage(store: head.store, records: start + records, next: next)
    }

    private func exportDevices(after number: Int64, _ limit: Int) throws -> ([ExportRecord], ExportCursor?) {
        let sql = """
            SELECT \(SQLColumns.device), \(SQLColumns.exported) FROM \(SQLColumns.exportedTables)
            WHERE device.id > $1 ORDER BY device.id LIMIT $2
            """
        let rows = try rows([SQLStatement(sql, [.integer(number), .integer(Int64(limit))])])[0]
        let numbers = try rows.map { try $0.integer(0) }
        var bindings: [Int64: [ExportedBinding]] = [:]
        let all = SQLStatement(
            "SELECT \(SQLColumns.binding) FROM binding WHERE device = ANY($1) ORDER BY device, created_at, key",
            [.integers(numbers)])
        for row in try self.rows([all])[0] {
            let binding = try row.binding()
            bindings[binding.device.number, default: []].append(ExportedBinding(binding))
        }
        var serials: [Int64: [String]] = [:]
        let vouching = SQLStatement(
            "SELECT \(SQLColumns.serial) FROM attested_serial WHERE device = ANY($1)", [.integers(numbers)])
        for row in try self.rows([vouching])[0] {
            let (device, serial) = try row.attestedSerial()
            serials[device, default: []].append(serial)
        }
        let devices = try zip(rows, numbers).map { row, number in
            try row.exportedDevice(bindings: bindings[number] ?? [], serials: serials[number] ?? [])
        }
        var weight = 0
        // A page has at least one device.
        let count = devices.prefix { device in
            defer { weight += device.weight }
            return weight < ExportPage.weight
        }.count
        let isLeft = count < devices.count || devices.count == limit
        return (
            devices.prefix(count).map { .device($0) },
            isLeft ? numbers.prefix(count).last.map { ExportCursor(behind: $0) } : ExportCursor(behind: .devices)
        )
    }
}

extension StoreWrite {
    /// The statements of the write.
    ///
    /// The standing of a counter grows with each change of the validity of its device or bindings. Counters that were
    /// planned with the old standing are decided again.
    var databaseStatements: [SQLStatement] {
        let statements = SQLWrites.statements(for: self, shownIn: .counter)
        return switch self {
        case .spend(_, let device, let window, let shown):
            [
                SQLStatement(
                    """
                    UPDATE counter SET highest = $1, bits = $2, shown_extensions = $3, standing = standing + 1
                    WHERE device = $4
                    """,
                    [
                        .integer(Int64(window.highest)), .bytes(window.bits), .integer(Int64(shown.rawValue)),
                        .device(device),
                    ])
            ]
        case .endBinding(_, let device, _), .expireBinding(_, let device), .revoke(let device, _),
            .restore(let device, _):
            statements + [
                SQLStatement("UPDATE counter SET standing = standing + 1 WHERE device = $1", [.device(device)])
            ]
        default: statements
        }
    }
}

/// A change of a device that other gateways must apply to their memory.
struct Announcement: Hashable {
    private enum Device: Hashable {
        case id(DeviceID)
        case hardwareKey(KeyID)
    }

    private let device: Device
    /// The binding that has ended, if any.
    private let ended: KeyID?

    /// Returns the announcements of writes, each once, in the order of the writes.
    static func all(of writes: [StoreWrite]) -> [Announcement] {
        var known: Set<Announcement> = []
        return writes.compactMap(Announcement.init).filter { known.insert($0).inserted }
    }

    private init?(_ write: StoreWrite) {
        switch write {
        // A device without a binding is in no memory.
        case .insert(let device) where !device.bindings.isEmpty:
            self.device = .hardwareKey(device.identity.hardwareKey)
            ended = nil
        case .endBinding(let key, let device, _), .expireBinding(let key, let device):
            self.device = .id(device)
            ended = key
        case .bind(_, let device, _), .scheduleEnd(_, let device, _), .scheduleEnds(let device, _),
            .revoke(let device, _), .restore(let device, _), .spend(_, let device, _, _),
            .keepReceipt(let device, _, _, _), .markListed(let device, _), .keepApp(_, let device),
            .keepPhone(_, let device), .keepEvidence(_, let device, _), .keepSignals(_, let device):
            self.device = .id(device)
            ended = nil
        default: return nil
        }
    }

    /// Returns a statement that announces the change and returns its number.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    func statement(at time: Int64) -> SQLStatement {
        let (number, argument): (String, SQLValue) =
            switch device {
            case .id(let id): ("$1::bigint", .device(id))
            case .hardwareKey(let key): ("(SELECT id FROM device WHERE hardware_key = $1)", .key(key))
            }
        return SQLStatement(
            """
            WITH next AS (UPDATE feed SET last = last + 1 RETURNING last)
            INSERT INTO change (seq, device, ended, changed_at)
            SELECT last, \(number), $2::bytea, $3::bigint FROM next RETURNING seq
            """, [argument, .bytes(ended?.bytes), .integer(time)])
    }
}
