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
            window: window, shown: shown, posture: Fixture.posture(Int(device)))
        records.insert(found, key: Fixture.bindingKey(Int(device)))
    }

    @Test("a device is shown with the system version that the store knows")
    func systemVersion() throws {
        for (number, version) in [(1, nil), (2, SystemVersion("17.4"))] {
            var found = FoundDevice(
                id: try #require(DeviceID(Int64(number))), identity: Fixture.identity(number), isRevoked: false,
                isBound: true, window: CounterWindow(), shown: [], posture: Fixture.posture(number))
            found.posture.system = version
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
                isBound: true, window: CounterWindow(), shown: [], posture: Fixture.posture(number))
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
        #expect(records.takeSeen(9).map(\.id) == [first, second])
        #expect(isKnown(1) && records.takeSeen(9).isEmpty)
        records.begin(day: 20_001)
        #expect(isKnown(2) && isKnown(1))
        let taken = records.takeSeen(1)
        #expect(taken.map(\.id) == [second])
        records.giveBackSeen(taken)
        #expect(records.takeSeen(9).map(\.id) == [second, first])
    }

    private func found(_ device: Int) throws -> DeviceSnapshot {
        guard case .found(let found) = records.look(up: Fixture.bindingKey(device), now: .now) else {
            throw StoreError.deviceUnknown
        }
        return found
    }

    @Test("the posture of a device is that of its store, with the time of the binding of the look-up")
    func posture() throws {
        var posture = Fixture.posture(1)
        posture.risk = 3
        posture.boundAt = 2_000
        let device = FoundDevice(
            id: try #require(DeviceID(1)), identity: Fixture.identity(1), isRevoked: false, isBound: true,
            window: CounterWindow(), shown: [], posture: posture)
        records.insert(device, key: Fixture.bindingKey(1))
        let snapshot = try found(1)
        let known = try #require(records.posture(of: snapshot))
        #expect(known.posture == posture && known.generation == snapshot.postureGeneration)
        #expect(snapshot.riskMetric == 3)
        try insert(17)
        #expect(records.posture(of: snapshot) == nil, "evicted")
    }

    @Test("a posture, or a listed key, that changes has another number; any other change keeps it")
    func generations() throws {
        try insert(1)
        var posture = Fixture.posture(1)
        var numbers = [try found(1).postureGeneration]
        func update(isListed: Bool = false, isRevoked: Bool = false) throws {
            records.update(
                DeviceUpdate(
                    id: try #require(DeviceID(1)), isRevoked: isRevoked, shown: .bundleVersion, posture: posture,
                    isKeyListed: isListed, bindings: [(Fixture.bindingKey(1), true)]))
            numbers.append(try found(1).postureGeneration)
        }
        try update(isRevoked: true)
        #expect(numbers[1] == numbers[0])
        posture.risk = 4
        try update()
        try update()
        #expect(numbers[2] != numbers[1] && numbers[3] == numbers[2])
        try update(isListed: true)
        #expect(numbers[4] != numbers[3])
        #expect(records.posture(of: try found(1))?.posture.risk == 4)
        // A record that was evicted and is back has another number, too.
        try insert(17)
        try insert(1)
        #expect(!numbers.contains(try found(1).postureGeneration))
    }

    @Test("an assertion that shows another app is noted once, at once for all workers; one that shows none is not")
    func shownApp() throws {
        records.begin(day: 20_000)
        try insert(1)
        let device = try found(1)
        _ = records.takeSeen(9)
        let first = ShownApp(version: AppVersion(bundleVersion: "1.2"), distribution: 4)
        for app in [ShownApp(), first, first, ShownApp()] { records.note(app, of: device) }
        #expect(records.posture(of: device)?.posture.app?.description == "1.2")
        #expect(records.posture(of: device)?.posture.distribution == 4)
        #expect(try found(1).postureGeneration != device.postureGeneration)
        // A version of an unknown form replaces the known one.
        let second = ShownApp(distribution: 4)
        records.note(second, of: device)
        #expect(records.posture(of: device)?.posture.app == nil)
        let taken = records.takeSeen(9)
        #expect(taken == [SeenDevice(device.id, app: first), SeenDevice(device.id, app: second)])
        records.giveBackSeen(taken)
        #expect(records.takeSeen(9) == taken, "in their order, so that the last one stays")
    }

    @Test("an app that an Android phone would show is not noted: its attestations state it")
    func androidApp() throws {
        try insert(3)
        records.note(ShownApp(distribution: 4), of: try found(3))
        #expect(records.posture(of: try found(3))?.posture.distribution == nil && records.takeSeen(9).isEmpty)
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
                isBound: isBound, window: CounterWindow(), shown: [], posture: Fixture.posture(number))
            records.insert(found, key: Fixture.bindingKey(number))
            for other in 100..<400 {
                let good = FoundDevice(
                    id: try #require(DeviceID(Int64(other))), identity: Fixture.identity(other), isRevoked: false,
                    isBound: true, window: CounterWindow(), shown: [], posture: Fixture.posture(other))
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
