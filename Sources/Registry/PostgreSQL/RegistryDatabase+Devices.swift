internal import Vocabulary

// What operators do. Times are seconds since 1970-01-01T00:00:00Z.
extension RegistryDatabase {
    func register(_ identity: DeviceIdentity, binding key: KeyID?, at time: Int64) throws -> DeviceDetails {
        try transaction(.changing) {
            if try device(withHardwareKey: identity.hardwareKey) != nil { throw StoreError.keyRegistered }
            if let key, try isTaken(key) { throw StoreError.keyBound }
            let id = try insertRow(identity, showing: [], activatedAt: time, time)
            // Known to have been revoked: it comes in as what it was, and an operator may restore it.
            if try isBarred(identity.hardwareKey, .hardware) {
                _ = try run("UPDATE device SET revoked_at = $1 WHERE id = $2", [.integer(time), .device(id)])
            }
            if let key {
                try insertBinding(key, id, time)
                try note(id, at: time)
            }
            return try existing(id)
        }
    }

    func device(withHardwareKey key: KeyID) throws -> DeviceID? {
        let row = try run("SELECT id FROM device WHERE hardware_key = $1", [.key(key)])
        return row.rows == 0 ? nil : try row.device(0, 0, "device")
    }

    func device(ofBinding key: KeyID) throws -> DeviceID? {
        let row = try run("SELECT device FROM binding WHERE key = $1", [.key(key)])
        return row.rows == 0 ? nil : try row.device(0, 0, "binding")
    }

    /// - Parameters:
    ///   - identity: with a hardware key that is no device's.
    ///   - activation: when it became active; nil if it is pending.
    func insertRow(
        _ identity: DeviceIdentity, showing shown: ShownExtensions, activatedAt activation: Int64?, _ time: Int64
    ) throws -> DeviceID {
        let rows = Self.rows(of: identity, showing: shown, activatedAt: activation, time)
        return try run(rows)[0].device(0, 0, "device")
    }

    /// - Returns: statements, the first of which answers with the device's number.
    static func rows(
        of identity: DeviceIdentity, showing shown: ShownExtensions, activatedAt activation: Int64?, _ time: Int64
    ) -> [DatabaseStatement] {
        let window = CounterWindow()
        return [
            DatabaseStatement(
                """
                INSERT INTO device (hardware_key, app, platform, environment, point, registered_at, activated_at)
                VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id
                """,
                [
                    .key(identity.hardwareKey), .text(identity.app.description), .text(identity.platform.rawValue),
                    .text(identity.environment.rawValue), .bytes(identity.point.bytes), .integer(time),
                    .integer(activation),
                ]),
            DatabaseStatement(
                """
                INSERT INTO counter (device, highest, bits, shown_extensions)
                SELECT id, $2::bigint, $3::bytea, $4::bigint FROM device WHERE hardware_key = $1
                """,
                [
                    .key(identity.hardwareKey), .integer(Int64(window.highest)), .bytes(window.bits),
                    .integer(Int64(shown.rawValue)),
                ]),
        ]
    }

    /// - Parameter key: one that never was bound.
    func insertBinding(_ key: KeyID, _ device: DeviceID, _ time: Int64) throws {
        _ = try run([Self.row(ofBinding: key, device, time)])
    }

    static func row(ofBinding key: KeyID, _ device: DeviceID, _ time: Int64) -> DatabaseStatement {
        DatabaseStatement(
            "INSERT INTO binding (key, device, created_at) VALUES ($1, $2, $3)",
            [.key(key), .device(device), .integer(time)])
    }

    func bind(_ key: KeyID, to device: DeviceID, at time: Int64) throws -> DeviceDetails {
        try transaction(.changing) {
            switch try existing(device).device.state {
            case .revoked: throw StoreError.deviceRevoked
            case .pending: throw StoreError.devicePending
            case .active: break
            }
            if try isTaken(key) { throw StoreError.keyBound }
            try insertBinding(key, device, time)
            try note(device, at: time)
            return try existing(device)
        }
    }

    func endBinding(_ key: KeyID, at time: Int64) throws -> DeviceDetails {
        try transaction(.changing) {
            guard let device = try device(ofBinding: key) else { throw StoreError.bindingUnknown }
            let ended = try run(
                "UPDATE binding SET ended_at = $1 WHERE key = $2 AND ended_at IS NULL", [.integer(time), .key(key)])
            if ended.changed == 1 {
                try changeStanding(of: device)
                try note(device, ended: key, at: time)
            }
            return try existing(device)
        }
    }

    func revoke(_ device: DeviceID, at time: Int64) throws -> DeviceDetails {
        try transaction(.changing) {
            try revokeRow(device, time)
            return try existing(device)
        }
    }

    func revokeRow(_ device: DeviceID, _ time: Int64) throws {
        let revoked = try run(
            "UPDATE device SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL",
            [.integer(time), .device(device)])
        guard revoked.changed == 1 else { return }
        try changeStanding(of: device)
        try note(device, at: time)
    }

    func restore(_ device: DeviceID, at time: Int64) throws -> DeviceDetails {
        try transaction(.changing) {
            let restored = try run("UPDATE device SET revoked_at = NULL WHERE id = $1", [.device(device)])
            if restored.changed == 1 {
                // Its receipt is looked at again: nobody has while it was revoked. NULL stays: of no use any more.
                _ = try run(
                    "UPDATE receipt SET next_at = $1 WHERE device = $2 AND next_at > $1",
                    [.integer(time), .device(device)])
                _ = try run(
                    """
                    DELETE FROM barred_key
                    WHERE kind = 'hardware' AND key = (SELECT hardware_key FROM device WHERE id = $1)
                    """, [.device(device)])
                try changeStanding(of: device)
                try note(device, at: time)
            }
            return try existing(device)
        }
    }

    func approve(_ device: DeviceID, at time: Int64) throws -> DeviceDetails {
        try transaction(.changing) {
            guard try existing(device).device.state != .revoked else { throw StoreError.deviceRevoked }
            _ = try run(
                "UPDATE device SET approved_at = $1 WHERE id = $2 AND approved_at IS NULL AND activated_at IS NULL",
                [.integer(time), .device(device)])
            return try existing(device)
        }
    }

    /// - Returns: the devices that were not revoked before.
    func revokeSubject(_ subject: Fingerprint, at time: Int64) throws -> [DeviceDetails] {
        try transaction(.changing) { try revokeSubjectRows(subject, time).map { try existing($0) } }
    }

    /// - Returns: the devices that were not revoked before.
    func revokeSubjectRows(_ subject: Fingerprint, _ time: Int64) throws -> [DeviceID] {
        _ = try run(
            "INSERT INTO revoked_subject (subject, revoked_at) VALUES ($1, $2) ON CONFLICT (subject) DO NOTHING",
            [.bytes(subject.bytes), .integer(time)])
        let rows = try run(
            "SELECT id FROM device WHERE subject = $1 AND revoked_at IS NULL ORDER BY id", [.bytes(subject.bytes)])
        return try (0..<rows.rows).map { row in
            let device = try rows.device(row, 0, "device")
            try revokeRow(device, time)
            return device
        }
    }

    /// Finds a row if the person is barred.
    static func look(atRevoked subject: Fingerprint) -> DatabaseStatement {
        DatabaseStatement("SELECT 1::bigint FROM revoked_subject WHERE subject = $1", [.bytes(subject.bytes)])
    }

    /// - Parameter isPending: whether only pending ones are wanted.
    func devices(after: DeviceID?, limit: Int, isPending: Bool) throws -> [Device] {
        let rows = try run(
            """
            SELECT \(DeviceIdentity.databaseColumns) FROM \(DeviceIdentity.databaseTables)
            WHERE device.id > $1 \(isPending ? "AND activated_at IS NULL AND revoked_at IS NULL" : "")
            ORDER BY device.id LIMIT $2
            """, [.integer(after?.number ?? 0), .integer(Int64(max(0, limit)))])
        return try (0..<rows.rows).map { try Device(rows, $0) }
    }

    func count(after: DeviceID?, limit: Int) throws -> DeviceCount {
        let counted = try run(
            """
            SELECT \(DeviceCount.columns) FROM
            (SELECT id, revoked_at, activated_at FROM device WHERE id > $1 ORDER BY id LIMIT $2) AS looked_at
            """, [.integer(after?.number ?? 0), .integer(Int64(max(0, limit)))])
        return DeviceCount(
            all: Int(try counted.integer(0, 0)), revoked: Int(try counted.integer(0, 1)),
            pending: Int(try counted.integer(0, 2)),
            last: try counted.optionalInteger(0, 3).flatMap(DeviceID.init), limit: limit)
    }

    func show(_ selector: DeviceSelector) throws -> DeviceDetails {
        try transaction(.reading) {
            if let details = try Self.details(try run(Self.details(of: selector))[...]) { return details }
            if case .binding = selector { throw StoreError.bindingUnknown }
            throw StoreError.deviceUnknown
        }
    }

    /// In a transaction, which makes the answers one.
    func existing(_ id: DeviceID) throws -> DeviceDetails {
        let answers = try run(Self.details(of: .id(id)))
        guard let details = try Self.details(answers[...]) else { throw StoreError.deviceUnknown }
        return details
    }
}
