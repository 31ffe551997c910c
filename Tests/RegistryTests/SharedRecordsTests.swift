import EventLoop
import Testing
import Vocabulary

@testable import Registry

@Suite("The records that workers share")
struct SharedRecordsTests {
    /// Room for one device in each of 16 shards: 1, 17 and 33 share a place.
    private let records = SharedRecords(limit: 16, apps: AppNumbers())

    private func insert(
        _ device: Int64, _ window: CounterWindow = CounterWindow(), showing shown: ShownExtensions = []
    ) throws {
        let found = FoundDevice(
            id: try #require(DeviceID(device)), identity: Fixture.identity(Int(device)), isRevoked: false,
            isBound: true,
            window: window, shown: shown)
        records.insert(found, key: Fixture.bindingKey(Int(device)))
    }

    private func isKnown(_ device: Int) -> Bool {
        if case .found = records.look(up: Fixture.bindingKey(device), now: .now) { true } else { false }
    }

    @Test("a record with writes outstanding stays until the last of them is settled, whoever wants its place")
    func pinned() throws {
        let device = try #require(DeviceID(1))
        try insert(1)
        for counter: UInt32 in [1, 2] {
            #expect(records.accept(counter, of: device, showing: [], mode: .strict, hint: -1) == .pending)
        }
        try insert(17)
        #expect(records.accept(2, of: device, showing: [], mode: .strict, hint: -1) == .replayed)
        records.settle(device)
        try insert(33)
        #expect(records.accept(2, of: device, showing: [], mode: .strict, hint: -1) == .replayed)
        records.settle(device)
        for other: Int64 in [17, 33, 49] { try insert(other) }
        #expect(records.accept(3, of: device, showing: [], mode: .strict, hint: 0) == nil)
    }

    @Test("a record that is there is not replaced by what the writer knows, which may be less")
    func notReplaced() throws {
        let device = try #require(DeviceID(1))
        try insert(1)
        #expect(records.accept(8, of: device, showing: [], mode: .strict, hint: 0) == .pending)
        try insert(1)
        #expect(records.accept(8, of: device, showing: [], mode: .strict, hint: 0) == .replayed)
    }

    @Test("forgetting keeps what has writes outstanding, and names it")
    func forgetting() throws {
        for device: Int64 in 1...5 { try insert(device) }
        let device = try #require(DeviceID(3))
        #expect(records.accept(1, of: device, showing: [], mode: .strict, hint: 0) == .pending)
        #expect(records.forget() == [device])
        #expect((1...5).allSatisfy { !isKnown($0) })
        #expect(records.accept(1, of: device, showing: [], mode: .strict, hint: 0) == .replayed)
    }

    @Test("a key is held for unknown for a second, and any number of such keys push out no known one")
    func unknownKeys() throws {
        let now = Instant.now
        try insert(1)
        for number in 1_000..<3_000 { records.insertUnknown(Fixture.bindingKey(number), now: now) }
        #expect(isKnown(1))
        func state(_ time: Instant) -> String {
            switch records.look(up: Fixture.bindingKey(2_999), now: time) {
            case .unknown: "unknown"
            case .pending: "pending"
            default: "other"
            }
        }
        #expect(state(now + .milliseconds(900)) == "unknown")
        #expect(state(now + .milliseconds(1_100)) == "pending")
    }
}
