internal import CLibpq
internal import GRDBSQLite

/// Which libraries of its stores this process runs with.
public enum StoreVersions {
    /// As SQLite says it, `3.40.1`: of the library that was loaded.
    public static var sqlite: String { String(cString: sqlite3_libversion()) }

    /// libpq's, `15.18`: PostgreSQL writes it as major * 10000 + minor (PQlibVersion in its manual).
    public static var libpq: String {
        let number = PQlibVersion()
        return "\(number / 10_000).\(number % 10_000)"
    }
}
