/// An error that prevents the opening of a store. Nothing was changed.
public enum StoreOpenError: Error, Equatable, Sendable {
    /// The file does not exist and was not to be created.
    case missing(path: String)
    /// Another process, or another store of this process, has the file open. The path is that of the database.
    case locked(path: String)
    /// The file is not a SQLite database, is a database of another program, or has a damaged first page.
    case foreign(path: String)
    /// The database is damaged and must be restored from a backup.
    case corrupted(path: String, detail: String)
    /// The database was restored without its log, and is older than the log beside it.
    case olderThanLog(path: String)
    /// The file was written by a later version.
    case newerSchema(path: String)
    /// SQLite does not write as durably as required. `found` is the value of `PRAGMA synchronous`.
    case notDurable(path: String, found: Int)
    /// The file at the path is not the store that was open before.
    case replaced(path: String)
    /// The store is missing, although there was one according to the file `witness`, and the operator has not accepted
    /// the loss.
    case storeLost(path: String, witness: String)
    /// An import into the store was started and has not succeeded.
    case unfinishedImport(path: String)
    /// The pseudonyms in the store were made with another secret.
    case otherSecret(path: String, secret: String)
    /// The file of the secret is missing, but pseudonyms are in use, or other gateways have the secret.
    case secretMissing(path: String, secret: String)
    /// The store's revocation journal is missing, and the operator has not accepted the loss.
    case revocationsLost(path: String)
    /// The revocation journal is damaged or unusable.
    case revocations(path: String, detail: String)
    /// A system call or SQLite failed.
    case failed(path: String, detail: String)
}

extension StoreOpenError {
    /// The path of the faulty file, or the name of the database.
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
    /// The text for messages.
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

/// An error that refuses an operation on the registry. Nothing was changed, except after `unavailable`, where that is
/// unknown.
public enum StoreError: Error, Equatable, Sendable {
    /// A device with this hardware key is registered already.
    case keyRegistered
    /// The mTLS key is or was bound to a device. A key is bound only once.
    case keyBound
    case deviceUnknown
    case bindingUnknown
    /// A revoked device gets no binding.
    case deviceRevoked
    /// An operator cannot bind a key to a pending device. Its first key comes with an assertion.
    case devicePending
    /// The store failed, or is being reopened after a failure.
    case unavailable
}
