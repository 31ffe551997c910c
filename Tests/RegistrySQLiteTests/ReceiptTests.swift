import EventLoop
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("Receipt renewal")
struct ReceiptTests {
    private let scratch: Scratch
    private let store: RegistryStore

    init() throws {
        scratch = try Scratch()
        store = try RegistryStore(path: scratch.file(), creating: true)
    }

    private func claim(at time: Int64, limit: Int = 9) throws -> [Int64] {
        try store.claimReceipts(ReceiptClaim(at: time, until: time + 100, limit: limit)).devices
            .map(\.device.id.number)
    }

    private func result(
        _ device: DeviceID, previous: [UInt8] = [1, 2, 3], newer: [UInt8]? = nil, risk: UInt32? = nil,
        created: Int64? = nil, next: Int64? = 5_000, asked: Int64? = 2_000, outcome: ReceiptOutcome = .unchanged,
        failures: Int = 0
    ) -> ReceiptResult {
        ReceiptResult(
            device: device, previous: previous,
            newer: newer.flatMap { ReceiptResult.NewerReceipt(content: $0, riskMetric: risk) }, createdAt: created,
            nextAt: next, askedAt: asked, outcome: outcome, failures: failures)
    }

    private func refresh(_ device: DeviceID) throws -> ReceiptRefresh? { try store.show(.id(device)).refresh }

    @Test("a receipt is due when its device is attested, and a device without one is never due")
    func due() throws {
        try store.initializeAll(1)
        _ = try store.register(Fixture.identity(2), binding: nil, at: 1_000)
        #expect(try claim(at: 999) == [])
        #expect(try claim(at: 1_000) == [1])
    }

    @Test("a claimed receipt is not claimed again until the claim ends, even after a crash")
    func claimed() throws {
        try store.initializeAll(3)
        #expect(try claim(at: 1_000, limit: 2) == [1, 2])
        #expect(try claim(at: 1_000, limit: 2) == [3])
        #expect(try claim(at: 1_099) == [])
        let crashed = try RegistryStore(path: scratch.copy(to: "crashed.db"), creating: false)
        #expect(
            try crashed.claimReceipts(ReceiptClaim(at: 1_099, until: 2_000, limit: 9)).devices.isEmpty)
        #expect(try claim(at: 1_100) == [1, 2, 3])
    }

    @Test("the device due for longest comes first")
    func fair() throws {
        let ids = try store.initializeAll(3)
        _ = try claim(at: 1_000)
        for (device, next) in zip(ids, [3_000, 2_000, 2_500] as [Int64]) {
            _ = try store.recordReceipt(result(device, next: next))
        }
        #expect(try claim(at: 4_000, limit: 1) == [2])
        #expect(try claim(at: 4_000, limit: 9) == [3, 1])
    }

    @Test("a revoked device is skipped, however many there are, and due again when restored")
    func revoked() throws {
        let ids = try store.initializeAll(80)
        for device in ids.dropLast() { _ = try store.revoke(device) }
        #expect(try claim(at: 1_000, limit: 1) == [])
        #expect(try claim(at: 1_000, limit: 1) == [80])
        _ = try store.restore(ids[0], at: 2_000)
        #expect(try claim(at: 2_000) == [80, 1])
    }

    @Test("a claim says whether more receipts may be due")
    func more() throws {
        try store.initializeAll(2)
        #expect(try store.claimReceipts(ReceiptClaim(at: 1_000, until: 9_000, limit: 1)).isMoreDue)
        #expect(try !store.claimReceipts(ReceiptClaim(at: 1_000, until: 9_000, limit: 1)).isMoreDue)
        #expect(try !store.claimReceipts(ReceiptClaim(at: 1_000, until: 9_000, limit: 1)).isMoreDue)
    }

    @Test("a newer receipt, its metric and its time are stored and survive a crash")
    func newer() throws {
        let ids = try store.initializeAll(1)
        let verdict = try store.recordReceipt(
            result(ids[0], newer: [4, 5], risk: 11, created: 1_500, outcome: .refreshed))
        guard case .recorded(let details) = verdict else { return #expect(Bool(false), "superseded") }
        #expect(details.attestation?.receipt == [4, 5])
        #expect(details.attestation?.riskMetric == 11)
        #expect(details.attestation?.digest == Fixture.attestation(1).digest)
        let crashed = try RegistryStore(path: scratch.copy(to: "crashed.db"), creating: false)
        let again = try crashed.show(.id(ids[0]))
        #expect(again == details)
        #expect(
            again.refresh
                == ReceiptRefresh(createdAt: 1_500, nextAt: 5_000, askedAt: 2_000, outcome: .refreshed, failures: 0))
    }

    @Test("a newer receipt without a metric removes the old metric")
    func lifted() throws {
        let ids = try store.initializeAll(1)
        _ = try store.recordReceipt(result(ids[0], newer: [4, 5], created: 1_500, outcome: .refreshed))
        #expect(try store.show(.id(ids[0])).attestation?.riskMetric == nil)
    }

    @Test("a result for a replaced receipt changes nothing, and an older receipt is not stored")
    func superseded() throws {
        let ids = try store.initializeAll(1)
        _ = try store.recordReceipt(result(ids[0], newer: [4], risk: 1, created: 1_500))
        let before = try store.show(.id(ids[0]))
        #expect(
            try store.recordReceipt(result(ids[0], newer: [5], risk: 2, created: 1_600)) == .superseded)
        #expect(
            try store.recordReceipt(result(ids[0], previous: [4], newer: [5], risk: 2, created: 1_499))
                == .superseded)
        #expect(try store.recordReceipt(result(ids[0], previous: [9], next: nil)) == .superseded)
        #expect(try store.show(.id(ids[0])) == before)
    }

    @Test("without a newer receipt the old one stays, with next time and failure count")
    func unchanged() throws {
        let ids = try store.initializeAll(1)
        _ = try store.recordReceipt(
            result(ids[0], next: 7_000, asked: nil, outcome: .failed, failures: 3))
        let details = try store.show(.id(ids[0]))
        #expect(details.attestation == Fixture.attestation(1))
        #expect(
            details.refresh
                == ReceiptRefresh(createdAt: nil, nextAt: 7_000, askedAt: nil, outcome: .failed, failures: 3))
        _ = try store.recordReceipt(result(ids[0], next: nil, outcome: .expired))
        #expect(try claim(at: .max - 200) == [])
    }

    @Test("statistics count active devices above their app's ceiling and the oldest due time")
    func figures() throws {
        let ids = try store.initializeAll(6)
        let app = Fixture.identity(3).app
        // Apps take turns; 3 and 6 are of one. All have risk 7.
        #expect(try store.receiptFigures([(app, 6), (app, 7)], at: 999).aboveCeiling == [2, 0])
        #expect(try store.receiptFigures([], at: 999).oldestDue == nil)
        #expect(try store.receiptFigures([], at: 1_001).oldestDue == 1_000)
        _ = try store.revoke(ids[2])
        #expect(try store.receiptFigures([(app, 6)], at: 999).aboveCeiling == [1])
    }

    @Test("a lookup returns the metric, and a newer receipt updates the shared records")
    func shared() throws {
        _ = try store.register(Fixture.identity(1), binding: nil, at: 900)
        let id = try store.initializeAll(2, from: 2)[0]
        _ = try store.bindKey(store.keyBinding(2, key: 2, nonce: 2, counter: 1), at: 1_100)
        let records = SharedRecords(limit: 16, apps: AppNumbers())
        let found = try #require(try store.find(Fixture.bindingKey(2)))
        #expect(found.posture.risk == 7)
        records.insert(found, key: Fixture.bindingKey(2))
        #expect(risk(records) == 7)
        let verdict = try store.recordReceipt(result(id, newer: [4], risk: 30, created: 1_500))
        guard case .recorded(let details) = verdict else { return #expect(Bool(false), "superseded") }
        records.update(DeviceUpdate(details))
        #expect(risk(records) == 30)
        #expect(try store.find(Fixture.bindingKey(2))?.posture.risk == 30)
    }

    private func risk(_ records: SharedRecords) -> UInt32? {
        guard case .found(let device) = records.look(up: Fixture.bindingKey(2), now: .now) else { return nil }
        return device.riskMetric
    }
}
