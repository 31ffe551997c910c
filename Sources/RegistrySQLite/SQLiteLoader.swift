internal import EventLoop
internal import GRDB
internal import Registry
internal import Vocabulary

/// An import into a file. Each record has its own statements, because there are no round trips to save.
final class SQLiteLoader {
    private let database: Database
    private var head: ExportHead?

    private init(_ database: Database) {
        self.database = database
    }

    /// Imports an export in one transaction.
    ///
    /// - Parameters:
    ///   - time: The current time, in seconds since 1970-01-01T00:00:00Z.
    ///   - fill: Adds the records in order, starting with the head. If it throws, the transaction is rolled back.
    /// - Returns: The new identity of the store.
    static func load(
        into store: RegistryStore, at time: Int64, _ fill: (RegistryLoading) throws(RegistryLoadError) -> Void
    ) throws(RegistryLoadError) -> StoreIdentity {
        let identity = StoreIdentity(store: RandomID(), epoch: RandomID())
        var reason: RegistryLoadError?
        do throws(StoreError) {
            try store.transaction { database in
                do {
                    let isEmpty = try Int.fetchOne(database, sql: "SELECT 1 FROM device LIMIT 1") == nil
                    guard isEmpty else { throw RegistryLoadError.notEmpty }
                    let loader = SQLiteLoader(database)
                    let loading = RegistryLoading(at: time) { record, line throws(RegistryLoadError) in
                        do { try loader.add(record, line: line) } catch let error as RegistryLoadError {
                            throw error
                        } catch {
                            throw .failed(StoreFault(error).detail)
                        }
                    }
                    try fill(loading)
                    let state = try store.reader(database).facts(StoreLook()).state
                    for statement in SQLWrites.completing(state, loader.head, as: identity, at: time) {
                        try database.run(statement)
                    }
                } catch let error as RegistryLoadError {
                    // Any refusal rolls the transaction back and keeps the connection. The reason is thrown below.
                    reason = error
                    throw StoreError.keyRegistered
                }
            }
        } catch {
            throw reason ?? .failed(store.lastFault ?? "\(store.path): \(error)")
        }
        store.adopt(identity)
        // The log has the size of the export.
        do throws(StoreError) { try store.moveLog() } catch {
            throw .failed(store.lastFault ?? "\(store.path): \(error)")
        }
        // As at a start, a witness with other revocations finds another store and repeats them in it.
        do throws(StoreOpenError) { try store.reopen() } catch {
            throw .failed("everything was imported, but the registry cannot be reopened: \(error)")
        }
        return store.identity
    }

    // MARK: - Records

    private func add(_ record: ExportRecord, line: Int) throws {
        switch record {
        case .head(let head): self.head = head
        case .device(let device):
            if try isThere("SELECT 1 FROM device WHERE hardware_key = ?", device.identity.hardwareKey.blob) {
                throw RegistryLoadError.refused(line: line, .hardwareKeyTwice)
            }
            var keys: Set<KeyID> = []
            for key in device.bindings.map(\.key) {
                let isNew = try keys.insert(key).inserted && !isThere("SELECT 1 FROM binding WHERE key = ?", key.blob)
                guard isNew else { throw RegistryLoadError.refused(line: line, .bindingKeyTwice) }
            }
            if let tag = device.attestation?.tag,
                try isThere("SELECT 1 FROM attestation WHERE tag = ?", tag.blob)
            {
                throw RegistryLoadError.refused(line: line, .tagTwice(tag))
            }
            try write(.insert(device))
        case .certificate(let certificate):
            // The key was bound after its device had been exported, so the certificate is left out like the binding.
            if try isThere("SELECT 1 FROM binding WHERE key = ?", certificate.key.blob) {
                try write(.issue(certificate.serial, for: certificate.key, until: certificate.notAfter))
            }
        case .usedToken(let token): try write(.use(token, .token))
        case .revokedSubject(let subject, let time): try write(.barSubject(subject, at: time))
        case .barredKey(let barred): try write(.barKey(barred.key, barred.kind, at: barred.barredAt))
        case .service(let service): try write(.federation(.keep(service)))
        case .federationToken(let token):
            // Its device may have been registered after the devices had been exported.
            if try isThere("SELECT 1 FROM device WHERE hardware_key = ?", token.device.blob) {
                try write(.federation(.insert(token)))
            }
        case .end: break
        }
    }

    private func write(_ write: StoreWrite) throws {
        for statement in SQLWrites.statements(for: write, shownIn: .device) { try database.run(statement) }
    }

    private func isThere(_ sql: String, _ key: some DatabaseValueConvertible) throws -> Bool {
        try Int.fetchOne(try database.cachedStatement(sql: sql), arguments: [key]) != nil
    }
}
