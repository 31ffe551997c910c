internal import CLibpq
internal import GRDBSQLite

/// Why a store was not opened. Nothing was changed then.
public enum StoreOpenError: Error, Equatable, Sendable {
    /// There is no such file, and none was to be created.
    case missing(path: String)
    /// Another process, or another store of this one, has it open. The path is the database's.
    case locked(path: String)
    /// The file is no SQLite database, or one of something else; or one of ours whose first page is damaged.
    case foreign(path: String)
    /// The database is damaged; restore it from a backup.
    case corrupted(path: String, detail: String)
    /// A restored file under a log that continues a later one: read together they are neither.
    case olderThanLog(path: String)
    /// The file was written by a later version.
    case newerSchema(path: String)
    /// SQLite does not write as durably as the promise needs. - found: what `PRAGMA synchronous` said.
    case notDurable(path: String, found: Int)
    /// The file at the path is not the store that was open before.
    case replaced(path: String)
    /// There is no store where there was one before, and nobody has accepted that. - witness: the file that says so.
    case storeLost(path: String, witness: String)
    /// An import into it was begun, and has not ended well.
    case unfinishedImport(path: String)
    /// The names in it were made with another secret than that of this file.
    case otherSecret(path: String, secret: String)
    /// The file of the secret is not there, and somebody has a name by it, or others have it.
    case secretMissing(path: String, secret: String)
    /// The revocation journal that the store had is gone, and nobody has accepted that.
    case revocationsLost(path: String)
    /// It is damaged, or cannot be used.
    case revocations(path: String, detail: String)
    /// A system call or SQLite failed.
    case failed(path: String, detail: String)
}

extension StoreOpenError {
    /// What is at fault, by its path; that of a database is its name.
    public var path: String {
        switch self {
        case .missing(let path), .locked(let path), .foreign(let path), .corrupted(let path, _),
            .olderThanLog(let path),
            .newerSchema(let path), .notDurable(let path, _), .replaced(let path), .storeLost(let path, _),
            .unfinishedImport(let path), .revocationsLost(let path), .revocations(let path, _), .failed(let path, _):
            path
        case .otherSecret(_, let secret), .secretMissing(_, let secret):
            secret
        }
    }

    private static let restoring =
        """
        restore it from a backup: move it and its -wal away, then `attestgate registry import --config FILE BACKUP`
        """
}

extension StoreOpenError: CustomStringConvertible {
    /// For people.
    public var description: String {
        switch self {
        case .missing(let path): "\(path): no such file: a gateway creates it at its first start"
        case .locked(let path): "\(path): in use by another process; `lslocks` shows which"
        case .foreign(let path): "\(path): not a registry of attestgate; if it was one: \(Self.restoring)"
        case .corrupted(let path, let detail): "\(path): damaged (\(detail)): \(Self.restoring)"
        case .olderThanLog(let path):
            """
            \(path): damaged: it is older than its log \(path)-wal, so it was restored without its own log. Restore \
            the copy completely: with the -wal copied with it, or without a -wal if there was none. Or, with a \
            backup of `attestgate registry export`: \(Self.restoring)
            """
        case .newerSchema(let path): "\(path): written by a later version of attestgate"
        case .notDurable(let path, let found): "\(path): SQLite does not use synchronous=FULL (it reports \(found))"
        case .replaced(let path): "\(path): replaced by another store while in use"
        case .storeLost(let path, let witness):
            """
            \(path): the registry is missing or empty, but according to \(witness) there was one: mount its disk, or \
            restore a backup with `attestgate registry import`. To start again without devices, start once with \
            `attestgate run --accept-lost-registry`
            """
        case .unfinishedImport(let path):
            """
            \(path): an import into it failed, so the registry is empty: repeat `attestgate registry import`. To \
            start without devices, remove it, and start once with `attestgate run --accept-lost-registry`
            """
        case .otherSecret(let path, let secret):
            """
            secret: \(secret): the registry \(path) uses another secret: services would see every device as a new \
            one, and barred people would not be known. Install the file that all gateways of the registry use, or a \
            copy of it. If it is lost, and no other gateway runs with it, start once with `attestgate run \
            --accept-new-secret`
            """
        case .secretMissing(let path, let secret):
            """
            secret: \(secret): the file is missing, but the registry \(path) was used with one: restore it, or copy \
            it from another gateway of the registry. With a new secret, services see every device as a new one. If \
            you accept that, or no gateway has ever used the registry, start once with `attestgate run \
            --accept-new-secret`
            """
        case .revocationsLost(let path):
            """
            \(path): the revocation journal is missing or too old: restore it from another disk or a backup. If it \
            is lost, start once with `attestgate run --accept-lost-revocations`: revocations that the store does not \
            know are then lost
            """
        case .revocations(let path, let detail): "\(path): the revocation journal: \(detail)"
        case .failed(let path, let detail): "\(path): \(detail)"
        }
    }
}

/// Why an operation on the registry was refused. Nothing was changed then, except in the last case, where that is unknown.
public enum StoreError: Error, Equatable, Sendable {
    /// A device with this hardware key is registered already.
    case keyRegistered
    /// The mTLS key is or was bound to a device; a key is bound once, ever.
    case keyBound
    case deviceUnknown
    case bindingUnknown
    /// Nothing is bound to a revoked device.
    case deviceRevoked
    /// An operator binds nothing to a pending device: its first key comes with an assertion.
    case devicePending
    /// The store failed, or is being reopened after it failed.
    case unavailable
}

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
