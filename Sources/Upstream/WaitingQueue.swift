internal import EventLoop

/// A bounded queue. Each element waits for the same time, so the first one is also the first to expire.
///
/// Removing an element from the middle makes room at once. Its place is swept up when there are as many such places as
/// elements may wait.
///
/// A class in spite of its single owner: every request checks the queue, and as a struct in a property each check would
/// be tested for exclusivity.
final class WaitingQueue<Element> {
    private struct Entry {
        let ticket: UInt64
        let deadline: Instant
        var element: Element?
    }

    private let limit: Int
    private var entries: [Entry] = []
    /// The index of the first entry that is not gone.
    private var start = 0
    private var nextTicket: UInt64 = 1
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    var isFull: Bool { count >= limit }

    init(limit: Int) {
        self.limit = limit
    }

    /// Appends an element.
    ///
    /// - Parameter deadline: the end of its wait. An element with an earlier deadline than its predecessor waits until
    ///   the predecessor's.
    /// - Returns: the ticket for its removal, which is unique.
    func append(_ element: Element, until deadline: Instant) -> UInt64 {
        precondition(!isFull, "one more waits than may")
        if entries.count >= 2 * limit + 16 { sweep() }
        defer { nextTicket += 1 }
        entries.append(Entry(ticket: nextTicket, deadline: deadline, element: element))
        count += 1
        return nextTicket
    }

    /// Returns the deadline of the first element.
    func firstDeadline() -> Instant? {
        skipGaps()
        return start < entries.count ? entries[start].deadline : nil
    }

    /// The element that has waited longest.
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

    /// Removes an element. Has no effect if it no longer waits.
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
