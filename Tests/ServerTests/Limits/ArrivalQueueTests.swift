import Testing

@testable import Server

@Suite("Connections in the order they came")
struct ArrivalQueueTests {
    @Test("the oldest that is under way comes first, and those that are done never")
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

    @Test("a handshake that lasts keeps no place for the thousands that came and went behind it")
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
