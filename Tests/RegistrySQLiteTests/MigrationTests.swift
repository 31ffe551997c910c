import Foundation
import GRDB
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Migration of older files")
struct MigrationTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func writeFirst() throws -> StoreIdentity { try FirstVersion.write(scratch) }

    @Test("a version 1 file keeps identity, devices, bindings, counters and journal")
    func first() throws {
        let identity = try writeFirst()
        let store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(store.identity == identity)
        #expect(store.journalLength == 2)
        let devices = try store.devices(after: nil, limit: 10)
        #expect(devices.map(\.identity) == (1...3).map(Fixture.identity))
        #expect(devices.map(\.state) == [.active, .revoked, .active])
        #expect(devices.map(\.registeredAt) == [1_001, 1_002, 1_003])
        #expect(devices.map(\.revokedAt) == [nil, 1_500, nil])
        #expect(devices.map(\.highestCounter) == [20, 0, 0])
        #expect(devices.allSatisfy { $0.approvedAt == nil && $0.subject == nil })
        #expect(try store.pendingDevices(after: nil, limit: 10).isEmpty)
        let details = try store.show(.binding(Fixture.bindingKey(2)))
        #expect(details.bindings.map(\.endedAt) == [1_400])
        #expect(details.bindings.map(\.endsAt) == [nil])
        #expect(details.attestation == nil)
        for value: UInt32 in [10, 12, 20] { #expect(store.commit(1, value, mode: window(1024)) == .replayed) }
        for value: UInt32 in [11, 21] { #expect(store.commit(1, value, mode: window(1024)) == .committed) }
        while try store.fold() {}
        // And it takes what the first version did not know.
        #expect(try store.bindKey(store.keyBinding(3, key: 3, nonce: 1, counter: 1), at: 1_900).kind == .first)
        #expect(try store.initialize(store.initialization(4), at: 1_900).refusal == nil)
    }

    @Test("a version 2 file has no earlier certificates and records all later ones")
    func second() throws {
        _ = try writeFirst()
        let queue = try DatabaseQueue(path: scratch.file())
        try SQLiteSchema.migrator.migrate(queue, upTo: "v2")
        try queue.close()
        let store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(try store.revokedCertificates(after: nil, limit: 9).certificates.isEmpty)
        let request = store.keyBinding(1, key: 9, nonce: 1, counter: 21, serial: Fixture.serial(1))
        #expect(try store.bindKey(request, at: 1_900).kind == .rotation)
        _ = try store.endBinding(Fixture.bindingKey(9), at: 1_910)
        #expect(
            try store.revokedCertificates(after: nil, limit: 9, at: 1_920).certificates.map(
                \.serial)
                == [Fixture.serial(1)])
        #expect(try store.drawRevocationListNumber(at: 5) == 5)
    }

    @Test("a version 3 file has no shown extensions and records later ones")
    func third() throws {
        _ = try writeFirst()
        let queue = try DatabaseQueue(path: scratch.file())
        try SQLiteSchema.migrator.migrate(queue, upTo: "v3")
        try queue.close()
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: false)
        #expect(try store?.devices(after: nil, limit: 10).map(\.shown) == [[], [], []])
        #expect(store?.commit(1, 21) == .committed)
        #expect(store?.commit(1, 22, showing: .bundleVersion) == .committed)
        store = nil
        store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(try store?.devices(after: nil, limit: 10).map(\.shown) == [.bundleVersion, [], []])
        #expect(store?.commit(1, 23) == .extensionWithheld)
    }

    @Test("a version 4 file keeps its receipts and metrics, and all become due")
    func fourth() throws {
        _ = try writeFirst()
        let queue = try DatabaseQueue(path: scratch.file())
        try SQLiteSchema.migrator.migrate(queue, upTo: "v4")
        try queue.write { database in
            let digest = Fixture.fingerprint(1, kind: 6).bytes.blob
            try database.execute(
                sql: """
                    INSERT INTO attestation (device, digest, receipt, risk_metric)
                    VALUES (1, ?, x'010203', 9), (3, ?, NULL, NULL)
                    """, arguments: [digest, digest])
        }
        try queue.close()
        let store = try RegistryStore(path: scratch.file(), creating: false)
        let details = try store.show(.hardwareKey(Fixture.hardwareKey(1)))
        #expect(details.attestation?.receipt == [1, 2, 3])
        #expect(details.attestation?.riskMetric == 9)
        #expect(details.refresh?.nextAt == 0)
        let other = try store.show(.hardwareKey(Fixture.hardwareKey(3)))
        #expect(other.attestation?.digest == Fixture.fingerprint(1, kind: 6))
        #expect(other.attestation?.receipt == nil)
        #expect(other.refresh == nil)
        let claimed = try store.claimReceipts(ReceiptClaim(at: 1, until: 50, limit: 9))
        #expect(claimed.devices.map(\.device.id.number) == [1])
    }

    @Test("a version 5 file has no witness and bars no key")
    func fifth() throws {
        let identity = try writeFirst()
        var queue = try DatabaseQueue(path: scratch.file())
        try SQLiteSchema.migrator.migrate(queue, upTo: "v5")
        try queue.close()
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: false)
        #expect(store?.identity == identity)
        #expect(try store?.register(Fixture.identity(4), binding: Fixture.bindingKey(4)).device.state == .active)
        store = nil
        queue = try DatabaseQueue(path: scratch.file())
        try queue.read { database in
            #expect(try Int.fetchOne(database, sql: "SELECT count(*) FROM barred_key") == 0)
            let row = try #require(
                try Row.fetchOne(database, sql: "SELECT standing, epoch_number, is_journaled FROM store"))
            #expect([0, 1, 2].map { row[$0] as Int64 } == [0, 0, 0])
        }
    }

    @Test("a file of the seventh version keeps its attestations, which state no system version")
    func seventh() throws {
        _ = try writeFirst()
        let queue = try DatabaseQueue(path: scratch.file())
        try SQLiteSchema.migrator.migrate(queue, upTo: "v7")
        try queue.write { database in
            try database.execute(
                sql: "INSERT INTO attestation (device, digest) VALUES (1, ?)",
                arguments: [Fixture.fingerprint(1, kind: 6).bytes.blob])
        }
        try queue.close()
        let store = try RegistryStore(path: scratch.file(), creating: false)
        let details = try store.show(.hardwareKey(Fixture.hardwareKey(1)))
        #expect(details.attestation?.digest == Fixture.fingerprint(1, kind: 6))
        #expect(details.attestation?.systemVersion == nil)
        #expect(try store.find(Fixture.bindingKey(1))?.posture.system == nil)
        #expect(try store.initialize(store.initialization(4), at: 1_900).refusal == nil)
        let newer = try store.show(.hardwareKey(Fixture.hardwareKey(4)))
        #expect(newer.attestation?.systemVersion == SystemVersion("17.4"))
    }

    @Test("a file of the eighth version keeps its attestations, and takes those of Android phones")
    func eighth() throws {
        _ = try writeFirst()
        let queue = try DatabaseQueue(path: scratch.file())
        try SQLiteSchema.migrator.migrate(queue, upTo: "v8")
        try queue.write { database in
            try database.execute(
                sql: "INSERT INTO attestation (device, digest, os_version) VALUES (1, ?, '17.4')",
                arguments: [Fixture.fingerprint(1, kind: 6).bytes.blob])
        }
        try queue.close()
        let store = try RegistryStore(path: scratch.file(), creating: false)
        let details = try store.show(.hardwareKey(Fixture.hardwareKey(1)))
        #expect(details.attestation?.systemVersion == SystemVersion("17.4"))
        #expect(details.attestation?.phone == nil)
        #expect(try store.initialize(store.initialization(5), at: 1_900).refusal == nil)
        #expect(try store.show(.hardwareKey(Fixture.hardwareKey(5))).attestation?.phone == Fixture.phone(5))
    }

    @Test("a file of the twelfth version keeps its attestations, whose time is that of the registration")
    func twelfth() throws {
        _ = try writeFirst()
        let queue = try DatabaseQueue(path: scratch.file())
        try SQLiteSchema.migrator.migrate(queue, upTo: "v12")
        try queue.write { database in
            try database.execute(
                sql: "INSERT INTO attestation (device, digest, os_version) VALUES (1, ?, '17.4')",
                arguments: [Fixture.fingerprint(1, kind: 6).bytes.blob])
        }
        try queue.close()
        let store = try RegistryStore(path: scratch.file(), creating: false)
        let posture = try #require(try store.find(Fixture.bindingKey(1))?.posture)
        #expect(posture.enrolledAt == 1_001 && posture.attestedAt == 1_001 && posture.boundAt == 1_100)
        #expect(posture.system == SystemVersion("17.4") && posture.keyProtection == .secureEnclave)
        #expect(posture.app == nil && posture.distribution == nil && posture.isCertificateKeyAttested == nil)
        #expect(posture.admission == .open)
        // One that an operator registered has none.
        let other = Posture(try store.show(.hardwareKey(Fixture.hardwareKey(3))))
        #expect(other.attestedAt == nil && other.keyProtection == nil && other.admission == .operator)
    }

    @Test("a file of the thirteenth version has no signals, and takes some")
    func thirteenth() throws {
        _ = try writeFirst()
        let queue = try DatabaseQueue(path: scratch.file())
        try SQLiteSchema.migrator.migrate(queue, upTo: "v13")
        try queue.close()
        let store = try RegistryStore(path: scratch.file(), creating: false)
        let device = try store.show(.hardwareKey(Fixture.hardwareKey(1)))
        #expect(device.signals == nil && Posture(device).claims == Claims())
        let signals = Signals(content: Array(#"{"isDeviceSecure":true}"#.utf8), claimedAt: 9)
        let request = Reattestation(
            device: device.device.id, nonce: Fixture.nonce(1), epoch: store.identity.epoch, phone: nil, evidence: nil,
            app: ShownApp(), signals: signals)
        _ = try store.perform(.reattest(request), at: 1_500).get()
        #expect(try store.show(.hardwareKey(Fixture.hardwareKey(1))).signals == signals)
        #expect(try store.find(Fixture.bindingKey(1))?.posture.claims.isDeviceSecure == true)
    }

    @Test("a file is migrated once and then opens unchanged")
    func twice() throws {
        _ = try writeFirst()
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: false)
        #expect(store?.commit(1, 21) == .committed)
        store = nil
        store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(try store?.devices(after: nil, limit: 10).count == 3)
        #expect(store?.commit(1, 21) == .replayed)
    }

    @Test("a migration that cannot be written leaves the file unchanged")
    func fullDisk() throws {
        let identity = try writeFirst()
        var options = StoreOptions()
        options.maximumPages = 18
        #expect(throws: StoreOpenError.self) {
            try RegistryStore(path: scratch.file(), creating: false, options: options)
        }
        let store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(store.identity == identity)
        #expect(try store.devices(after: nil, limit: 10).map(\.highestCounter) == [20, 0, 0])
    }
}

/// A file as the first version of the schema has it.
enum FirstVersion {
    /// Three devices as the first version wrote them: 1 bound, with counters folded and in the journal; 2 revoked, its
    /// binding ended; 3 unbound.
    static func write(_ scratch: Scratch) throws -> StoreIdentity {
        let queue = try DatabaseQueue(path: scratch.file())
        defer { try? queue.close() }
        try queue.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        try SQLiteSchema.migrator.migrate(queue, upTo: "v1")
        return try queue.write { database in
            for number in 1...3 {
                let identity = Fixture.identity(number)
                try database.execute(
                    sql: "INSERT INTO device VALUES (?, ?, ?, ?, 'production', ?, ?, ?)",
                    arguments: [
                        number, identity.hardwareKey.blob, identity.app.description, identity.platform.rawValue,
                        identity.point.bytes.blob, 1_000 + number, number == 2 ? 1_500 : nil,
                    ])
                var window = CounterWindow()
                if number == 1 { _ = window.accept(10, mode: .strict) }
                try database.execute(
                    sql: "INSERT INTO counter VALUES (?, ?, ?)",
                    arguments: [number, window.highest, window.bits.blob])
            }
            for number in 1...2 {
                try database.execute(
                    sql: "INSERT INTO binding VALUES (?, ?, ?, ?)",
                    arguments: [Fixture.bindingKey(number).blob, number, 1_100, number == 2 ? 1_400 : nil])
            }
            try database.execute(sql: "INSERT INTO journal VALUES (5, 1, 12), (6, 1, 20)")
            return try database.storeIdentity()
        }
    }
}
