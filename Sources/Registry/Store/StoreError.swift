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
    /// The file was written by a later version.
    case newerSchema(path: String)
    /// SQLite does not write as durably as the promise needs. - found: what `PRAGMA synchronous` said.
    case notDurable(path: String, found: Int)
    /// The file at the path is not the store that was open before.
    case replaced(path: String)
    /// A system call or SQLite failed.
    case failed(path: String, detail: String)
}

extension StoreOpenError: CustomStringConvertible {
    /// For people.
    public var description: String {
        switch self {
        case .missing(let path): "\(path): no such file: a gateway makes it when it first starts"
        case .locked(let path): "\(path): in use by another process"
        case .foreign(let path): "\(path): not a registry of attestgate; if it was one, restore it from a backup"
        case .corrupted(let path, let detail): "\(path): damaged, restore it from a backup (\(detail))"
        case .newerSchema(let path): "\(path): written by a later version of attestgate"
        case .notDurable(let path, let found): "\(path): SQLite would not use synchronous=FULL (it reports \(found))"
        case .replaced(let path): "\(path): replaced by another store while in use"
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
