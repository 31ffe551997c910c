import Chance
import EventLoop
import Testing

@testable import Upstream

@Suite("The queue for a connection")
struct WaitingQueueTests {
    private func at(_ time: Int64) -> Instant { Instant(nanoseconds: time) }

    @Test("requests leave the queue in order of arrival")
    func order() {
        let queue = WaitingQueue<Int>(limit: 3)
        for number in 1...3 { _ = queue.append(number, until: at(Int64(number))) }
        #expect(queue.isFull)
        #expect(queue.firstDeadline() == at(1))
        #expect(
            [
                queue.popFirst(), queue.popFirst(), queue.popFirst(),
                queue.popFirst(),
            ] == [1, 2, 3, nil])
        #expect(queue.isEmpty && queue.firstDeadline() == nil)
    }

    @Test("looking at an entry keeps its place, and removed entries are not seen")
    func looking() {
        let queue = WaitingQueue<Int>(limit: 3)
        let tickets = (1...3).map { queue.append($0, until: at(Int64($0))) }
        #expect([queue.first, queue.first] == [1, 1])
        #expect(queue.count == 3)
        queue.remove(tickets[0])
        queue.remove(tickets[1])
        #expect(queue.first == 3)
        queue.remove(tickets[2])
        #expect(queue.first == nil)
    }

    @Test("a removed entry frees its place, wherever it stands")
    func leaving() {
        let queue = WaitingQueue<Int>(limit: 3)
        let tickets = (1...3).map { queue.append($0, until: at(Int64($0))) }
        queue.remove(tickets[1])
        queue.remove(tickets[1])
        #expect(queue.count == 2)
        _ = queue.append(4, until: at(4))
        queue.remove(tickets[0])
        #expect(queue.firstDeadline() == at(3))
        #expect(
            [queue.popFirst(), queue.popFirst(), queue.popFirst()] == [3, 4, nil])
        queue.remove(tickets[2])
        #expect(queue.isEmpty)
    }

    @Test("the queue behaves as a list under random operations, within its limit")
    func model() {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        let queue = WaitingQueue<UInt64>(limit: 8)
        var model: [(ticket: UInt64, value: UInt64)] = []
        for step in 0..<20_000 as Range<UInt64> {
            switch Int.random(in: 0..<4, using: &generator) {
            case 0 where model.count < 8, 1 where model.count < 8:
                model.append((queue.append(step, until: at(Int64(step))), step))
            case 2 where !model.isEmpty:
                let place = model.indices.randomElement(using: &generator) ?? 0
                queue.remove(model.remove(at: place).ticket)
            case 3:
                #expect(
                    queue.popFirst() == (model.isEmpty ? nil : model.removeFirst().value), "seed \(seed)")
            default: break
            }
            #expect(queue.count == model.count, "seed \(seed)")
            #expect(queue.firstDeadline() == model.first.map { at(Int64($0.value)) }, "seed \(seed)")
            #expect(queue.isFull == (model.count == 8))
        }
    }
}
