package import EventLoop
internal import Synchronization
package import Telemetry

/// The spans of one worker and generation. They are collected until they fill a block or have waited long enough.
///
/// The size is limited. Spans above the limit are dropped and counted, and no request waits.
package final class SpanQueue {
    package struct Limits: Equatable, Sendable {
        /// Limit in bytes of the worker's waiting spans, including those with the exporter.
        package var bytes: Int
        /// Limit of recorded requests per second.
        package var requestsPerSecond: Int
        /// The time for which spans are collected.
        package var interval: TimeSpan

        package init(bytes: Int, requestsPerSecond: Int, interval: TimeSpan) {
            self.bytes = bytes
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

    /// Size in bytes at which a block is handed over.
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

    /// Records the spans of one request.
    ///
    /// - Parameters:
    ///   - now: Seconds of any clock.
    ///   - write: Writes the spans.
    package func record(at now: Int64, _ write: (inout SpanText) -> Void) {
        guard isWithinRate(now) else { return exporter.counts.add(1, .rateLimited) }
        write(&text)
        let spans = text.count
        // All external text has a limited length, so no span is cut. Half a span would make the others unreadable.
        guard !text.isTorn, budget.take(text.byteCount, limit: limits.bytes) else {
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

    /// Hands the collected spans over. It must also be called before the queue is released.
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

/// The number of bytes of one worker's waiting spans, of all its generations. The worker adds to it, and the exporter
/// subtracts.
package final class SpanBudget: Sendable {
    private let waiting = Atomic<Int>(0)

    package init() {}

    package var bytes: Int { waiting.load(ordering: .relaxed) }

    /// Reserves bytes.
    ///
    /// - Returns: false if the sum would be above `limit`. Nothing is then reserved.
    func take(_ bytes: Int, limit: Int) -> Bool {
        // Only one worker adds, so the value can only decrease meanwhile.
        guard self.bytes + bytes <= limit else { return false }
        waiting.add(bytes, ordering: .relaxed)
        return true
    }

    func give(_ bytes: Int) { waiting.subtract(bytes, ordering: .relaxed) }
}

/// A batch of spans from one worker.
struct SpanBatch: Sendable {
    /// The spans, each after a comma.
    let text: [UInt8]
    let count: Int
    /// The budget of the bytes.
    let budget: SpanBudget
}
