/// Connections in the order in which they came, as long as their handshakes are under way: to find the one that is nearest to
/// its timeout.
///
/// Those that are done stay until they are in the way, so that being done costs nothing.
struct ArrivalQueue {
    struct Entry {
        /// Where the connection lies, and its number there, since a place is used again.
        let slot: Int
        let number: UInt64
    }

    private var entries: [Entry] = []
    private var first = 0
    private var sweepAt = 128

    /// Places taken, those included that are done.
    var count: Int { entries.count - first }

    /// - Parameter isUnderWay: whether that still is.
    mutating func append(_ entry: Entry, isUnderWay: (Entry) -> Bool) {
        entries.append(entry)
        guard entries.count >= sweepAt else { return }
        entries = entries[first...].filter(isUnderWay)
        first = 0
        // As many more can come as are left, so that sweeping costs each of them a step or two.
        sweepAt = max(128, 2 * entries.count)
    }

    /// Takes out the oldest that is under way.
    mutating func popFirst(isUnderWay: (Entry) -> Bool) -> Entry? {
        while first < entries.count {
            defer { first += 1 }
            if isUnderWay(entries[first]) { return entries[first] }
        }
        return nil
    }
}
