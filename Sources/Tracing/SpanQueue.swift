package import EventLoop
internal import Synchronization

/// One worker's spans of one generation, collected until they are enough to wake the exporter for, or have waited long enough.
///
/// Bounded: what does not fit is dropped and counted, and no request waits.
package final class SpanQueue {
    package struct Limits: Equatable, Sendable {
        /// Octets of the worker's spans that may wait, those the exporter has not got rid of included.
        package var octets: Int
        /// Requests recorded in a second at most.
        package var requestsPerSecond: Int
        /// For how long spans are collected.
        package var interval: TimeSpan

        package init(octets: Int, requestsPerSecond: Int, interval: TimeSpan) {
            self.octets = octets
            self.requestsPerSecond = requestsPerSecond
            self.interval = interval
        }
    }

    private let exporter: SpanExporter
    private let budget: SpanBudget
    private let limits: Limits
    private var text = SpanText()
    private var block: [UInt8] = []
    private var count = 0
    private var second: Int64 = 0
    private var recorded = 0
    private var timer: LoopTimer?
    private var isTimerRunning = false

    /// Octets that are handed over at once.
    static let blockSize = 64 * 1024

    package init(loop: Loop, exporter: SpanExporter, budget: SpanBudget, limits: Limits) {
        self.exporter = exporter
        self.budget = budget
        self.limits = limits
        timer = LoopTimer(loop: loop, startsIn: nil) { [unowned self] in
            isTimerRunning = false
            handOver()
        }
    }

    /// - Parameters:
    ///   - now: seconds of any clock.
    ///   - write: writes the spans of one request.
    package func record(at now: Int64, _ write: (inout SpanText) -> Void) {
        guard isWithinRate(now) else { return exporter.counts.add(1, .rateLimited) }
        write(&text)
        let spans = text.count
        // All text from outside is bounded, so nothing is torn; half a span would spoil the others.
        guard !text.isTorn, budget.take(text.octets, limit: limits.octets) else {
            text.clear()
            return exporter.counts.add(spans, .queueFull)
        }
        text.move(to: &block)
        count += spans
        if block.count >= Self.blockSize { return handOver() }
        guard !isTimerRunning else { return }
        isTimerRunning = true
        timer?.start(after: limits.interval)
    }

    /// To be called before it is let go of, too.
    package func handOver() {
        guard count > 0 else { return }
        let batch = SpanBatch(text: block, count: count, budget: budget)
        block = []
        count = 0
        if !exporter.post(batch) {
            budget.give(batch.text.count)
            exporter.counts.add(batch.count, .queueFull)
        }
    }

    private func isWithinRate(_ now: Int64) -> Bool {
        if now != second {
            second = now
            recorded = 0
        }
        recorded += 1
        return recorded <= limits.requestsPerSecond
    }
}

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
