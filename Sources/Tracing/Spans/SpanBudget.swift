internal import Synchronization

/// How many octets of one worker's spans wait to be exported, of all its generations: taken by the worker, given back by the
/// exporter.
package final class SpanBudget: Sendable {
    private let waiting = Atomic<Int>(0)

    package init() {}

    package var octets: Int { waiting.load(ordering: .relaxed) }

    /// - Returns: false if there would be more than `limit`; nothing is taken then.
    func take(_ octets: Int, limit: Int) -> Bool {
        // One worker takes, so what it sees can only become less meanwhile.
        guard self.octets + octets <= limit else { return false }
        waiting.add(octets, ordering: .relaxed)
        return true
    }

    func give(_ octets: Int) { waiting.subtract(octets, ordering: .relaxed) }
}

/// Spans that go together, from one worker.
struct SpanBatch: Sendable {
    /// Each with a comma before it.
    let text: [UInt8]
    let count: Int
    /// That the octets belong to.
    let budget: SpanBudget
}
