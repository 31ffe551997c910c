internal import GRDB

/// Something the store did not expect: SQLite's error, or a row it cannot read. Ends the connection.
struct StoreFault: Error {
    let detail: String
    private let code: ResultCode?

    init(_ error: any Error) {
        switch error {
        case let error as StoreFault: self = error
        case let error as DatabaseError:
            code = error.resultCode
            // Not GRDB's own description: it quotes the statement, and some versions its arguments.
            detail = "\(error.message ?? "SQLite failed") (SQLite \(error.extendedResultCode.rawValue))"
        case let error as UnreadableRow:
            code = .SQLITE_CORRUPT
            detail = "a row of table \(error.table) cannot be read"
        default:
            code = nil
            detail = String(describing: error)
        }
    }

    func openError(path: String) -> StoreOpenError {
        switch code {
        case .SQLITE_NOTADB: .foreign(path: path)
        case .SQLITE_CORRUPT: .corrupted(path: path, detail: detail)
        case .SQLITE_BUSY: .locked(path: path)
        default: .failed(path: path, detail: detail)
        }
    }
}
