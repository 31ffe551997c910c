package import Vocabulary

/// A statement that SQLite and PostgreSQL understand alike. Its parameters are $1, $2 and so on, in the order of their
/// first appearance.
package struct SQLStatement {
    package let sql: String
    package let arguments: [SQLValue]

    package init(_ sql: String, _ arguments: [SQLValue] = []) {
        self.sql = sql
        self.arguments = arguments
    }
}

/// An argument of a statement.
package enum SQLValue {
    case integer(Int64)
    case bytes([UInt8])
    case text(String)
    case null
    // Lists, which SQLite does not have. Nil is NULL.
    case integers([Int64])
    case bytesList([[UInt8]])
    case optionalIntegers([Int64?])
    case optionalBytesList([[UInt8]?])
    case texts([String?])

    package static func integer(_ number: Int64?) -> SQLValue { number.map { .integer($0) } ?? .null }
    package static func bytes(_ bytes: [UInt8]?) -> SQLValue { bytes.map { .bytes($0) } ?? .null }
    package static func text(_ text: String?) -> SQLValue { text.map { .text($0) } ?? .null }
    package static func device(_ device: DeviceID) -> SQLValue { .integer(device.number) }
    package static func key(_ key: KeyID) -> SQLValue { .bytes(key.bytes) }
}

/// An error for a row that violates the schema, because the store is damaged or was written by another program.
package struct UnreadableRow: Error {
    package let table: StaticString

    package init(table: StaticString) {
        self.table = table
    }
}

/// A row of a query. Columns are numbered from 0. Values are nil for NULL.
package protocol SQLRow {
    func optionalInteger(_ column: Int) throws -> Int64?
    func optionalBytes(_ column: Int) throws -> [UInt8]?
    func optionalText(_ column: Int) throws -> String?
}

extension SQLRow {
    package func integer(_ column: Int) throws -> Int64 {
        guard let number = try optionalInteger(column) else { throw UnreadableRow(table: "of a query") }
        return number
    }

    package func bytes(_ column: Int) throws -> [UInt8] { try optionalBytes(column) ?? [] }

    func text(_ column: Int) throws -> String { try optionalText(column) ?? "" }

    package func uint32(_ column: Int, _ table: StaticString) throws -> UInt32 {
        guard let number = UInt32(exactly: try integer(column)) else { throw UnreadableRow(table: table) }
        return number
    }

    func optionalUInt32(_ column: Int, _ table: StaticString) throws -> UInt32? {
        try optionalInteger(column).map { number in
            guard let number = UInt32(exactly: number) else { throw UnreadableRow(table: table) }
            return number
        }
    }

    package func device(_ column: Int, _ table: StaticString) throws -> DeviceID {
        guard let device = DeviceID(try integer(column)) else { throw UnreadableRow(table: table) }
        return device
    }

    package func key(_ column: Int, _ table: StaticString) throws -> KeyID {
        let digest = try bytes(column)
        guard let key = KeyID(digest: digest.span) else { throw UnreadableRow(table: table) }
        return key
    }

    package func optionalKey(_ column: Int, _ table: StaticString) throws -> KeyID? {
        try optionalBytes(column) == nil ? nil : key(column, table)
    }

    package func fingerprint(_ column: Int, _ table: StaticString) throws -> Fingerprint {
        guard let fingerprint = Fingerprint(try bytes(column)) else { throw UnreadableRow(table: table) }
        return fingerprint
    }

    package func shown(_ column: Int) throws -> ShownExtensions {
        guard let raw = UInt8(exactly: try integer(column)) else { throw UnreadableRow(table: "device") }
        return ShownExtensions(rawValue: raw)
    }

    /// Reads the columns `highest` and `bits`.
    package func window(_ highest: Int, _ bits: Int) throws -> CounterWindow {
        guard let window = CounterWindow(highest: try uint32(highest, "counter"), bits: try bytes(bits)) else {
            throw UnreadableRow(table: "counter")
        }
        return window
    }

    package func systemVersion(_ column: Int) throws -> SystemVersion? {
        guard let text = try optionalText(column) else { return nil }
        guard let version = SystemVersion(text) else { throw UnreadableRow(table: "attestation") }
        return version
    }
}

/// The columns of queries, in the order in which rows are read.
package enum SQLColumns {
    package static let device = """
        device.id, hardware_key, app, platform, environment, point, registered_at, revoked_at, highest, activated_at, \
        approved_at, subject, shown_extensions
        """
    /// The columns of a device for operators: its own, and the day on which it was last seen.
    static let listed = "\(device), day"
    static let listedTables = "\(deviceTables) LEFT JOIN device_seen ON device_seen.device = device.id"
    package static let deviceTables = "device JOIN counter ON counter.device = device.id"
    package static let binding = "key, device, created_at, ended_at, ends_at"
    static let attestation = "\(attested), risk_metric, content"
    static let attestationTables = "attestation LEFT JOIN receipt ON receipt.device = attestation.device"
    /// The columns of `attestation` except the device. Those from the security level to `integrity_at` are NULL for
    /// other phones than Android's.
    package static let attested = """
        digest, certificate_key, os_version, bundle_version, validation_category, tag, security_level, boot_state, \
        is_locked, boot_key, patch_level, vendor_patch_level, boot_patch_level, app_version, integrity, integrity_at, \
        attested_at, certificate_key_attested, key_listed
        """
    /// The columns of a device for workers, after those of `device`: without a receipt, which is long.
    package static let posture = "\(attested), risk_metric, claimed_os_version, claimed_device_secure"
    package static let postureTables = """
        LEFT JOIN attestation ON attestation.device = device.id LEFT JOIN receipt ON receipt.device = device.id
        LEFT JOIN signals ON signals.device = device.id
        """
    /// The number of columns of `device` and `posture`.
    package static let postureEnd = 35
    /// The columns of `signals` with those that repeat what policies use.
    package static let signals = "device, claimed_at, claimed_os_version, claimed_device_secure, claims"
    package static let serial = "device, serial"
    static let receipt = "created_at, next_at, asked_at, outcome, failures"
    /// Columns of a device for an export, after those of `device`.
    package static let exported = """
        \(posture), bits, content, created_at, next_at, asked_at, outcome, failures, claimed_at, claims
        """
    /// The columns of a token of the federation, and of its device.
    static let token = """
        federation_token.id, kind, parent, hardware_key, audience, party, scope, thumbprint, issued_at, expires_at, \
        federation_token.revoked_at, device.id, device.revoked_at, subject
        """
    static let tokenTables = "federation_token JOIN device ON device.id = federation_token.device"
    static let service = """
        id, name, url, token_endpoint, description_url, info, operator, secret, joined_at, approved_at, revoked_at
        """
    package static let exportedTables = "\(deviceTables) \(postureTables)"
}

extension SQLRow {
    package func deviceIdentity() throws -> DeviceIdentity {
        guard let app = AppID(try text(2)), let platform = Platform(rawValue: try text(3)),
            let environment = AttestationEnvironment(rawValue: try text(4)), let point = PublicPoint(try bytes(5))
        else { throw UnreadableRow(table: "device") }
        return DeviceIdentity(
            app: app, platform: platform, environment: environment, hardwareKey: try key(1, "device"), point: point)
    }

    /// Reads a device.
    ///
    /// - Parameters:
    ///   - highest: The highest counter value in memory, which may be ahead of the row.
    ///   - isListed: Whether the columns are those of `listed`.
    func device(highest: UInt32?, isListed: Bool = false) throws -> Device {
        let revokedAt = try optionalInteger(7)
        return Device(
            id: try device(0, "device"), identity: try deviceIdentity(),
            state: revokedAt != nil ? .revoked : try optionalInteger(9) == nil ? .pending : .active,
            registeredAt: try integer(6), approvedAt: try optionalInteger(10), revokedAt: revokedAt,
            highestCounter: try highest ?? uint32(8, "counter"),
            subject: try optionalBytes(11) == nil ? nil : fingerprint(11, "device"), shown: try shown(12),
            lastSeen: isListed ? try optionalInteger(13) : nil)
    }

    package func binding() throws -> Binding {
        Binding(
            key: try key(0, "binding"), device: try device(1, "binding"), createdAt: try integer(2),
            endedAt: try optionalInteger(3), endsAt: try optionalInteger(4))
    }

    /// Reads the columns of an Android phone, and the serial numbers from elsewhere.
    ///
    /// - Parameter first: The number of the first column.
    private func phone(_ first: Int, _ serials: [String]) throws -> AttestedPhone? {
        guard let level = try optionalText(first) else { return nil }
        guard let level = AttestedPhone.SecurityLevel(rawValue: level),
            let boot = AttestedPhone.BootState(rawValue: try text(first + 1)),
            let phone = AttestedPhone(
                securityLevel: level, bootState: boot, isLocked: try integer(first + 2) != 0,
                bootKey: try bytes(first + 3), patchLevel: try optionalUInt32(first + 4, "attestation"),
                vendorPatchLevel: try optionalUInt32(first + 5, "attestation"),
                bootPatchLevel: try optionalUInt32(first + 6, "attestation"),
                appVersion: try integer(first + 7), integrity: try integrity(first + 8), serials: serials)
        else { throw UnreadableRow(table: "attestation") }
        return phone
    }

    private func integrity(_ first: Int) throws -> IntegrityVerdict? {
        guard let text = try optionalText(first) else { return nil }
        guard let verdict = IntegrityVerdict(text: text, requestedAt: try integer(first + 1)) else {
            throw UnreadableRow(table: "attestation")
        }
        return verdict
    }

    /// Reads the columns `serial`.
    package func attestedSerial() throws -> (device: Int64, serial: String) { (try integer(0), try text(1)) }

    private func shownApp(_ first: Int) throws -> ShownApp {
        var app = ShownApp()
        if let text = try optionalText(first) {
            guard let version = AppVersion(bundleVersion: text) else { throw UnreadableRow(table: "attestation") }
            app.version = version
        }
        if let number = try optionalInteger(first + 1) {
            guard let number = UInt8(exactly: number) else { throw UnreadableRow(table: "attestation") }
            app.distribution = number
        }
        return app
    }

    /// Reads the columns `posture`.
    ///
    /// - Parameters:
    ///   - first: The number of the first column.
    ///   - serials: Those of the phone.
    /// - Returns: nil if the columns are NULL.
    func attestationRecord(
        _ first: Int = 0, _ serials: [String] = [], receipt: [UInt8]? = nil
    ) throws -> AttestationRecord? {
        guard try optionalBytes(first) != nil else { return nil }
        let record = AttestationRecord(
            digest: try fingerprint(first, "attestation"), certificateKey: try optionalKey(first + 1, "attestation"),
            receipt: receipt, riskMetric: try optionalUInt32(first + 19, "receipt"),
            systemVersion: try systemVersion(first + 2), app: try shownApp(first + 3),
            tag: try optionalBytes(first + 5), phone: try phone(first + 6, serials),
            attestedAt: try optionalInteger(first + 16),
            isCertificateKeyAttested: try optionalInteger(first + 17).map { $0 != 0 },
            isKeyListed: try integer(first + 18) != 0)
        guard let record else { throw UnreadableRow(table: "attestation") }
        return record
    }

    /// Reads the columns `device` and `posture`.
    package func posture(boundAt: Int64? = nil) throws -> (posture: Posture, isKeyListed: Bool) {
        let attestation = try attestationRecord(13)
        let claims = Claims(
            system: try systemVersion(SQLColumns.postureEnd - 2),
            isDeviceSecure: try optionalInteger(SQLColumns.postureEnd - 1).map { $0 != 0 })
        return (
            Posture(try device(highest: nil), attestation, claims: claims, boundAt: boundAt),
            attestation?.isKeyListed ?? false
        )
    }

    /// Reads the columns `claimed_at` and `claims`.
    ///
    /// - Parameter first: The number of the first column.
    /// - Returns: nil if the columns are NULL, or hold what this version does not admit: claims of a stranger must not
    ///   make a store unreadable.
    func signals(_ first: Int = 0) throws -> Signals? {
        guard let content = try optionalBytes(first + 1) else { return nil }
        return Signals(content: content, claimedAt: try integer(first))
    }

    /// Reads the columns `receipt`.
    ///
    /// - Parameter first: The number of the first column.
    func receiptRefresh(_ first: Int = 0) throws -> ReceiptRefresh {
        ReceiptRefresh(
            createdAt: try optionalInteger(first), nextAt: try optionalInteger(first + 1),
            askedAt: try optionalInteger(first + 2),
            outcome: try optionalText(first + 3).map { text in
                guard let outcome = ReceiptOutcome(rawValue: text) else { throw UnreadableRow(table: "receipt") }
                return outcome
            }, failures: Int(try integer(first + 4)))
    }

    func certificateRecord() throws -> CertificateRecord {
        guard let serial = CertificateSerial(try bytes(0)) else { throw UnreadableRow(table: "issued_certificate") }
        return CertificateRecord(
            serial: serial, notAfter: try integer(1), deviceRevokedAt: try optionalInteger(2),
            bindingEndedAt: try optionalInteger(3), bindingEndsAt: try optionalInteger(4))
    }

    /// Reads the columns `device` and `exported`.
    ///
    /// - Parameters:
    ///   - window: The spent values in memory, which may be ahead of the row.
    ///   - serials: Those of an Android phone.
    package func exportedDevice(
        window: CounterWindow? = nil, bindings: [ExportedBinding], serials: [String]
    ) throws -> ExportedDevice {
        let device = try device(highest: nil)
        let attestation = try attestationRecord(13, serials)
        let end = SQLColumns.postureEnd
        let receipt = try optionalBytes(end + 1).map { content in
            ExportedReceipt(
                content: content, riskMetric: attestation?.riskMetric, refresh: try receiptRefresh(end + 2))
        }
        return ExportedDevice(
            identity: device.identity, registeredAt: device.registeredAt, activatedAt: try optionalInteger(9),
            approvedAt: device.approvedAt, revokedAt: device.revokedAt, subject: device.subject, shown: device.shown,
            window: try window ?? self.window(8, end), bindings: bindings,
            attestation: attestation.map { ExportedAttestation($0) }, receipt: receipt,
            signals: try signals(end + 7))
    }

    /// Reads a row of a section after the devices.
    func exportRecord(_ section: ExportSection) throws -> ExportRecord {
        switch section {
        case .devices: break
        case .certificates:
            guard let serial = CertificateSerial(try bytes(0)) else { break }
            return .certificate(
                ExportedCertificate(serial: serial, key: try key(1, "issued_certificate"), notAfter: try integer(2)))
        case .usedTokens:
            return .usedToken(SingleUse(id: try fingerprint(0, "used_token"), expiresAt: try integer(1)))
        case .revokedSubjects:
            return .revokedSubject(try fingerprint(0, "revoked_subject"), at: try integer(1))
        case .services: return .service(try federationService())
        case .federationTokens: return .federationToken(try federationToken().token)
        case .barredKeys:
            guard let kind = BarredKeyKind(rawValue: try text(1)) else { break }
            return .barredKey(BarredKey(key: try key(0, "barred_key"), kind: kind, barredAt: try integer(2)))
        }
        throw UnreadableRow(table: "of an export")
    }

    /// Reads the columns `token`.
    func federationToken() throws -> FoundToken {
        guard let kind = FederationToken.Kind(rawValue: try text(1)) else {
            throw UnreadableRow(table: "federation_token")
        }
        let parent = try optionalBytes(2) == nil ? nil : fingerprint(2, "federation_token")
        let token = FederationToken(
            id: try fingerprint(0, "federation_token"), kind: kind, parent: parent, device: try key(3, "device"),
            audience: try text(4), party: try optionalText(5), scope: try text(6), thumbprint: try optionalText(7),
            issuedAt: try integer(8), expiresAt: try integer(9), revokedAt: try optionalInteger(10))
        return FoundToken(
            token: token, device: try device(11, "device"), isDeviceRevoked: try optionalInteger(12) != nil,
            subject: try optionalBytes(13) == nil ? nil : fingerprint(13, "device"))
    }

    /// Reads the columns `service`.
    func federationService() throws -> FederationService {
        FederationService(
            id: try text(0), name: try text(1), url: try text(2), tokenEndpoint: try text(3),
            descriptionURL: try text(4), info: try optionalText(5), operatorName: try text(6),
            secret: try fingerprint(7, "federation_service"), joinedAt: try integer(8),
            approvedAt: try optionalInteger(9), revokedAt: try optionalInteger(10))
    }

    func storeState() throws -> StoreState {
        guard let store = RandomID(try bytes(0)), let epoch = RandomID(try bytes(1)) else {
            throw UnreadableRow(table: "store")
        }
        return StoreState(
            identity: StoreIdentity(store: store, epoch: epoch), epochNumber: try integer(2),
            noncesRemoved: try integer(3), tokensRemoved: try integer(4), revocationList: try integer(5))
    }

    func dueRow(_ rows: StoreLook.Due.Rows) throws -> StoreFacts.DueRow {
        var row = StoreFacts.DueRow(time: try integer(0))
        switch rows {
        case .receipts: (row.device, row.isRevoked) = (try device(1, "receipt"), try optionalInteger(2) != nil)
        case .bindings: (row.device, row.key) = (try device(1, "binding"), try key(2, "binding"))
        case .used, .certificates, .federationTokens: break
        }
        return row
    }
}
