internal import EventLoop

/// Who waits, the first first: bounded, and each for the same time, so that the first is also the first whose time is over.
///
/// Who leaves from the middle makes room at once; what it leaves behind is swept up when there is as much of it as may wait.
///
/// A class, though it has one owner: every request asks whether somebody waits, and as a struct in a property each of these looks
/// would be checked for exclusivity.
final class WaitingQueue<Element> {
    private struct Entry {
        let ticket: UInt64
        let deadline: Instant
        var element: Element?
    }

    private let limit: Int
    private var entries: [Entry] = []
    /// Entries before this one are gone.
    private var start = 0
    private var nextTicket: UInt64 = 1
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    var isFull: Bool { count >= limit }

    init(limit: Int) {
        self.limit = limit
    }

    /// - Parameter deadline: who has one before that of somebody who came earlier is kept until then.
    /// - Returns: the ticket to leave with; never given twice.
    func append(_ element: Element, until deadline: Instant) -> UInt64 {
        precondition(!isFull, "one more waits than may")
        if entries.count >= 2 * limit + 16 { sweep() }
        defer { nextTicket += 1 }
        entries.append(Entry(ticket: nextTicket, deadline: deadline, element: element))
        count += 1
        return nextTicket
    }

    /// When the first one's time is over.
    func firstDeadline() -> Instant? {
        skipGaps()
        return start < entries.count ? entries[start].deadline : nil
    }

    /// Who has waited longest.
    var first: Element? {
        skipGaps()
        return start < entries.count ? entries[start].element : nil
    }

    func popFirst() -> Element? {
        skipGaps()
        guard start < entries.count else { return nil }
        defer {
            entries[start].element = nil
            count -= 1
            start += 1
        }
        return entries[start].element
    }

    /// Nothing happens if it does not wait any more.
    func remove(_ ticket: UInt64) {
        var (low, high) = (start, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].ticket < ticket { low = middle + 1 } else { high = middle }
        }
        guard low < entries.count, entries[low].ticket == ticket, entries[low].element != nil else { return }
        entries[low].element = nil
        count -= 1
        skipGaps()
    }

    private func skipGaps() {
        while start < entries.count, entries[start].element == nil { start += 1 }
        guard start == entries.count else { return }
        entries.removeAll(keepingCapacity: true)
        start = 0
    }

    private func sweep() {
        entries.removeAll { $0.element == nil }
        start = 0
    }
}
