internal import Vocabulary

// How values lie in rows of PostgreSQL. Columns are those of the `columns` beside each.

extension DatabaseResult {
    func key(_ row: Int, _ column: Int, _ table: StaticString) throws -> KeyID {
        guard let key = KeyID(digest: bytes(row, column).span) else { throw UnreadableRow(table: table) }
        return key
    }

    func device(_ row: Int, _ column: Int, _ table: StaticString) throws -> DeviceID {
        guard let device = DeviceID(try integer(row, column)) else { throw UnreadableRow(table: table) }
        return device
    }

    func uint32(_ row: Int, _ column: Int, _ table: StaticString) throws -> UInt32 {
        guard let number = UInt32(exactly: try integer(row, column)) else { throw UnreadableRow(table: table) }
        return number
    }

    /// From `highest` and `bits`.
    func window(_ row: Int, _ column: Int) throws -> CounterWindow {
        guard
            let window = CounterWindow(
                highest: try uint32(row, column, "counter"), bits: bytes(row, column + 1))
        else { throw UnreadableRow(table: "counter") }
        return window
    }

    func shown(_ row: Int, _ column: Int) throws -> ShownExtensions {
        guard let raw = UInt8(exactly: try integer(row, column)) else { throw UnreadableRow(table: "counter") }
        return ShownExtensions(rawValue: raw)
    }
}

extension DeviceIdentity {
    /// The columns this and `Device` are read from, in order.
    static let databaseColumns = """
        device.id, hardware_key, app, platform, environment, point, registered_at, revoked_at, highest, activated_at, \
        approved_at, subject, shown_extensions
        """
    static let databaseTables = "device JOIN counter ON counter.device = device.id"

    init(_ result: DatabaseResult, _ row: Int) throws {
        guard let app = AppID(result.text(row, 2)), let platform = Platform(rawValue: result.text(row, 3)),
            let environment = AttestationEnvironment(rawValue: result.text(row, 4)),
            let point = PublicPoint(result.bytes(row, 5))
        else { throw UnreadableRow(table: "device") }
        self.init(
            app: app, platform: platform, environment: environment, hardwareKey: try result.key(row, 1, "device"),
            point: point)
    }
}

extension Device {
    init(_ result: DatabaseResult, _ row: Int) throws {
        let revokedAt = try result.optionalInteger(row, 7)
        let isActivated = !result.isNull(row, 9)
        self.init(
            id: try result.device(row, 0, "device"), identity: try DeviceIdentity(result, row),
            state: revokedAt != nil ? .revoked : isActivated ? .active : .pending,
            registeredAt: try result.integer(row, 6), approvedAt: try result.optionalInteger(row, 10),
            revokedAt: revokedAt, highestCounter: try result.uint32(row, 8, "counter"),
            subject: try result.optionalBytes(row, 11).map { bytes in
                guard let subject = Fingerprint(bytes) else { throw UnreadableRow(table: "device") }
                return subject
            }, shown: try result.shown(row, 12))
    }
}

extension Binding {
    static let databaseColumns = "key, device, created_at, ended_at, ends_at"

    init(_ result: DatabaseResult, _ row: Int) throws {
        self.init(
            key: try result.key(row, 0, "binding"), device: try result.device(row, 1, "binding"),
            createdAt: try result.integer(row, 2), endedAt: try result.optionalInteger(row, 3),
            endsAt: try result.optionalInteger(row, 4))
    }
}

extension AttestationRecord {
    static let databaseColumns = "digest, certificate_key, content, risk_metric, os_version"
    static let databaseTables = "attestation LEFT JOIN receipt ON receipt.device = attestation.device"

    init(_ result: DatabaseResult, _ row: Int) throws {
        let key = try result.isNull(row, 1) ? nil : result.key(row, 1, "attestation")
        let risk = try result.isNull(row, 3) ? nil : result.uint32(row, 3, "receipt")
        guard let digest = Fingerprint(result.bytes(row, 0)),
            let record = AttestationRecord(
                digest: digest, certificateKey: key, receipt: result.optionalBytes(row, 2), riskMetric: risk,
                systemVersion: try SystemVersion(stored: result.optionalText(row, 4)))
        else { throw UnreadableRow(table: "attestation") }
        self = record
    }
}

extension ReceiptRefresh {
    static let databaseColumns = "created_at, next_at, asked_at, outcome, failures"

    init(_ result: DatabaseResult, _ row: Int) throws {
        self.init(
            createdAt: try result.optionalInteger(row, 0), nextAt: try result.optionalInteger(row, 1),
            askedAt: try result.optionalInteger(row, 2),
            outcome: try result.optionalText(row, 3).map { text in
                guard let outcome = ReceiptOutcome(rawValue: text) else { throw UnreadableRow(table: "receipt") }
                return outcome
            }, failures: Int(try result.integer(row, 4)))
    }
}
