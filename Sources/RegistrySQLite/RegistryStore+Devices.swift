public import EventLoop
internal import GRDB
public import Registry
internal import RevocationJournal
public import Vocabulary

// Operations on devices, bindings and people. Times are in seconds since 1970-01-01T00:00:00Z.
extension RegistryStore {
    /// Registers a device, with a binding if a key is given. The counter starts at 0.
    public func register(
        _ identity: DeviceIdentity, binding key: KeyID?, at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> DeviceDetails {
        try transaction { database in try existing(try insert(identity, key, time, database), database) }
    }

    /// Registers devices in order in one transaction, until one is refused.
    ///
    /// - Returns: The number of registered devices, and the refusal `keyRegistered` or `keyBound` of the next one. The
    ///   refusal is nil if all are registered.
    public func register(
        _ registrations: [(identity: DeviceIdentity, binding: KeyID?)], at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> (registered: Int, refusal: StoreError?) {
        try transaction { database in
            var registered = 0
            for (identity, key) in registrations {
                do {
                    _ = try insert(identity, key, time, database)
                } catch let refusal as StoreError {
                    return (registered, refusal)
                }
                registered += 1
            }
            return (registered, nil)
        }
    }

    /// Inserts a device. A refusal precedes the first write, so the transaction can continue without this device.
    private func insert(
        _ identity: DeviceIdentity, _ key: KeyID?, _ time: Int64, _ database: Database
    ) throws -> DeviceID {
        if try device(withHardwareKey: identity.hardwareKey, database) != nil { throw StoreError.keyRegistered }
        if let key, try isTaken(key, database) { throw StoreError.keyBound }
        let id = try insertRow(identity, showing: [], activatedAt: time, time, database)
        // The key is known to be revoked, so the device is registered as revoked. An operator may restore it.
        if try isBarred(identity.hardwareKey, .hardware, database) {
            try database.execute(sql: "UPDATE device SET revoked_at = ? WHERE id = ?", arguments: [time, id.number])
        }
        if let key { try insertBinding(key, id, time, database) }
        return id
    }

    func device(withHardwareKey key: KeyID, _ database: Database) throws -> DeviceID? {
        let statement = try database.cachedStatement(sql: "SELECT id FROM device WHERE hardware_key = ?")
        return try Int64.fetchOne(statement, arguments: [key.blob]).flatMap(DeviceID.init)
    }

    /// Inserts the rows of a device.
    ///
    /// - Parameters:
    ///   - identity: The identity, whose hardware key is not registered.
    ///   - activation: The activation time. Nil for a pending device.
    func insertRow(
        _ identity: DeviceIdentity, showing shown: ShownExtensions, activatedAt activation: Int64?, _ time: Int64,
        _ database: Database
    ) throws -> DeviceID {
        try database.cachedStatement(
            sql: """
                INSERT INTO device (
                    hardware_key, app, platform, environment, point, registered_at, activated_at, shown_extensions)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(arguments: [
            identity.hardwareKey.blob, identity.app.description, identity.platform.rawValue,
            identity.environment.rawValue, identity.point.bytes.blob, time, activation,
            shown.rawValue,
        ])
        guard let id = DeviceID(database.lastInsertedRowID) else { throw UnreadableRow(table: "device") }
        let window = CounterWindow()
        try database.cachedStatement(sql: "INSERT INTO counter (device, highest, bits) VALUES (?, ?, ?)")
            .execute(arguments: [id.number, window.highest, window.bits.blob])
        return id
    }

    /// Binds an mTLS key that was never bound to an active device.
    public func bind(
        _ key: KeyID, to device: DeviceID, at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> DeviceDetails {
        try transaction { database in
            switch try existing(device, database).device.state {
            case .revoked: throw StoreError.deviceRevoked
            case .pending: throw StoreError.devicePending
            case .active: break
            }
            if try isTaken(key, database) { throw StoreError.keyBound }
            try insertBinding(key, device, time, database)
            return try existing(device, database)
        }
    }

    /// Inserts a binding for a key that was never bound.
    func insertBinding(_ key: KeyID, _ device: DeviceID, _ time: Int64, _ database: Database) throws {
        try database.cachedStatement(sql: "INSERT INTO binding (key, device, created_at) VALUES (?, ?, ?)")
            .execute(arguments: [key.blob, device.number, time])
    }

    /// Ends a binding permanently. An ended binding does not change.
    public func endBinding(_ key: KeyID, at time: Int64 = WallClock.seconds) throws(StoreError) -> DeviceDetails {
        let details = try transaction { database in
            guard let binding = try binding(of: key, database) else { throw StoreError.bindingUnknown }
            try database.execute(
                sql: "UPDATE binding SET ended_at = ? WHERE key = ? AND ended_at IS NULL", arguments: [time, key.blob])
            try raiseStanding(database)
            return try existing(binding.device, database)
        }
        // Records in memory change only after the transaction, because it may fail.
        bindings.update(key) { $0.isActive = false }
        attest(WitnessEntry.all(of: details, at: time))
        return details
    }

    /// Revokes a device. A revoked device does not change.
    public func revoke(_ device: DeviceID, at time: Int64 = WallClock.seconds) throws(StoreError) -> DeviceDetails {
        try set(
            "UPDATE device SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", [time, device.number], device, true,
            time)
    }

    /// Restores a revoked device to its previous state with its counters. There is no other way to undo a revocation.
    public func restore(
        _ device: DeviceID, at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> DeviceDetails {
        // The receipt was not examined while the device was revoked, so it is due now.
        try set(
            """
            UPDATE device SET revoked_at = NULL WHERE id = ?;
            UPDATE receipt SET next_at = min(next_at, ?) WHERE device = ?;
            DELETE FROM barred_key WHERE kind = 'hardware' AND key = (SELECT hardware_key FROM device WHERE id = ?)
            """, [device.number, time, device.number, device.number], device, false, time)
    }

    private func set(
        _ sql: String, _ arguments: StatementArguments, _ device: DeviceID, _ isRevoked: Bool, _ time: Int64
    ) throws(StoreError) -> DeviceDetails {
        let details = try transaction { database in
            try database.execute(sql: sql, arguments: arguments)
            try raiseStanding(database)
            return try existing(device, database)
        }
        devices.update(device) { $0.isRevoked = isRevoked }
        attest(WitnessEntry.all(of: details, at: time))
        return details
    }

    /// Draws a fresh epoch, which invalidates all earlier challenges.
    ///
    /// If admission tokens are refused for longer than the lifetime of a token, that time is shortened to one lifetime.
    /// Every used token has expired by then.
    public func renewEpoch(at time: Int64 = WallClock.seconds) throws(StoreError) -> StoreIdentity {
        try renewEpoch(numbered: 0, refusingTokensUntil: 0, atMost: time + SingleUse.longestTokenLife)
        return identity
    }

    /// Draws a fresh epoch.
    ///
    /// - Parameters:
    ///   - number: The minimum number of the epoch.
    ///   - tokenEnd: The time up to which expiring admission tokens are refused.
    ///   - latest: The upper limit for the time that was set before.
    func renewEpoch(
        numbered number: Int64, refusingTokensUntil tokenEnd: Int64, atMost latest: Int64 = .max
    ) throws(StoreError) {
        let epoch = RandomID()
        try transaction { database in
            // Nonces belong to an epoch, so removed ones cannot return.
            try database.execute(
                sql: """
                    UPDATE store SET epoch = ?, nonces_removed = 0, epoch_number = max(epoch_number + 1, ?),
                        tokens_removed = max(min(tokens_removed, ?), ?)
                    """, arguments: [epoch.bytes.blob, number, latest, tokenEnd])
        }
        setEpoch(epoch)
        markProgress(isSynced: true)
    }

    /// Returns a page of devices, sorted by number.
    ///
    /// - Parameters:
    ///   - after: The end of the previous page.
    ///   - limit: The maximum number of devices.
    public func devices(after: DeviceID?, limit: Int) throws(StoreError) -> [Device] {
        try page("device.id > ?", after, limit)
    }

    /// Returns a page of pending devices, sorted by number.
    public func pendingDevices(after: DeviceID?, limit: Int) throws(StoreError) -> [Device] {
        try page("device.id > ? AND activated_at IS NULL AND revoked_at IS NULL", after, limit)
    }

    func count(after: DeviceID?, limit: Int) throws(StoreError) -> DeviceCount {
        try read { database in
            let row = try Row.fetchOne(
                database,
                sql: """
                    SELECT \(SharedSQL.deviceCounts) FROM
                    (SELECT id, revoked_at, activated_at FROM device WHERE id > ? ORDER BY id LIMIT ?) AS looked_at
                    """,
                arguments: [after?.number ?? 0, max(0, limit)])
            guard let row else { return DeviceCount() }
            let last: Int64? = row[3]
            return DeviceCount(
                all: row[0], revoked: row[1], pending: row[2], last: last.flatMap(DeviceID.init), limit: limit)
        }
    }

    private func page(_ condition: String, _ after: DeviceID?, _ limit: Int) throws(StoreError) -> [Device] {
        try read { database in
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT \(SharedSQL.deviceColumns) FROM \(SharedSQL.deviceTables)
                    WHERE \(condition) ORDER BY device.id LIMIT ?
                    """,
                arguments: [after?.number ?? 0, max(0, limit)])
            return try rows.map { try device(row: $0) }
        }
    }

    public func show(_ selector: DeviceSelector) throws(StoreError) -> DeviceDetails {
        try read { database in
            switch selector {
            case .id(let id): return try existing(id, database)
            case .hardwareKey(let key):
                guard let id = try device(withHardwareKey: key, database) else { throw StoreError.deviceUnknown }
                return try existing(id, database)
            case .binding(let key):
                guard let binding = try binding(of: key, database) else { throw StoreError.bindingUnknown }
                return try existing(binding.device, database)
            }
        }
    }

    func existing(_ id: DeviceID, _ database: Database) throws -> DeviceDetails {
        let row = try Row.fetchOne(
            database, sql: "SELECT \(SharedSQL.deviceColumns) FROM \(SharedSQL.deviceTables) WHERE device.id = ?",
            arguments: [id.number])
        guard let row else { throw StoreError.deviceUnknown }
        let bindings = try Row.fetchAll(
            database, sql: "SELECT \(SharedSQL.bindingColumns) FROM binding WHERE device = ? ORDER BY created_at, key",
            arguments: [id.number])
        let attestation = try Row.fetchOne(
            database,
            sql:
                "SELECT \(SharedSQL.attestationColumns) FROM \(SharedSQL.attestationTables) WHERE attestation.device = ?",
            arguments: [id.number])
        let refresh = try Row.fetchOne(
            database, sql: "SELECT \(SharedSQL.receiptColumns) FROM receipt WHERE device = ?", arguments: [id.number])
        return DeviceDetails(
            device: try device(row: row), bindings: try bindings.map { try $0.binding() },
            attestation: try attestation.map { try $0.attestationRecord() },
            refresh: try refresh.map { try $0.receiptRefresh() })
    }

    private func device(row: Row) throws -> Device {
        try row.device(highest: DeviceID(row[0]).flatMap { devices.use($0)?.window.highest })
    }

    // MARK: - Admission

    /// Allows a pending device to bind its first key. An approved or active device does not change.
    public func approve(_ device: DeviceID, at time: Int64 = WallClock.seconds) throws(StoreError) -> DeviceDetails {
        try transaction { database in
            guard try existing(device, database).device.state != .revoked else { throw StoreError.deviceRevoked }
            try database.execute(
                sql: """
                    UPDATE device SET approved_at = ? WHERE id = ? AND approved_at IS NULL AND activated_at IS NULL
                    """, arguments: [time, device.number])
            return try existing(device, database)
        }
    }

    /// Revokes all devices that were admitted for a person, and bars new ones permanently.
    ///
    /// - Returns: The devices that were not revoked before.
    public func revokeSubject(
        _ subject: Fingerprint, at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> [DeviceDetails] {
        let revoked = try transaction { database in
            try database.execute(
                sql: "INSERT OR IGNORE INTO revoked_subject (subject, revoked_at) VALUES (?, ?)",
                arguments: [subject.blob, time])
            let numbers = try Int64.fetchAll(
                database, sql: "SELECT id FROM device WHERE subject = ? AND revoked_at IS NULL ORDER BY id",
                arguments: [subject.blob])
            try database.execute(
                sql: "UPDATE device SET revoked_at = ? WHERE subject = ? AND revoked_at IS NULL",
                arguments: [time, subject.blob])
            try raiseStanding(database)
            return try numbers.compactMap(DeviceID.init).map { try existing($0, database) }
        }
        // Records in memory change only after the transaction, because it may fail.
        for details in revoked { devices.update(details.device.id) { $0.isRevoked = true } }
        attest([.barred(subject, at: time)] + revoked.flatMap { WitnessEntry.all(of: $0, at: time) })
        return revoked
    }

    func isRevoked(_ subject: Fingerprint, _ database: Database) throws -> Bool {
        let statement = try database.cachedStatement(sql: "SELECT 1 FROM revoked_subject WHERE subject = ?")
        return try Int.fetchOne(statement, arguments: [subject.blob]) != nil
    }

    // MARK: - Barred keys

    func isBarred(_ key: KeyID, _ kind: BarredKeyKind, _ database: Database) throws -> Bool {
        let statement = try database.cachedStatement(sql: "SELECT 1 FROM barred_key WHERE key = ? AND kind = ?")
        return try Int.fetchOne(statement, arguments: [key.blob, kind.rawValue]) != nil
    }

    /// Returns whether the mTLS key is or was bound, or is barred.
    func isTaken(_ key: KeyID, _ database: Database) throws -> Bool {
        if try binding(of: key, database) != nil { return true }
        return try isBarred(key, .mTLS, database)
    }
}
