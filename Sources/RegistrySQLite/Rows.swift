internal import struct Foundation.Data
internal import GRDB
internal import Registry
internal import Vocabulary

// Conversions between values and rows. GRDB represents bytes as `Data`, which is used only in these files.

extension [UInt8] {
    var blob: Data { Data(self) }
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

extension Row {
    func deviceIdentity() throws -> DeviceIdentity {
        guard let hardwareKey = KeyID(blob: self[1]), let app = AppID(self[2]),
            let platform = Platform(rawValue: self[3]),
            let environment = AttestationEnvironment(rawValue: self[4]),
            let point = PublicPoint([UInt8](self[5] as Data))
        else { throw UnreadableRow(table: "device") }
        return DeviceIdentity(
            app: app, platform: platform, environment: environment, hardwareKey: hardwareKey, point: point)
    }

    /// Reads a device.
    ///
    /// - Parameter highest: The highest counter value in memory, which may be ahead of the row.
    func device(highest: UInt32?) throws -> Device {
        let identity = try deviceIdentity()
        guard let id = DeviceID(self[0]) else { throw UnreadableRow(table: "device") }
        let revokedAt: Int64? = self[7]
        let activatedAt: Int64? = self[9]
        let subject: Data? = self[11]
        return Device(
            id: id, identity: identity, state: revokedAt != nil ? .revoked : activatedAt == nil ? .pending : .active,
            registeredAt: self[6], approvedAt: self[10], revokedAt: revokedAt, highestCounter: highest ?? self[8],
            subject: try subject.map { blob in
                guard let subject = Fingerprint(blob: blob) else { throw UnreadableRow(table: "device") }
                return subject
            }, shown: ShownExtensions(rawValue: self[12]))
    }

    func binding() throws -> Binding {
        guard let key = KeyID(blob: self[0]), let device = DeviceID(self[1]) else {
            throw UnreadableRow(table: "binding")
        }
        return Binding(key: key, device: device, createdAt: self[2], endedAt: self[3], endsAt: self[4])
    }

    func attestationRecord() throws -> AttestationRecord {
        let (key, receipt): (Data?, Data?) = (self[1], self[2])
        let certificateKey = key.flatMap(KeyID.init(blob:))
        guard let digest = Fingerprint(blob: self[0]), (key == nil) == (certificateKey == nil),
            let record = AttestationRecord(
                digest: digest, certificateKey: certificateKey, receipt: receipt.map { [UInt8]($0) },
                riskMetric: self[3],
                systemVersion: try SystemVersion(stored: self[4]))
        else { throw UnreadableRow(table: "attestation") }
        return record
    }

    func receiptRefresh() throws -> ReceiptRefresh {
        let outcome: String? = self[3]
        return ReceiptRefresh(
            createdAt: self[0], nextAt: self[1], askedAt: self[2],
            outcome: try outcome.map { text in
                guard let outcome = ReceiptOutcome(rawValue: text) else { throw UnreadableRow(table: "receipt") }
                return outcome
            }, failures: self[4])
    }

    func certificateRecord() throws -> CertificateRecord {
        guard let serial = CertificateSerial([UInt8](self[0] as Data)) else {
            throw UnreadableRow(table: "issued_certificate")
        }
        return CertificateRecord(
            serial: serial, notAfter: self[1], deviceRevokedAt: self[2], bindingEndedAt: self[3], bindingEndsAt: self[4]
        )
    }
}

extension Database {
    func storeIdentity() throws -> StoreIdentity {
        let found = try DirectStatement(self, "SELECT id, epoch FROM store").first { row -> StoreIdentity? in
            guard let store = row.bytes(0, RandomID.init), let epoch = row.bytes(1, RandomID.init) else { return nil }
            return StoreIdentity(store: store, epoch: epoch)
        }
        guard let identity = found ?? nil else { throw UnreadableRow(table: "store") }
        return identity
    }
}
