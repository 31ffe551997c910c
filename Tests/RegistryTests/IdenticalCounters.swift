import Chance
import EventLoop
import Testing
import Vocabulary

@testable import Registry

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
