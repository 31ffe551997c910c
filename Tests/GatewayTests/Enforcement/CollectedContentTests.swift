import Bytes
import Registry
import Testing

@testable import Gateway

@Suite("Held content")
struct CollectedContentTests {
    private let pool = BufferPool(blockSize: 1024)
    private let device: DeviceID

    init() throws {
        device = try #require(DeviceID(1))
    }

    @Test("content comes out unchanged, and forwarded content is no longer held")
    func comesOut() {
        let content = (0..<5000).map { UInt8(truncatingIfNeeded: $0) }
        for piece in [1, 999, 5000] {
            let budget = ContentBudget(limit: 5000, share: 5000)
            var collected = CollectedContent(from: device, pool: pool, budget: budget)
            for start in stride(from: 0, to: content.count, by: piece) {
                let part = Array(content[start..<min(start + piece, content.count)])
                let isTaken = collected.append(part.span)
                #expect(isTaken)
            }
            let sink = TestSink(.length(5000))
            var isComplete = false
            while !isComplete {
                isComplete = collected.release(into: sink)
                sink.drain()
            }
            #expect(sink.bytes == content)
            let isFree = budget.take(5000, for: device)
            #expect(isFree)
        }
    }

    @Test("a worker holds no more than its budget, and content returns its part")
    func budget() {
        let budget = ContentBudget(limit: 10, share: 10)
        do {
            var first = CollectedContent(from: device, pool: pool, budget: budget)
            let six = [UInt8](repeating: 0, count: 6)
            let isTaken = first.append(six.span)
            #expect(isTaken)
            var second = CollectedContent(from: device, pool: pool, budget: budget)
            let isRefused = !second.append(six.span)
            #expect(isRefused && second.count == 0)
        }
        let isFree = budget.take(10, for: device)
        #expect(isFree)
        #expect(pool.outstanding == 0)
    }
}
