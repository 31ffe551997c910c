internal import Registry
internal import Vocabulary

/// Statements on devices that are sent together with others, and the readers of their results.
enum DeviceStatements {
    // MARK: - Details

    /// Returns the statements for the details of a device. They must run in one transaction to be consistent.
    static func details(of device: DeviceSelector) -> [DatabaseStatement] {
        // An expression for the number of the device.
        let (number, argument): (String, DatabaseValue) =
            switch device {
            case .id(let id): ("$1", .device(id))
            case .hardwareKey(let key): ("(SELECT id FROM device WHERE hardware_key = $1)", .key(key))
            case .binding(let key): ("(SELECT device FROM binding WHERE key = $1)", .key(key))
            }
        return [
            "SELECT \(SharedSQL.deviceColumns) FROM \(SharedSQL.deviceTables) WHERE device.id =",
            "SELECT \(SharedSQL.bindingColumns) FROM binding WHERE device =",
            """
            SELECT \(SharedSQL.attestationColumns) FROM \(SharedSQL.attestationTables)
            WHERE attestation.device =
            """,
            "SELECT \(SharedSQL.receiptColumns) FROM receipt WHERE device =",
        ].enumerated().map { index, question in
            let order = index == 1 ? " ORDER BY created_at, key" : ""
            return DatabaseStatement("\(question) \(number)\(order)", [argument])
        }
    }

    static let detailsCount = 4

    /// Reads the results of `details(of:)`.
    ///
    /// - Returns: nil if there is no such device.
    static func details(_ answers: ArraySlice<DatabaseResult>) throws -> DeviceDetails? {
        let answers = [DatabaseResult](answers)
        let (row, bindings, attestation, refresh) = (answers[0], answers[1], answers[2], answers[3])
        guard row.rows == 1 else { return nil }
        return DeviceDetails(
            device: try row.device(0), bindings: try (0..<bindings.rows).map { try bindings.binding($0) },
            attestation: attestation.rows == 0 ? nil : try attestation.attestationRecord(0),
            refresh: refresh.rows == 0 ? nil : try refresh.receiptRefresh(0))
    }

    // MARK: - Keys and people

    static func look(atBarred key: KeyID, _ kind: BarredKeyKind) -> DatabaseStatement {
        DatabaseStatement(
            "SELECT 1::bigint FROM barred_key WHERE key = $1 AND kind = $2", [.key(key), .text(kind.rawValue)])
    }

    /// Returns two statements. The key is taken if either of them returns a row.
    static func looks(atTaken key: KeyID) -> [DatabaseStatement] {
        [DatabaseStatement("SELECT device FROM binding WHERE key = $1", [.key(key)]), look(atBarred: key, .mTLS)]
    }

    /// Returns a statement with a row if the serial number was issued.
    static func look(atIssued serial: CertificateSerial) -> DatabaseStatement {
        DatabaseStatement("SELECT 1::bigint FROM issued_certificate WHERE serial = $1", [.bytes(serial.bytes)])
    }

    /// Returns a statement with a row if the person is barred.
    static func look(atRevoked subject: Fingerprint) -> DatabaseStatement {
        DatabaseStatement("SELECT 1::bigint FROM revoked_subject WHERE subject = $1", [.bytes(subject.bytes)])
    }

    // MARK: - Rows

    /// Returns statements that insert a device. The first one returns the number of the device.
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

    static func row(ofBinding key: KeyID, _ device: DeviceID, _ time: Int64) -> DatabaseStatement {
        DatabaseStatement(
            "INSERT INTO binding (key, device, created_at) VALUES ($1, $2, $3)",
            [.key(key), .device(device), .integer(time)])
    }

    // MARK: - Single use

    /// The kinds of values that can be used once. Each has its own table.
    enum SingleUses: CaseIterable {
        case nonces
        case tokens

        var table: String { self == .nonces ? "used_nonce" : "used_token" }
        var removed: String { self == .nonces ? "nonces_removed" : "tokens_removed" }
    }

    enum SingleUseState {
        case unused
        case used
        case expired
    }

    /// The epoch of the store, and the expiry of removed entries. It is read before anything is used.
    static let useLook = DatabaseStatement("SELECT epoch, nonces_removed, tokens_removed FROM store")

    static func look(at item: SingleUse, in uses: SingleUses) -> DatabaseStatement {
        DatabaseStatement("SELECT 1::bigint FROM \(uses.table) WHERE id = $1", [.bytes(item.id.bytes)])
    }

    /// Returns a statement that marks a value as used. It fails if another transaction has used the value, and its
    /// transaction is then rolled back.
    static func use(_ item: SingleUse, in uses: SingleUses) -> DatabaseStatement {
        DatabaseStatement(
            "INSERT INTO \(uses.table) (id, expires_at) VALUES ($1, $2)",
            [.bytes(item.id.bytes), .integer(item.expiresAt)])
    }

    /// Returns the state of a value.
    ///
    /// - Parameters:
    ///   - store: The result of `useLook`.
    ///   - known: The result of `look(at:in:)`.
    static func state(
        of item: SingleUse, in uses: SingleUses, _ store: DatabaseResult, _ known: DatabaseResult, _ time: Int64
    ) throws -> SingleUseState {
        let removed = try store.integer(0, uses == .nonces ? 1 : 2)
        // After a clock was set back, removed entries must stay refused.
        guard item.expiresAt > max(time, removed) else { return .expired }
        return known.rows == 0 ? .unused : .used
    }
}
