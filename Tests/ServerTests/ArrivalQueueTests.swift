import Testing

@testable import Server

@Suite("The arrival queue")
struct ArrivalQueueTests {
    @Test("the oldest unfinished entry comes first, and finished ones never come")
    func order() {
        var queue = ArrivalQueue()
        for number in 1...5 as ClosedRange<UInt64> {
            queue.append(ArrivalQueue.Entry(slot: 0, number: number)) { _ in true }
        }
        let done: Set<UInt64> = [1, 2, 4]
        var found: [UInt64] = []
        while let entry = queue.popFirst(isUnderWay: { !done.contains($0.number) }) { found.append(entry.number) }
        #expect(found == [3, 5])
    }

    @Test("a long handshake does not make the queue grow")
    func bounded() {
        var queue = ArrivalQueue()
        var most = 0
        for number in 1...100_000 as ClosedRange<UInt64> {
            queue.append(ArrivalQueue.Entry(slot: 0, number: number)) { $0.number == 1 || $0.number == number }
            most = max(most, queue.count)
        }
        #expect(most <= 128)
        #expect(queue.popFirst { $0.number == 1 }?.number == 1)
    }
}
