internal import CLibpq
internal import Vocabulary

/// The result of a statement: rows in binary form, or an error. It owns the `PGresult`.
final class DatabaseResult {
    private let result: OpaquePointer

    /// Takes ownership of a result.
    init(adopting result: OpaquePointer) {
        self.result = result
    }

    deinit {
        PQclear(result)
    }

    var status: ExecStatusType { PQresultStatus(result) }
    var rows: Int { Int(PQntuples(result)) }
    /// The number of changed rows.
    var changed: Int { Int(String(cString: PQcmdTuples(result))) ?? 0 }
    /// The command tag, such as "COMMIT" or "ROLLBACK".
    var tag: String { String(cString: PQcmdStatus(result)) }

    /// The error of the statement. Nil if it succeeded.
    var fault: DatabaseFault? {
        switch status {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: return nil
        default:
            // Details are left out, because they quote values.
            let message = Self.field("M", of: result) ?? String(cString: PQresStatus(status))
            return DatabaseFault(message, state: Self.field("C", of: result) ?? "")
        }
    }

    /// Returns a field of an error or a notice: V is the severity in English, C the SQLSTATE, M the message.
    static func field(_ letter: Unicode.Scalar, of result: OpaquePointer?) -> String? {
        PQresultErrorField(result, Int32(letter.value)).map { String(cString: $0) }
    }

    // MARK: - Values: rows and columns are numbered from 0

    func isNull(_ row: Int, _ column: Int) -> Bool { PQgetisnull(result, Int32(row), Int32(column)) == 1 }

    /// Returns a copy of the bytes.
    func bytes(_ row: Int, _ column: Int) -> [UInt8] {
        let length = Int(PQgetlength(result, Int32(row), Int32(column)))
        guard length > 0, let start = PQgetvalue(result, Int32(row), Int32(column)) else { return [] }
        return start.withMemoryRebound(to: UInt8.self, capacity: length) {
            [UInt8](UnsafeBufferPointer(start: $0, count: length))
        }
    }

    func integer(_ row: Int, _ column: Int) throws -> Int64 {
        let bytes = bytes(row, column)
        guard bytes.count == 8 else { throw UnreadableRow(table: "of a query") }
        return Int64(bitPattern: bytes.reduce(0) { $0 << 8 | UInt64($1) })
    }

    func boolean(_ row: Int, _ column: Int) throws -> Bool {
        let bytes = bytes(row, column)
        guard bytes.count == 1 else { throw UnreadableRow(table: "of a query") }
        return bytes[0] != 0
    }

    func text(_ row: Int, _ column: Int) -> String { String(decoding: bytes(row, column), as: UTF8.self) }

    func optionalInteger(_ row: Int, _ column: Int) throws -> Int64? {
        isNull(row, column) ? nil : try integer(row, column)
    }
    func optionalBytes(_ row: Int, _ column: Int) -> [UInt8]? { isNull(row, column) ? nil : bytes(row, column) }
    func optionalText(_ row: Int, _ column: Int) -> String? { isNull(row, column) ? nil : text(row, column) }

    func key(_ row: Int, _ column: Int, _ table: StaticString) throws -> KeyID {
        guard let key = KeyID(digest: bytes(row, column).span) else { throw UnreadableRow(table: table) }
        return key
    }

    func device(_ row: Int, _ column: Int, _ table: StaticString) throws -> DeviceID {
        guard let device = DeviceID(try integer(row, column)) else { throw UnreadableRow(table: table) }
        return device
    }

    func uint32(_ row: Int, _ column: Int, _ table: StaticString) throws -> UInt32 {
        guard let number = UInt32(exactly: try integer(row, column)) else { throw UnreadableRow(table: table) }
        return number
    }

    /// Reads the columns `highest` and `bits`.
    func window(_ row: Int, _ column: Int) throws -> CounterWindow {
        guard
            let window = CounterWindow(
                highest: try uint32(row, column, "counter"), bits: bytes(row, column + 1))
        else { throw UnreadableRow(table: "counter") }
        return window
    }

    func shown(_ row: Int, _ column: Int) throws -> ShownExtensions {
        guard let raw = UInt8(exactly: try integer(row, column)) else { throw UnreadableRow(table: "counter") }
        return ShownExtensions(rawValue: raw)
    }
}

/// An error of the database or its connection.
struct DatabaseFault: Error {
    /// The text for logs, without values of parameters.
    let detail: String
    /// The SQLSTATE. Empty if the connection failed.
    let state: String

    init(_ detail: String, state: String = "") {
        self.detail = detail
        self.state = state
    }

    /// The deadline passed without an answer. The statement may be done or not.
    static let noAnswer = DatabaseFault("no answer in time")
    var isNoAnswer: Bool { state == Self.noAnswer.state && detail == Self.noAnswer.detail }

    /// Whether nothing was done and a retry may succeed: 40001 serialization_failure, 40P01 deadlock_detected, or 23505
    /// unique_violation after a concurrent insert.
    var isPassing: Bool { ["40001", "40P01", "23505"].contains(state) }

    /// Whether nothing was done and the connection is usable: 57014 query_canceled, which reports a statement timeout,
    /// or 55P03 lock_not_available.
    var isRefusal: Bool { ["57014", "55P03"].contains(state) }
}

extension DatabaseFault: CustomStringConvertible {
    var description: String { state.isEmpty ? detail : "\(detail) (SQLSTATE \(state))" }
}

extension DeviceIdentity {
    /// The columns that this and `Device` are read from, in order.
    static let databaseColumns = """
        device.id, hardware_key, app, platform, environment, point, registered_at, revoked_at, highest, activated_at, \
        approved_at, subject, shown_extensions
        """
    static let databaseTables = "device JOIN counter ON counter.device = device.id"

    init(_ result: DatabaseResult, _ row: Int) throws {
        guard let app = AppID(result.text(row, 2)), let platform = Platform(rawValue: result.text(row, 3)),
            let environment = AttestationEnvironment(rawValue: result.text(row, 4)),
            let point = PublicPoint(result.bytes(row, 5))
        else { throw UnreadableRow(table: "device") }
        self.init(
            app: app, platform: platform, environment: environment, hardwareKey: try result.key(row, 1, "device"),
            point: point)
    }
}

extension Device {
    init(_ result: DatabaseResult, _ row: Int) throws {
        let revokedAt = try result.optionalInteger(row, 7)
        let isActivated = !result.isNull(row, 9)
        self.init(
            id: try result.device(row, 0, "device"), identity: try DeviceIdentity(result, row),
            state: revokedAt != nil ? .revoked : isActivated ? .active : .pending,
            registeredAt: try result.integer(row, 6), approvedAt: try result.optionalInteger(row, 10),
            revokedAt: revokedAt, highestCounter: try result.uint32(row, 8, "counter"),
            subject: try result.optionalBytes(row, 11).map { bytes in
                guard let subject = Fingerprint(bytes) else { throw UnreadableRow(table: "device") }
                return subject
            }, shown: try result.shown(row, 12))
    }
}

extension Binding {
    static let databaseColumns = "key, device, created_at, ended_at, ends_at"

    init(_ result: DatabaseResult, _ row: Int) throws {
        self.init(
            key: try result.key(row, 0, "binding"), device: try result.device(row, 1, "binding"),
            createdAt: try result.integer(row, 2), endedAt: try result.optionalInteger(row, 3),
            endsAt: try result.optionalInteger(row, 4))
    }
}

extension AttestationRecord {
    static let databaseColumns = "digest, certificate_key, content, risk_metric, os_version"
    static let databaseTables = "attestation LEFT JOIN receipt ON receipt.device = attestation.device"

    init(_ result: DatabaseResult, _ row: Int) throws {
        let key = try result.isNull(row, 1) ? nil : result.key(row, 1, "attestation")
        let risk = try result.isNull(row, 3) ? nil : result.uint32(row, 3, "receipt")
        guard let digest = Fingerprint(result.bytes(row, 0)),
            let record = AttestationRecord(
                digest: digest, certificateKey: key, receipt: result.optionalBytes(row, 2), riskMetric: risk,
                systemVersion: try SystemVersion(stored: result.optionalText(row, 4)))
        else { throw UnreadableRow(table: "attestation") }
        self = record
    }
}

extension ReceiptRefresh {
    static let databaseColumns = "created_at, next_at, asked_at, outcome, failures"

    init(_ result: DatabaseResult, _ row: Int) throws {
        self.init(
            createdAt: try result.optionalInteger(row, 0), nextAt: try result.optionalInteger(row, 1),
            askedAt: try result.optionalInteger(row, 2),
            outcome: try result.optionalText(row, 3).map { text in
                guard let outcome = ReceiptOutcome(rawValue: text) else { throw UnreadableRow(table: "receipt") }
                return outcome
            }, failures: Int(try result.integer(row, 4)))
    }
}
