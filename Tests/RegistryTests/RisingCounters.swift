import Synchronization
import Testing
import Vocabulary

@testable import Registry

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
