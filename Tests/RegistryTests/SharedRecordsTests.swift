import EventLoop
import RegistryMemory
import Testing
import Vocabulary

@testable import Registry

@Suite("Records shared by workers")
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

    @Test("a device is shown with the system version that the store knows")
    func systemVersion() throws {
        for (number, version) in [(1, nil), (2, SystemVersion("17.4"))] {
            var found = FoundDevice(
                id: try #require(DeviceID(Int64(number))), identity: Fixture.identity(number), isRevoked: false,
                isBound: true, window: CounterWindow(), shown: [])
            found.systemVersion = version
            records.insert(found, key: Fixture.bindingKey(number))
            guard case .found(let device) = records.look(up: Fixture.bindingKey(number), now: .now) else {
                Issue.record("not found")
                continue
            }
            #expect(device.systemVersion == version)
        }
    }

    @Test("an active device is noted as seen once a day, by whatever worker, and one that is refused never")
    func seen() throws {
        let records = SharedRecords(limit: 1_600, apps: AppNumbers())
        for number in 1...3 {
            let found = FoundDevice(
                id: try #require(DeviceID(Int64(number))), identity: Fixture.identity(number), isRevoked: false,
                isBound: true, window: CounterWindow(), shown: [])
            records.insert(found, key: Fixture.bindingKey(number))
        }
        func isKnown(_ device: Int) -> Bool {
            if case .found = records.look(up: Fixture.bindingKey(device), now: .now) { true } else { false }
        }
        #expect(isKnown(1) && records.takeSeen(9).isEmpty, "no day has begun")
        records.begin(day: 20_000)
        records.end([Fixture.bindingKey(3)])
        for _ in 0..<3 { for number in 1...3 { #expect(isKnown(number)) } }
        let (first, second) = (try #require(DeviceID(1)), try #require(DeviceID(2)))
        #expect(records.takeSeen(9).sorted() == [first, second])
        #expect(isKnown(1) && records.takeSeen(9).isEmpty)
        records.begin(day: 20_001)
        #expect(isKnown(2) && isKnown(1))
        #expect(records.takeSeen(1) == [first])
        records.giveBackSeen([first])
        #expect(Set(records.takeSeen(9)) == [first, second])
    }

    private func isKnown(_ device: Int) -> Bool {
        if case .found = records.look(up: Fixture.bindingKey(device), now: .now) { true } else { false }
    }

    @Test("a record with outstanding writes stays until the last one is completed")
    func pinned() throws {
        let device = try #require(DeviceID(1))
        try insert(1)
        for counter: UInt32 in [1, 2] {
            #expect(records.accept(counter, of: device, showing: [], mode: .strict, hint: -1) == .committed)
        }
        try insert(17)
        #expect(records.accept(2, of: device, showing: [], mode: .strict, hint: -1) == .replayed)
        records.complete(device)
        try insert(33)
        #expect(records.accept(2, of: device, showing: [], mode: .strict, hint: -1) == .replayed)
        records.complete(device)
        for other: Int64 in [17, 33, 49] { try insert(other) }
        #expect(records.accept(3, of: device, showing: [], mode: .strict, hint: 0) == nil)
    }

    @Test("an existing record is not replaced by the writer's possibly older data")
    func notReplaced() throws {
        let device = try #require(DeviceID(1))
        try insert(1)
        #expect(records.accept(8, of: device, showing: [], mode: .strict, hint: 0) == .committed)
        try insert(1)
        #expect(records.accept(8, of: device, showing: [], mode: .strict, hint: 0) == .replayed)
    }

    @Test("forgetting keeps records with outstanding writes and returns them")
    func forgetting() throws {
        for device: Int64 in 1...5 { try insert(device) }
        let device = try #require(DeviceID(3))
        #expect(records.accept(1, of: device, showing: [], mode: .strict, hint: 0) == .committed)
        #expect(records.forget() == [device])
        #expect((1...5).allSatisfy { !isKnown($0) })
        #expect(records.accept(1, of: device, showing: [], mode: .strict, hint: 0) == .replayed)
    }

    @Test("memory knows the status of looked-up keys and of no others")
    func knownStanding() throws {
        #expect(records.knownStanding(of: Fixture.bindingKey(1)) == nil)
        try insert(1)
        #expect(records.knownStanding(of: Fixture.bindingKey(1)) == .active)
        records.insertUnknown(Fixture.bindingKey(2), now: .now)
        #expect(records.knownStanding(of: Fixture.bindingKey(2)) == nil)
    }

    @Test("a revoked device is known by all its keys without a record, a restored one by none")
    func revokedAndRestored() throws {
        // With one place in a shard, two of the keys may want the same: which, differs from run to run.
        let records = SharedRecords(limit: 16 * 3, apps: AppNumbers())
        let keys = [1, 2, 3].map(Fixture.bindingKey)
        records.update(DeviceUpdate(try details(.revoked, keys: keys, ended: [keys[2]])))
        for key in keys { #expect(records.knownStanding(of: key) == .deviceRevoked) }
        records.update(DeviceUpdate(try details(.active, keys: keys, ended: [keys[2]])))
        #expect(keys.map(records.knownStanding) == [nil, nil, .bindingEnded])
    }

    @Test("an ended binding is known as such, and a revoked device stays revoked")
    func endedBinding() throws {
        let key = Fixture.bindingKey(1)
        try insert(1)
        records.end([key])
        #expect(records.knownStanding(of: key) == .bindingEnded)
        records.update(DeviceUpdate(try details(.revoked, keys: [key], ended: [key])))
        records.end([key])
        #expect(records.knownStanding(of: key) == .deviceRevoked)
    }

    @Test("a key that a lookup finds barred stays known after its record is evicted")
    func foundBarred() throws {
        for (number, isRevoked, isBound, standing) in [
            (1, true, true, DeviceStatus.deviceRevoked), (2, false, false, .bindingEnded),
            (3, true, false, .deviceRevoked),
        ] {
            let records = SharedRecords(limit: 16, apps: AppNumbers())
            let found = FoundDevice(
                id: try #require(DeviceID(Int64(number))), identity: Fixture.identity(number), isRevoked: isRevoked,
                isBound: isBound, window: CounterWindow(), shown: [])
            records.insert(found, key: Fixture.bindingKey(number))
            for other in 100..<400 {
                let good = FoundDevice(
                    id: try #require(DeviceID(Int64(other))), identity: Fixture.identity(other), isRevoked: false,
                    isBound: true, window: CounterWindow(), shown: [])
                records.insert(good, key: Fixture.bindingKey(other))
            }
            guard case .pending = records.look(up: Fixture.bindingKey(number), now: .now) else {
                Issue.record("the record is still there: nothing is shown")
                continue
            }
            #expect(records.knownStanding(of: Fixture.bindingKey(number)) == standing)
        }
    }

    @Test("barred keys are bounded, and forgotten with everything else")
    func barredAreBounded() throws {
        let keys = (0..<1_000).map(Fixture.bindingKey)
        records.end(keys)
        let known = keys.filter { records.knownStanding(of: $0) != nil }
        // One place in each of 16 shards.
        #expect((1...16).contains(known.count))
        _ = records.forget()
        #expect(keys.allSatisfy { records.knownStanding(of: $0) == nil })
    }

    private func details(_ state: DeviceState, keys: [KeyID], ended: [KeyID]) throws -> DeviceDetails {
        let id = try #require(DeviceID(1))
        let device = Device(
            id: id, identity: Fixture.identity(1), state: state, registeredAt: 1, approvedAt: nil,
            revokedAt: state == .revoked ? 2 : nil, highestCounter: 0, subject: nil, shown: [])
        return DeviceDetails(
            device: device,
            bindings: keys.map {
                Binding(key: $0, device: id, createdAt: 1, endedAt: ended.contains($0) ? 2 : nil, endsAt: nil)
            }, attestation: nil)
    }

    @Test("a key counts as unknown for a second, and unknown keys evict no known one")
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
