import Chance
import EventLoop
import RegistryMemory
import Synchronization
import Testing
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

/// One of several threads that spend the values of one device as they are drawn, in strict mode: a few at a time, so that
/// accepting and committing of different threads overlap.
final class RisingCounters {
    private let worker: TestWorker
    private let client: RegistryClient
    private let device: DeviceSnapshot
    private let epoch: RandomID
    private(set) var committed: Set<UInt32> = []
    /// Outcomes that an accepted value must not have.
    private(set) var others: [CounterOutcome] = []

    init(_ registry: DeviceRegistry) throws {
        worker = try TestWorker(registry)
        client = try #require(worker.client)
        epoch = registry.identity.epoch
        device = try worker.find(1)
    }

    func run(drawing next: borrowing Atomic<UInt32>, rounds: Int) {
        for _ in 0..<rounds {
            var asked = 0
            for _ in 0..<8 {
                let counter = next.add(1, ordering: .relaxed).newValue
                let acceptance = client.spend(
                    counter, of: device, showing: [], mode: .strict, epoch: epoch, token: UInt64(counter))
                if acceptance == .pending { asked += 1 }
            }
            var answered = 0
            let isAnswered = worker.run(until: { answered == asked }) { [self] event in
                guard case .counter(let token, let outcome) = event else { return }
                answered += 1
                if outcome == .committed { committed.insert(UInt32(token)) } else { others.append(outcome) }
            }
            #expect(isAnswered)
        }
    }
}

/// One of several threads that all spend the same value of the same device, each 250 times, while looking up others so
/// that records come and go.
final class IdenticalCounters {
    private let worker: TestWorker
    private let client: RegistryClient
    private let epoch: RandomID
    private var generator: SeededGenerator
    private(set) var committed = 0
    private(set) var refused = 0
    private var asked = 0

    private static let counter: UInt32 = 41
    private static let count = 250
    private static let target = 7

    init(_ registry: DeviceRegistry, seed: UInt64) throws {
        worker = try TestWorker(registry)
        client = try #require(worker.client)
        epoch = registry.identity.epoch
        generator = SeededGenerator(seed: seed)
    }

    func run() throws {
        ask()
        let isDone = worker.run(until: { [self] in committed + refused == Self.count }) { [self] event in
            switch event {
            case .device(0, let lookup): spend(lookup)
            case .device(1, _): ask()
            case .counter(_, let outcome): count(outcome)
            default: break
            }
        }
        #expect(isDone, "\(committed) + \(refused) of \(asked)")
    }

    /// The target, then another device, whose answer leads to the next.
    private func ask() {
        while asked < Self.count {
            asked += 1
            let target = client.device(forBinding: Fixture.bindingKey(Self.target), token: 0)
            if case .pending = target {} else { spend(target) }
            let other = Int.random(in: 1...200, using: &generator)
            if case .pending = client.device(forBinding: Fixture.bindingKey(other), token: 1) { return }
        }
    }

    private func spend(_ lookup: DeviceLookup) {
        guard case .found(let device) = lookup else {
            Issue.record("the target was not found")
            return count(.unknown)
        }
        let acceptance = client.spend(Self.counter, of: device, showing: [], mode: window(64), epoch: epoch, token: 2)
        if acceptance == .pending { return }
        #expect(acceptance == .replayed)
        count(.replayed)
    }

    private func count(_ outcome: CounterOutcome) {
        if outcome == .committed { committed += 1 } else { refused += 1 }
        #expect(outcome == .committed || outcome == .replayed)
    }
}
