import EventLoop
import LoadGeneration
import Testing

@Suite("The queue of a constant-rate load")
struct OpenLoopQueueTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    /// One request each millisecond, over two callers.
    private func makeQueue() -> OpenLoopQueue {
        OpenLoopQueue(OpenLoopSchedule(start: start, rate: 1000, callers: 2))
    }

    private func at(_ milliseconds: Int64) -> Instant { start + .milliseconds(milliseconds) }

    @Test("each request is announced once, when it is due")
    func announces() {
        var queue = makeQueue()
        #expect(queue.nextDue == at(0))
        #expect(queue.announce(at(0)) == 0..<1)
        #expect(queue.announce(at(0)).isEmpty)
        #expect(queue.nextDue == at(1))
        #expect(queue.announce(at(2)) == 1..<3)
    }

    @Test("a free caller takes its request at the due time, not earlier")
    func takes() {
        var queue = makeQueue()
        #expect(queue.take(for: 0, at(0)) == at(0))
        #expect(queue.take(for: 1, at(0)) == nil)
        #expect(queue.take(for: 1, at(1)) == at(1))
        #expect(queue.take(for: 0, at(1)) == nil)
    }

    @Test("latency of a delayed request counts from its due time")
    func stall() {
        var queue = makeQueue()
        #expect(queue.take(for: 0, at(0)) == at(0))
        // Caller 0 is stuck for 10 ms; then its requests follow in order, each with its own due time.
        #expect(queue.take(for: 0, at(10)) == at(2))
        #expect(queue.take(for: 0, at(10)) == at(4))
    }

    @Test("a caller is woken once, however many requests are due")
    func boundedAnnouncement() {
        var queue = makeQueue()
        #expect(queue.announce(at(1000)) == 999..<1001)
        #expect(queue.nextDue == at(1001))
    }

    @Test("the backlog is what is due and not begun")
    func backlog() {
        var queue = makeQueue()
        _ = queue.take(for: 0, at(0))
        queue.noteBacklog(at(5))
        _ = queue.take(for: 1, at(5))
        _ = queue.take(for: 0, at(5))
        queue.noteBacklog(at(5))
        #expect(queue.backlog(at(5)).largest == 5)
        #expect(queue.backlog(at(5)).unsent == 3)
        queue.forgetBacklog()
        queue.noteBacklog(at(5))
        #expect(queue.backlog(at(5)).largest == 3)
        #expect(queue.backlog(at(5)).unsent == 3)
    }
}
