import EventLoop
import GRDB
import Glibc
import RegistryMemory
import Synchronization
import Testing
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("The registry with a failing store")
struct RegistryFailureTests {
    private final class Log: Sendable {
        private let events = Mutex<[StoreEvent]>([])
        func append(_ event: StoreEvent) { events.withLock { $0.append(event) } }
        var all: [StoreEvent] { events.withLock { $0 } }
    }

    @Test("a full disk refuses values with one report, and no used value is accepted later")
    func full() throws {
        let scratch = try Scratch()
        let log = Log()
        let registry = try startRegistry(
            scratch, devices: 3, { _, options in options.maximumPages = 48 }, observe: { log.append($0) })
        let worker = try TestWorker(registry)
        let device = try worker.find(1)
        let epoch = registry.identity.epoch
        let client = try #require(worker.client)
        // Batches of several hundred, so that the journal fills the file before it is folded.
        var counter: UInt32 = 0
        var outcomes: [UInt32: CounterOutcome] = [:]
        while !outcomes.values.contains(.storeUnavailable), counter < 100_000 {
            var asked = 0
            for _ in 0..<500 {
                counter += 1
                let acceptance = client.spend(
                    counter, of: device, showing: [], mode: .strict, epoch: epoch, token: UInt64(counter))
                if acceptance == .pending { asked += 1 }
            }
            var answered = 0
            worker.run(until: { answered == asked }) { event in
                if case .counter(let token, let outcome) = event {
                    outcomes[UInt32(token)] = outcome
                    answered += 1
                }
            }
        }
        #expect(outcomes.values.contains(.committed))
        #expect(outcomes.values.allSatisfy { $0 == .committed || $0 == .storeUnavailable })
        #expect(registry.metrics.storeErrors >= 1)
        guard case .failed(let reason) = log.all.first else {
            Issue.record("not reported")
            return
        }
        #expect(reason.contains("full"))
        registry.stop()

        let store = try RegistryStore(path: scratch.file(), creating: false)
        for (counter, outcome) in outcomes where outcome == .committed {
            #expect(store.commit(1, counter, mode: .unspent) != .committed)
        }
    }

    @Test("the registry recovers by itself with every used value still used")
    func recovers() throws {
        let scratch = try Scratch()
        let log = Log()
        try RegistryStore(path: scratch.file(), creating: true).populate(2)
        // A row that no version writes: reading it is the failure.
        let queue = try DatabaseQueue(path: scratch.file())
        try queue.inDatabase { try $0.execute(sql: "UPDATE device SET platform = 'toaster' WHERE id = 2") }
        try queue.close()
        let registry = try DeviceRegistry.start(path: scratch.file(), creating: false) { log.append($0) }
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let device = try worker.find(1)
        let epoch = registry.identity.epoch
        #expect(try worker.spend(1, of: device, epoch: epoch) == .committed)

        // It may recover before the next value is spent; then it is made to fail again.
        var value: UInt32 = 2
        repeat {
            guard case .storeUnavailable = try worker.look(Fixture.bindingKey(2)) else {
                Issue.record("a toaster was read")
                return
            }
            #expect(log.all.first == .failed("a row of table device cannot be read"))
            let outcome = try worker.spend(value, of: device, epoch: epoch)
            if outcome == .storeUnavailable { break }
            #expect(outcome == .committed)
            value += 1
        } while value < 10
        #expect(value < 10)
        // What memory knows is good for five seconds more.
        guard case .found = try worker.look(Fixture.bindingKey(1)) else {
            Issue.record("forgotten")
            return
        }

        let deadline = Instant.now + .seconds(30)
        while log.all.last != .recovered, Instant.now < deadline { usleep(10_000) }
        #expect(log.all.last == .recovered)
        #expect(try worker.spend(value - 1, of: device, epoch: epoch) == .replayed)
        // Refused before it was spent.
        #expect(try worker.spend(value, of: try worker.find(1), epoch: epoch) == .committed)
        #expect(registry.metrics.storeErrors == log.all.count { $0 != .recovered })
    }
}
