internal import CLibpq
internal import Registry
internal import Vocabulary

extension SQLValue {
    /// The value in PostgreSQL's binary format. Nil is NULL.
    var encoded: [UInt8]? {
        switch self {
        case .integer(let number): Self.big(UInt64(bitPattern: number))
        case .bytes(let bytes): bytes
        case .text(let text): [UInt8](text.utf8)
        case .integers(let numbers):
            Self.array(of: 20, numbers.count, size: 12 * numbers.count) { bytes in
                for number in numbers {
                    bytes += Self.big(UInt32(8))
                    bytes += Self.big(UInt64(bitPattern: number))
                }
            }
        case .bytesList(let list):
            Self.array(of: 17, list.count, size: list.reduce(0) { $0 + 4 + $1.count }) { bytes in
                for item in list {
                    bytes += Self.big(UInt32(item.count))
                    bytes += item
                }
            }
        case .optionalIntegers(let numbers):
            Self.array(of: 20, numbers.map { $0.map { Self.big(UInt64(bitPattern: $0)) } })
        case .optionalBytesList(let list): Self.array(of: 17, list)
        case .texts(let texts): Self.array(of: 25, texts.map { $0.map { [UInt8]($0.utf8) } })
        case .null: nil
        }
    }

    /// Encodes an array with NULLs, which have length -1.
    private static func array(of type: UInt32, _ elements: [[UInt8]?]) -> [UInt8] {
        let size = elements.reduce(0) { $0 + 4 + ($1?.count ?? 0) }
        return array(of: type, elements.count, size: size, hasNulls: elements.contains { $0 == nil }) { bytes in
            for element in elements {
                bytes += big(element.map { UInt32($0.count) } ?? .max)
                if let element { bytes += element }
            }
        }
    }

    /// Encodes an array for PostgreSQL's array_recv.
    ///
    /// The format starts with the number of dimensions, a flag for NULLs and the type of the elements. The length and
    /// lower bound of each dimension follow, then the length and bytes of each element.
    private static func array(
        of type: UInt32, _ count: Int, size: Int, hasNulls: Bool = false, _ fill: (inout [UInt8]) -> Void
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(20 + size)
        bytes += big(UInt32(count == 0 ? 0 : 1))
        bytes += big(UInt32(hasNulls ? 1 : 0))
        bytes += big(type)
        guard count > 0 else { return bytes }
        bytes += big(UInt32(count))
        bytes += big(UInt32(1))
        fill(&bytes)
        return bytes
    }

    private static func big<Number: FixedWidthInteger & UnsignedInteger>(_ number: Number) -> [UInt8] {
        (0..<(Number.bitWidth / 8)).map { UInt8(truncatingIfNeeded: number >> (Number.bitWidth - 8 - 8 * $0)) }
    }
}

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

    /// All rows.
    var all: [DatabaseRow] { (0..<rows).map { DatabaseRow(self, $0) } }
}

/// A row of a result.
struct DatabaseRow: SQLRow {
    private let result: DatabaseResult
    private let row: Int

    init(_ result: DatabaseResult, _ row: Int) {
        self.result = result
        self.row = row
    }

    func optionalInteger(_ column: Int) throws -> Int64? { try result.optionalInteger(row, column) }
    func optionalBytes(_ column: Int) -> [UInt8]? { result.optionalBytes(row, column) }
    func optionalText(_ column: Int) -> String? { result.optionalText(row, column) }
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
