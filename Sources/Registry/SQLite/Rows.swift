internal import struct Foundation.Data
internal import GRDB
internal import Vocabulary

// How values lie in rows. GRDB speaks of bytes as `Data`; it goes no further than these files, on the store's thread.

extension [UInt8] {
    var blob: Data { Data(self) }
}

/// A row holds what the schema excludes: the file was damaged or written by something else.
struct UnreadableRow: Error {
    let table: StaticString
}

extension KeyID {
    var blob: Data { bytes.blob }

    init?(blob: Data) {
        let bytes = [UInt8](blob)
        self.init(digest: bytes.span)
    }
}

extension Fingerprint {
    var blob: Data { bytes.blob }

    init?(blob: Data) {
        self.init([UInt8](blob))
    }
}

extension SystemVersion {
    /// Reads the column `os_version`. - Returns: nil if that is null.
    init?(stored text: String?) throws {
        guard let text else { return nil }
        guard let version = SystemVersion(text) else { throw UnreadableRow(table: "attestation") }
        self = version
    }
}

extension DeviceIdentity {
    /// The columns this and `Device` are read from, in order.
    static let columns = """
        device.id, hardware_key, app, platform, environment, point, registered_at, revoked_at, highest, activated_at, \
        approved_at, subject, shown_extensions
        """
    static let tables = "device JOIN counter ON counter.device = device.id"

    init(row: Row) throws {
        guard let hardwareKey = KeyID(blob: row[1]), let app = AppID(row[2]), let platform = Platform(rawValue: row[3]),
            let environment = AttestationEnvironment(rawValue: row[4]), let point = PublicPoint([UInt8](row[5] as Data))
        else { throw UnreadableRow(table: "device") }
        self.init(app: app, platform: platform, environment: environment, hardwareKey: hardwareKey, point: point)
    }
}

extension Device {
    /// - Parameter highest: what memory knows, which may be ahead of the row.
    init(row: Row, highest: UInt32?) throws {
        let identity = try DeviceIdentity(row: row)
        guard let id = DeviceID(row[0]) else { throw UnreadableRow(table: "device") }
        let revokedAt: Int64? = row[7]
        let activatedAt: Int64? = row[9]
        let subject: Data? = row[11]
        self.init(
            id: id, identity: identity, state: revokedAt != nil ? .revoked : activatedAt == nil ? .pending : .active,
            registeredAt: row[6], approvedAt: row[10], revokedAt: revokedAt, highestCounter: highest ?? row[8],
            subject: try subject.map { blob in
                guard let subject = Fingerprint(blob: blob) else { throw UnreadableRow(table: "device") }
                return subject
            }, shown: ShownExtensions(rawValue: row[12]))
    }
}

extension Binding {
    /// The columns this is read from, in order.
    static let columns = "key, device, created_at, ended_at, ends_at"

    init(row: Row) throws {
        guard let key = KeyID(blob: row[0]), let device = DeviceID(row[1]) else {
            throw UnreadableRow(table: "binding")
        }
        self.init(key: key, device: device, createdAt: row[2], endedAt: row[3], endsAt: row[4])
    }
}

extension AttestationRecord {
    /// The columns this is read from, in order.
    static let columns = "digest, certificate_key, content, risk_metric, os_version"
    static let tables = "attestation LEFT JOIN receipt ON receipt.device = attestation.device"

    init(row: Row) throws {
        let (key, receipt): (Data?, Data?) = (row[1], row[2])
        let certificateKey = key.flatMap(KeyID.init(blob:))
        guard let digest = Fingerprint(blob: row[0]), (key == nil) == (certificateKey == nil),
            let record = AttestationRecord(
                digest: digest, certificateKey: certificateKey, receipt: receipt.map { [UInt8]($0) },
                riskMetric: row[3],
                systemVersion: try SystemVersion(stored: row[4]))
        else { throw UnreadableRow(table: "attestation") }
        self = record
    }
}

extension StoreIdentity {
    static func read(_ database: Database) throws -> StoreIdentity {
        let found = try DirectStatement(database, "SELECT id, epoch FROM store").first { row -> StoreIdentity? in
            guard let store = row.octets(0, RandomID.init), let epoch = row.octets(1, RandomID.init) else { return nil }
            return StoreIdentity(store: store, epoch: epoch)
        }
        guard let identity = found ?? nil else { throw UnreadableRow(table: "store") }
        return identity
    }
}
