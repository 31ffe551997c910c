/// A bounded dictionary that makes room by the clock algorithm: an entry used since the hand came by gets a second chance,
/// a pinned one is never given up.
///
/// Entries lie in one array and keep their place for as long as they stay, so that a caller can come back to one without
/// hashing its key.
struct ClockCache<Key: Hashable, Entry> {
    private struct Slot {
        var key: Key
        var entry: Entry
        var wasUsed: Bool
    }

    private var slots: [Slot] = []
    private var index: [Key: Int] = [:]
    private var hand = 0
    private let limit: Int

    /// - Parameter limit: how many entries are kept, at least one.
    init(limit: Int) {
        self.limit = max(1, limit)
    }

    var count: Int { slots.count }
    var entries: [(key: Key, entry: Entry)] { slots.map { ($0.key, $0.entry) } }

    /// Where the entry lies. - Parameter hint: where it lay when it was last looked at.
    func slot(of key: Key, hint: Int = -1) -> Int? {
        if slots.indices.contains(hint), slots[hint].key == key { return hint }
        return index[key]
    }

    /// The entry, counted as used.
    mutating func use(_ key: Key) -> Entry? {
        guard let slot = index[key] else { return nil }
        slots[slot].wasUsed = true
        return slots[slot].entry
    }

    /// Changes the entry in place, counted as used. - Returns: nil if there is none.
    @discardableResult
    mutating func update<Result, Failure: Error>(
        _ key: Key, hint: Int = -1, _ body: (inout Entry) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        guard let slot = slot(of: key, hint: hint) else { return nil }
        slots[slot].wasUsed = true
        return try body(&slots[slot].entry)
    }

    /// Puts an entry in the place of its predecessor, a free place, or that of an entry not used lately.
    ///
    /// - Parameters:
    ///   - mayGrow: whether to go over the limit when every entry is pinned.
    ///   - isPinned: entries that must stay.
    /// - Returns: where it lies; nil if there was no room.
    @discardableResult
    mutating func insert(
        _ key: Key, _ entry: Entry, mayGrow: Bool = false, isPinned: (Entry) -> Bool = { _ in false }
    ) -> Int? {
        if let slot = index[key] {
            slots[slot].entry = entry
            return slot
        }
        let new = Slot(key: key, entry: entry, wasUsed: false)
        if slots.count >= limit {
            if let slot = victim(isPinned) {
                index[slots[slot].key] = nil
                index[key] = slot
                slots[slot] = new
                return slot
            }
            guard mayGrow else { return nil }
        }
        slots.append(new)
        index[key] = slots.count - 1
        return slots.count - 1
    }

    @discardableResult
    mutating func remove(_ key: Key) -> Entry? {
        guard let slot = index.removeValue(forKey: key) else { return nil }
        let entry = slots[slot].entry
        // The last entry moves into the gap: its old place is no longer valid.
        let last = slots.removeLast()
        if slot < slots.count {
            slots[slot] = last
            index[last.key] = slot
        }
        return entry
    }

    mutating func removeAll(where isGone: (Entry) -> Bool) {
        for slot in slots where isGone(slot.entry) { remove(slot.key) }
    }

    /// Twice round: the first time may only take second chances away.
    private mutating func victim(_ isPinned: (Entry) -> Bool) -> Int? {
        for _ in 0..<(2 * slots.count) {
            let slot = hand % slots.count
            hand = slot + 1
            if isPinned(slots[slot].entry) { continue }
            if slots[slot].wasUsed { slots[slot].wasUsed = false } else { return slot }
        }
        return nil
    }
}
