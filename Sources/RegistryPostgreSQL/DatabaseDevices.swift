internal import Registry
internal import Vocabulary

/// The operations of operators on devices. Times are in seconds since 1970-01-01T00:00:00Z.
struct DatabaseDevices {
    private let database: RegistryDatabase

    init(_ database: RegistryDatabase) {
        self.database = database
    }

    func register(_ identity: DeviceIdentity, binding key: KeyID?, at time: Int64) throws -> DeviceDetails {
        try database.transaction(.changing) {
            if try device(withHardwareKey: identity.hardwareKey) != nil { throw StoreError.keyRegistered }
            if let key, try isTaken(key) { throw StoreError.keyBound }
            let id = try insertRow(identity, showing: [], activatedAt: time, time)
            // The key is known to be revoked, so the device is registered as revoked. An operator may restore it.
            if try isBarred(identity.hardwareKey, .hardware) {
                _ = try database.run("UPDATE device SET revoked_at = $1 WHERE id = $2", [.integer(time), .device(id)])
            }
            if let key {
                try insertBinding(key, id, time)
                try database.note(id, at: time)
            }
            return try existing(id)
        }
    }

    func device(withHardwareKey key: KeyID) throws -> DeviceID? {
        let row = try database.run("SELECT id FROM device WHERE hardware_key = $1", [.key(key)])
        return row.rows == 0 ? nil : try row.device(0, 0, "device")
    }

    func device(ofBinding key: KeyID) throws -> DeviceID? {
        let row = try database.run("SELECT device FROM binding WHERE key = $1", [.key(key)])
        return row.rows == 0 ? nil : try row.device(0, 0, "binding")
    }

    /// Inserts the rows of a device.
    ///
    /// - Parameters:
    ///   - identity: The identity, whose hardware key is not registered.
    ///   - activation: The activation time. Nil for a pending device.
    func insertRow(
        _ identity: DeviceIdentity, showing shown: ShownExtensions, activatedAt activation: Int64?, _ time: Int64
    ) throws -> DeviceID {
        let rows = DeviceStatements.rows(of: identity, showing: shown, activatedAt: activation, time)
        return try database.run(rows)[0].device(0, 0, "device")
    }

    /// Inserts a binding for a key that was never bound.
    func insertBinding(_ key: KeyID, _ device: DeviceID, _ time: Int64) throws {
        _ = try database.run([DeviceStatements.row(ofBinding: key, device, time)])
    }

    func bind(_ key: KeyID, to device: DeviceID, at time: Int64) throws -> DeviceDetails {
        try database.transaction(.changing) {
            switch try existing(device).device.state {
            case .revoked: throw StoreError.deviceRevoked
            case .pending: throw StoreError.devicePending
            case .active: break
            }
            if try isTaken(key) { throw StoreError.keyBound }
            try insertBinding(key, device, time)
            try database.note(device, at: time)
            return try existing(device)
        }
    }

    func endBinding(_ key: KeyID, at time: Int64) throws -> DeviceDetails {
        try database.transaction(.changing) {
            guard let device = try device(ofBinding: key) else { throw StoreError.bindingUnknown }
            let ended = try database.run(
                "UPDATE binding SET ended_at = $1 WHERE key = $2 AND ended_at IS NULL", [.integer(time), .key(key)])
            if ended.changed == 1 {
                try database.changeStanding(of: device)
                try database.note(device, ended: key, at: time)
            }
            return try existing(device)
        }
    }

    func revoke(_ device: DeviceID, at time: Int64) throws -> DeviceDetails {
        try database.transaction(.changing) {
            try revokeRow(device, time)
            return try existing(device)
        }
    }

    func revokeRow(_ device: DeviceID, _ time: Int64) throws {
        let revoked = try database.run(
            "UPDATE device SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL",
            [.integer(time), .device(device)])
        guard revoked.changed == 1 else { return }
        try database.changeStanding(of: device)
        try database.note(device, at: time)
    }

    func restore(_ device: DeviceID, at time: Int64) throws -> DeviceDetails {
        try database.transaction(.changing) {
            let restored = try database.run("UPDATE device SET revoked_at = NULL WHERE id = $1", [.device(device)])
            if restored.changed == 1 {
                // The receipt was not examined while the device was revoked, so it is due now. NULL stays, because
                // further attempts are useless.
                _ = try database.run(
                    "UPDATE receipt SET next_at = $1 WHERE device = $2 AND next_at > $1",
                    [.integer(time), .device(device)])
                _ = try database.run(
                    """
                    DELETE FROM barred_key
                    WHERE kind = 'hardware' AND key = (SELECT hardware_key FROM device WHERE id = $1)
                    """, [.device(device)])
                try database.changeStanding(of: device)
                try database.note(device, at: time)
            }
            return try existing(device)
        }
    }

    func approve(_ device: DeviceID, at time: Int64) throws -> DeviceDetails {
        try database.transaction(.changing) {
            guard try existing(device).device.state != .revoked else { throw StoreError.deviceRevoked }
            _ = try database.run(
                "UPDATE device SET approved_at = $1 WHERE id = $2 AND approved_at IS NULL AND activated_at IS NULL",
                [.integer(time), .device(device)])
            return try existing(device)
        }
    }

    /// Revokes the devices of a person and bars new ones.
    ///
    /// - Returns: The devices that were not revoked before.
    func revokeSubject(_ subject: Fingerprint, at time: Int64) throws -> [DeviceDetails] {
        try database.transaction(.changing) { try revokeSubjectRows(subject, time).map { try existing($0) } }
    }

    /// Revokes the devices of a person within a transaction.
    ///
    /// - Returns: The devices that were not revoked before.
    func revokeSubjectRows(_ subject: Fingerprint, _ time: Int64) throws -> [DeviceID] {
        _ = try database.run(
            "INSERT INTO revoked_subject (subject, revoked_at) VALUES ($1, $2) ON CONFLICT (subject) DO NOTHING",
            [.bytes(subject.bytes), .integer(time)])
        let rows = try database.run(
            "SELECT id FROM device WHERE subject = $1 AND revoked_at IS NULL ORDER BY id", [.bytes(subject.bytes)])
        return try (0..<rows.rows).map { row in
            let device = try rows.device(row, 0, "device")
            try revokeRow(device, time)
            return device
        }
    }

    /// Returns a page of devices, sorted by number.
    ///
    /// - Parameter isPending: Whether to return only pending devices.
    func devices(after: DeviceID?, limit: Int, isPending: Bool) throws -> [Device] {
        let rows = try database.run(
            """
            SELECT \(SharedSQL.deviceColumns) FROM \(SharedSQL.deviceTables)
            WHERE device.id > $1 \(isPending ? "AND activated_at IS NULL AND revoked_at IS NULL" : "")
            ORDER BY device.id LIMIT $2
            """, [.integer(after?.number ?? 0), .integer(Int64(max(0, limit)))])
        return try (0..<rows.rows).map { try rows.device($0) }
    }

    func count(after: DeviceID?, limit: Int) throws -> DeviceCount {
        let counted = try database.run(
            """
            SELECT \(SharedSQL.deviceCounts) FROM
            (SELECT id, revoked_at, activated_at FROM device WHERE id > $1 ORDER BY id LIMIT $2) AS looked_at
            """, [.integer(after?.number ?? 0), .integer(Int64(max(0, limit)))])
        return DeviceCount(
            all: Int(try counted.integer(0, 0)), revoked: Int(try counted.integer(0, 1)),
            pending: Int(try counted.integer(0, 2)),
            last: try counted.optionalInteger(0, 3).flatMap(DeviceID.init), limit: limit)
    }

    func show(_ selector: DeviceSelector) throws -> DeviceDetails {
        try database.transaction(.reading) {
            if let details = try DeviceStatements.details(try database.run(DeviceStatements.details(of: selector))[...])
            {
                return details
            }
            if case .binding = selector { throw StoreError.bindingUnknown }
            throw StoreError.deviceUnknown
        }
    }

    /// Returns the details of a device. It must run in a transaction, so that the results are consistent.
    func existing(_ id: DeviceID) throws -> DeviceDetails {
        let answers = try database.run(DeviceStatements.details(of: .id(id)))
        guard let details = try DeviceStatements.details(answers[...]) else { throw StoreError.deviceUnknown }
        return details
    }

    // MARK: - Keys

    func isBarred(_ key: KeyID, _ kind: BarredKeyKind) throws -> Bool {
        try database.run([DeviceStatements.look(atBarred: key, kind)])[0].rows > 0
    }

    /// Returns whether the mTLS key is or was bound, or is barred.
    func isTaken(_ key: KeyID) throws -> Bool {
        try database.run(DeviceStatements.looks(atTaken: key)).contains { $0.rows > 0 }
    }

    // MARK: - Certificates

    func revokedCertificates(
        after: CertificateSerial?, limit: Int, at time: Int64
    ) throws -> RevokedCertificatePage {
        let rows = try database.run(
            """
            SELECT serial, not_after, revoked_at, ended_at, ends_at
            FROM (SELECT * FROM issued_certificate WHERE serial > $1 ORDER BY serial LIMIT $2) AS page
            JOIN binding ON binding.key = page.binding JOIN device ON device.id = binding.device
            ORDER BY serial
            """, [.bytes(after?.bytes ?? []), .integer(Int64(max(0, limit)))])
        let certificates = try (0..<rows.rows).map { row in
            guard let serial = CertificateSerial(rows.bytes(row, 0)) else {
                throw UnreadableRow(table: "issued_certificate")
            }
            return CertificateRecord(
                serial: serial, notAfter: try rows.integer(row, 1), deviceRevokedAt: try rows.optionalInteger(row, 2),
                bindingEndedAt: try rows.optionalInteger(row, 3), bindingEndsAt: try rows.optionalInteger(row, 4))
        }
        return RevokedCertificatePage(
            certificates: certificates.compactMap { $0.revocation(at: time) },
            next: rows.rows == limit ? certificates.last?.serial : nil)
    }

    func drawRevocationListNumber(at time: Int64) throws -> Int64 {
        try database.transaction(.changing) {
            let row = try database.run(
                "UPDATE store SET revocation_list = greatest(revocation_list + 1, $1) RETURNING revocation_list",
                [.integer(time)])
            return try row.integer(0, 0)
        }
    }
}
