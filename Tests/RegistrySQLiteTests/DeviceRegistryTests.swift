import Chance
import EventLoop
import Synchronization
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("The registry of a process")
struct DeviceRegistryTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    @Test("a lookup is pending once, then answered from memory with the registered data")
    func lookup() throws {
        let registry = try startRegistry(scratch, devices: 3)
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let client = try #require(worker.client)
        guard case .pending = client.device(forBinding: Fixture.bindingKey(2), token: 42) else {
            Issue.record("known before it was asked for")
            return
        }
        var token: UInt64 = 0
        worker.run(until: { token != 0 }) { if case .device(let answered, .found) = $0 { token = answered } }
        #expect(token == 42)
        let device = try worker.find(2)
        #expect(registry.metrics.loads == 1)
        #expect(device.hardwareKey == Fixture.hardwareKey(2))
        #expect(device.binding == Fixture.bindingKey(2))
        #expect(device.point == Fixture.identity(2).point)
        #expect(device.app == registry.number(of: Fixture.identity(2).app))
        #expect(device.app != registry.number(of: Fixture.identity(1).app))
        #expect(device.standing == .active)
    }

    @Test("an unknown key is cached as unknown until it is bound")
    func unknown() throws {
        let registry = try startRegistry(scratch, devices: 1)
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        for _ in 0..<3 {
            guard case .unknown = try worker.look(Fixture.bindingKey(5)) else {
                Issue.record("known")
                return
            }
        }
        #expect(registry.metrics.loads == 1)
        _ = try worker.perform(.register(Fixture.identity(5), binding: Fixture.bindingKey(5))).get()
        #expect(try worker.find(5).hardwareKey == Fixture.hardwareKey(5))
    }

    @Test("a counter value is committed once and then refused from memory")
    func spend() throws {
        let registry = try startRegistry(scratch, devices: 1)
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let device = try worker.find(1)
        let epoch = registry.identity.epoch
        #expect(try worker.spend(5, of: device, epoch: epoch) == .committed)
        #expect(try worker.spend(5, of: device, epoch: epoch) == .replayed)
        #expect(try worker.spend(4, of: device, epoch: epoch) == .late(highest: 5))
        #expect(try worker.spend(4, of: device, mode: window(2), epoch: epoch) == .committed)
        #expect(registry.metrics.commits == 2)
        #expect(registry.metrics.counters == 2)
        #expect(registry.metrics.batchSizes[0] == 2)
        #expect(registry.metrics.waiting == 0)
    }

    @Test("counters become durable although their worker always has long work", .timeLimit(.minutes(1)))
    func endlessWork() throws {
        let registry = try startRegistry(scratch, devices: 1)
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let device = try worker.find(1)
        let client = try #require(worker.client)
        var spent: UInt32 = 0
        let begin = LoopTimer(loop: worker.loop, interval: .milliseconds(1)) {
            worker.loop.work {
                if spent < 100 {
                    spent += 1
                    let taken = client.spend(
                        spent, of: device, showing: [], mode: .strict, epoch: registry.identity.epoch,
                        token: UInt64(spent))
                    #expect(taken == .pending)
                }
                return true
            }
        }
        var committed: [UInt64] = []
        let isDone = withExtendedLifetime(begin) {
            worker.run(until: { committed.count == 100 }) { event in
                if case .counter(let token, .committed) = event { committed.append(token) }
            }
        }
        #expect(isDone)
        #expect(committed == Array(1...100))
        #expect(registry.metrics.counters == 100)
    }

    @Test("1,000 identical counters from 4 threads with record eviction: exactly one is committed")
    func identicalCounters() throws {
        let registry = try startRegistry(scratch, devices: 200) { limits, options in
            limits.devices = 16
            options.recordLimit = 4
        }
        let seed = RunSeed.tell()
        let committed = Atomic<Int>(0)
        let refused = Atomic<Int>(0)
        let threads = try (0..<4).map { number in
            try LoopThread(name: "worker-\(number)") {
                do {
                    let run = try IdenticalCounters(registry, seed: seed &+ UInt64(number))
                    try run.run()
                    committed.add(run.committed, ordering: .relaxed)
                    refused.add(run.refused, ordering: .relaxed)
                } catch {
                    Issue.record(error)
                }
            }
        }
        for thread in threads { thread.join() }
        registry.stop()
        #expect(committed.load(ordering: .relaxed) == 1)
        #expect(refused.load(ordering: .relaxed) == 999)
        #expect(registry.metrics.waiting == 0)
        #expect(registry.metrics.loads > 300, "records had to go")
    }

    @Test(
        "accepted values are committed in whatever order they arrive, and none twice")
    func overtaking() throws {
        let registry = try startRegistry(scratch, devices: 1)
        let next = Atomic<UInt32>(0)
        let committed = Mutex<[UInt32]>([])
        let others = Mutex<[CounterOutcome]>([])
        let threads = try (0..<4).map { number in
            try LoopThread(name: "worker-\(number)") {
                do {
                    let run = try RisingCounters(registry)
                    run.run(drawing: next, rounds: 400)
                    let (values, outcomes) = (Array(run.committed), run.others)
                    committed.withLock { $0 += values }
                    others.withLock { $0 += outcomes }
                } catch {
                    Issue.record(error)
                }
            }
        }
        for thread in threads { thread.join() }
        registry.stop()
        let values = committed.withLock { $0 }
        #expect(others.withLock { $0 } == [])
        #expect(values.count > 1_000)
        #expect(Set(values).count == values.count)
        #expect(registry.metrics.counters == values.count)
    }

    @Test("a device whose record was evicted returns with every value used")
    func eviction() throws {
        let registry = try startRegistry(scratch, devices: 100) { limits, options in
            limits.devices = 16
            options.recordLimit = 8
        }
        let worker = try TestWorker(registry)
        let epoch = registry.identity.epoch
        for device in 1...100 { #expect(try worker.spend(3, of: try worker.find(device), epoch: epoch) == .committed) }
        for device in 1...100 { #expect(try worker.spend(3, of: try worker.find(device), epoch: epoch) == .replayed) }
        #expect(registry.metrics.loads > 180)
        registry.stop()
    }

    @Test("a snapshot outlives its record, and the store decides its values once")
    func withoutRecord() throws {
        let registry = try startRegistry(scratch, devices: 100) { limits, _ in limits.devices = 16 }
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let epoch = registry.identity.epoch
        let device = try worker.find(1)
        // Devices 17, 33, ... share its place.
        for other in [17, 33, 49] { _ = try worker.find(other) }
        #expect(try worker.spend(2, of: device, epoch: epoch) == .committed)
        #expect(try worker.spend(2, of: device, epoch: epoch) == .replayed)
        #expect(try worker.spend(1, of: device, epoch: epoch) == .late(highest: 2))
        _ = try worker.find(1)
        #expect(try worker.spend(2, of: device, epoch: epoch) == .replayed)
        #expect(try worker.spend(3, of: device, epoch: epoch) == .committed)
    }

    @Test("revoking and restoring reach every worker and its lookups")
    func revocation() throws {
        let registry = try startRegistry(scratch, devices: 2)
        defer { registry.stop() }
        let (worker, operatorSide) = (try TestWorker(registry), try TestWorker(registry))
        let device = try worker.find(1)
        let epoch = registry.identity.epoch
        _ = try operatorSide.perform(.revoke(device.id)).get()
        #expect(worker.run(until: { worker.barred == [Fixture.bindingKey(1)] }))
        #expect(operatorSide.barred == [Fixture.bindingKey(1)])
        #expect(registry.knownStanding(of: Fixture.bindingKey(1)) == .deviceRevoked)
        #expect(try worker.find(1).standing == .deviceRevoked)
        #expect(try worker.spend(1, of: device, epoch: epoch) == .deviceRevoked)
        _ = try operatorSide.perform(.restore(device.id)).get()
        #expect(registry.knownStanding(of: Fixture.bindingKey(1)) == .active)
        #expect(try worker.find(1).standing == .active)
        #expect(try worker.spend(1, of: device, epoch: epoch) == .committed)
    }

    @Test("a revoked device is known although it was never looked up")
    func revocationOfAStranger() throws {
        let registry = try startRegistry(scratch, devices: 2)
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        #expect(registry.knownStanding(of: Fixture.bindingKey(1)) == nil)
        _ = try worker.perform(.revoke(try #require(DeviceID(1)))).get()
        #expect(registry.knownStanding(of: Fixture.bindingKey(1)) == .deviceRevoked)
        #expect(registry.knownStanding(of: Fixture.bindingKey(2)) == nil)
        _ = try worker.perform(.restore(try #require(DeviceID(1)))).get()
        #expect(registry.knownStanding(of: Fixture.bindingKey(1)) == nil)
    }

    @Test("an ended binding is announced by its key alone, and the device keeps its other one")
    func bindingEnd() throws {
        let registry = try startRegistry(scratch, devices: 1)
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let first = try worker.find(1)
        _ = try worker.perform(.bind(Fixture.bindingKey(90), to: first.id)).get()
        let second = try worker.find(90)
        _ = try worker.perform(.endBinding(Fixture.bindingKey(1))).get()
        #expect(worker.run(until: { worker.barred == [Fixture.bindingKey(1)] }))
        #expect(registry.knownStanding(of: Fixture.bindingKey(1)) == .bindingEnded)
        #expect(registry.knownStanding(of: Fixture.bindingKey(90)) == .active)
        #expect(try worker.find(1).standing == .bindingEnded)
        let epoch = registry.identity.epoch
        #expect(try worker.spend(1, of: first, epoch: epoch) == .bindingEnded)
        #expect(try worker.spend(2, of: second, epoch: epoch) == .committed)
        #expect(try worker.find(90).standing == .active)
    }

    @Test("a revocation before the commit refuses an accepted value")
    func revocationOvertakes() throws {
        let registry = try startRegistry(scratch, devices: 1)
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let client = try #require(worker.client)
        let device = try worker.find(1)
        #expect(client.perform(.revoke(device.id), token: 1))
        // The store may or may not have come to it yet: either way nothing is committed.
        let acceptance = client.spend(
            1, of: device, showing: [], mode: .strict, epoch: registry.identity.epoch, token: 2)
        guard acceptance == .pending else {
            #expect(acceptance == .deviceRevoked)
            return
        }
        var outcome: CounterOutcome?
        worker.run(until: { outcome != nil }) { if case .counter(2, let reported) = $0 { outcome = reported } }
        #expect(outcome == .deviceRevoked)
    }

    @Test("a fresh epoch reaches every worker and refuses values of the previous one")
    func epoch() throws {
        let registry = try startRegistry(scratch, devices: 1)
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let device = try worker.find(1)
        guard case .identity(let fresh) = try worker.perform(.renewEpoch).get() else {
            Issue.record("no identity")
            return
        }
        let isInformed = {
            worker.events.contains { if case .identity(let identity) = $0 { identity == fresh } else { false } }
        }
        #expect(worker.run(until: isInformed))
        #expect(try worker.spend(1, of: device, epoch: registry.identity.epoch) == .epochChanged)
        #expect(try worker.spend(2, of: device, epoch: fresh.epoch) == .committed)
        // A worker that comes with a reload learns of it as well.
        let later = try TestWorker(registry)
        #expect(
            later.run(until: {
                later.events.contains { if case .identity(let identity) = $0 { identity == fresh } else { false } }
            }))
    }

    @Test("each start draws a fresh epoch, but for a handover; a held file is known")
    func startEpochs() throws {
        let path = scratch.file()
        let first = try startRegistry(scratch, devices: 1)
        #expect(DeviceRegistry.isHeld(path: path))
        first.stop()
        #expect(!DeviceRegistry.isHeld(path: path))
        let successor = try DeviceRegistry.start(path: path, creating: false, isHandover: true) { _ in }
        #expect(successor.identity == first.identity)
        successor.stop()
        let next = try DeviceRegistry.start(path: path, creating: false) { _ in }
        #expect(next.identity.store == first.identity.store && next.identity.epoch != first.identity.epoch)
        next.stop()
    }

    @Test("counters above the queue's limit are refused at once and stay unused")
    func overflow() throws {
        let registry = try startRegistry(scratch, devices: 1) { limits, _ in limits.waitingCounters = 3 }
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let client = try #require(worker.client)
        let device = try worker.find(1)
        let epoch = registry.identity.epoch
        var refused: [UInt32] = []
        var pending = 0
        // As fast as can be: the store syncs meanwhile.
        for counter: UInt32 in 1...2_000 {
            switch client.spend(
                counter, of: device, showing: [], mode: window(1024), epoch: epoch, token: UInt64(counter))
            {
            case .pending: pending += 1
            case .storeUnavailable: refused.append(counter)
            default: Issue.record("\(counter)")
            }
        }
        #expect(!refused.isEmpty)
        #expect(registry.metrics.overflows == refused.count)
        var outcomes: [CounterOutcome] = []
        let count = { worker.events.count { if case .counter = $0 { true } else { false } } }
        worker.run(until: { count() == pending }) { if case .counter(_, let found) = $0 { outcomes.append(found) } }
        #expect(count() == pending)
        #expect(outcomes.allSatisfy { $0 == .committed })
        if let last = refused.last {
            #expect(try worker.spend(last, of: device, mode: window(1024), epoch: epoch) == .committed)
        }
    }

    @Test("counters that wait for a sync are committed in one transaction")
    func batches() throws {
        let registry = try startRegistry(scratch, devices: 1)
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let client = try #require(worker.client)
        let device = try worker.find(1)
        for counter: UInt32 in 1...1_000 {
            let acceptance = client.spend(
                counter, of: device, showing: [], mode: .strict, epoch: registry.identity.epoch, token: UInt64(counter))
            #expect(acceptance == .pending)
        }
        let count = { worker.events.count { if case .counter(_, .committed) = $0 { true } else { false } } }
        #expect(worker.run(until: { count() == 1_000 }))
        #expect(registry.metrics.counters == 1_000)
        #expect(registry.metrics.commits < 1_000)
        #expect(registry.metrics.batchSizes.reduce(0, +) == registry.metrics.commits)
    }

    @Test("after a stop the file alone holds everything")
    func stopped() throws {
        let registry = try startRegistry(scratch, devices: 1)
        let worker = try TestWorker(registry)
        let device = try worker.find(1)
        for counter: UInt32 in 1...20 {
            #expect(try worker.spend(counter, of: device, epoch: registry.identity.epoch) == .committed)
        }
        registry.stop()
        let store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(store.journalLength == 0)
        #expect(store.commit(1, 20) == .replayed)
    }

    @Test("the app that an assertion shows is known to every worker at once, and stored by the stop at the latest")
    func shownApp() throws {
        let registry = try startRegistry(scratch, devices: 1)
        let (worker, other) = (try TestWorker(registry), try TestWorker(registry))
        func nonce(_ number: Int) -> SingleUse { SingleUse(id: Fixture.nonce(number).id, expiresAt: .max) }
        let epoch = registry.identity.epoch
        _ = try worker.perform(
            .initialize(
                InstanceRegistration(
                    identity: Fixture.identity(2), attestation: Fixture.attestation(2), shown: [], nonce: nonce(1),
                    epoch: epoch))
        ).get()
        _ = try worker.perform(
            .bindKey(
                BindingRequest(
                    hardwareKey: Fixture.hardwareKey(2), key: Fixture.bindingKey(2), nonce: nonce(2), epoch: epoch,
                    counter: 1, shown: [], mode: .strict, admission: .open, overlap: 0, serial: Fixture.serial(1),
                    notAfter: .max))
        ).get()
        let device = try worker.find(2)
        let before = try #require(worker.client?.posture(of: device))
        #expect(before.generation == device.postureGeneration && before.posture.app == nil)
        #expect(before.posture.boundAt != nil && before.posture.risk == 7)
        worker.client?.note(AppVersion(bundleVersion: "2.1"), 4, of: device)
        let after = try #require(other.client?.posture(of: try other.find(2)))
        #expect(after.posture.app == AppVersion(bundleVersion: "2.1") && after.posture.distribution == 4)
        #expect(after.generation != before.generation)
        registry.stop()
        let store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(try store.find(Fixture.bindingKey(2))?.posture == after.posture)
    }

    @Test("a store silent for five seconds is stale; a failed one takes no counters at once")
    func health() {
        let health = StoreHealth()
        let now = Instant.now
        health.confirm(at: now)
        #expect(health.isFresh(now + .milliseconds(4_900)))
        #expect(health.takesCounters(now + .milliseconds(4_900)))
        #expect(!health.isFresh(now + .milliseconds(5_100)))
        #expect(!health.takesCounters(now + .milliseconds(5_100)))
        health.fail()
        #expect(health.isFresh(now))
        #expect(!health.takesCounters(now))
        health.confirm(at: now)
        #expect(health.takesCounters(now))
    }
}
