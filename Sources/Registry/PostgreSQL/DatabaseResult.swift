internal import CLibpq
internal import Vocabulary

/// What a statement has answered: rows in binary form, or an error. Owns the `PGresult`.
final class DatabaseResult {
    private let result: OpaquePointer

    /// - Parameter result: one that nobody else clears.
    init(adopting result: OpaquePointer) {
        self.result = result
    }

    deinit {
        PQclear(result)
    }

    var status: ExecStatusType { PQresultStatus(result) }
    var rows: Int { Int(PQntuples(result)) }
    /// How many rows a statement has changed.
    var changed: Int { Int(String(cString: PQcmdTuples(result))) ?? 0 }
    /// "COMMIT", "ROLLBACK", ...
    var tag: String { String(cString: PQcmdStatus(result)) }

    /// Why the statement failed; nil if it did not.
    var fault: DatabaseFault? {
        switch status {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: return nil
        default:
            // Not the message's details: they quote values.
            let message = Self.field("M", of: result) ?? String(cString: PQresStatus(status))
            return DatabaseFault(message, state: Self.field("C", of: result) ?? "")
        }
    }

    /// Fields of errors and notices have letters: V severity, in English; C SQLSTATE; M message.
    static func field(_ letter: Unicode.Scalar, of result: OpaquePointer?) -> String? {
        PQresultErrorField(result, Int32(letter.value)).map { String(cString: $0) }
    }

    // MARK: - Values: rows and columns count from 0

    func isNull(_ row: Int, _ column: Int) -> Bool { PQgetisnull(result, Int32(row), Int32(column)) == 1 }

    /// The bytes are the result's, and are copied.
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
}

/// Why the database did not do what it was asked.
struct DatabaseFault: Error {
    /// For logs: no values of parameters.
    let detail: String
    /// SQLSTATE; empty if the connection failed.
    let state: String

    init(_ detail: String, state: String = "") {
        self.detail = detail
        self.state = state
    }

    /// Nobody has answered before the deadline. What was asked for may be done, or never will be.
    static let noAnswer = DatabaseFault("no answer in time")
    var isNoAnswer: Bool { state == Self.noAnswer.state && detail == Self.noAnswer.detail }

    /// Nothing was done, and the same may succeed when it is tried again: 40001 serialization_failure, 40P01 deadlock_detected;
    /// 23505 unique_violation, where somebody else has inserted what was just not there.
    var isPassing: Bool { ["40001", "40P01", "23505"].contains(state) }

    /// Nothing was done, and the connection is as good as before: 57014 query_canceled, which reports the statement's
    /// timeout, and 55P03 lock_not_available.
    var isRefusal: Bool { ["57014", "55P03"].contains(state) }
}

extension DatabaseFault: CustomStringConvertible {
    var description: String { state.isEmpty ? detail : "\(detail) (SQLSTATE \(state))" }
}
