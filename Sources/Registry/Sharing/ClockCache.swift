/// A bounded dictionary that evicts by the clock algorithm. An entry that was used since the hand last passed is
/// skipped once, and a pinned entry is never evicted.
///
/// Entries stay at their index in an array, so that a caller can return to one without hashing its key.
public struct ClockCache<Key: Hashable, Entry> {
    @usableFromInline
    struct Slot {
        @usableFromInline var key: Key
        @usableFromInline var entry: Entry
        @usableFromInline var wasUsed: Bool

        @inlinable
        init(key: Key, entry: Entry, wasUsed: Bool) {
            self.key = key
            self.entry = entry
            self.wasUsed = wasUsed
        }
    }

    @usableFromInline var slots: [Slot] = []
    @usableFromInline var index: [Key: Int] = [:]
    @usableFromInline var hand = 0
    @usableFromInline let limit: Int

    /// Creates an empty cache.
    ///
    /// - Parameter limit: The maximum number of entries, at least one.
    @inlinable
    public init(limit: Int) {
        self.limit = max(1, limit)
    }

    @inlinable public var count: Int { slots.count }
    @inlinable public var entries: [(key: Key, entry: Entry)] { slots.map { ($0.key, $0.entry) } }

    /// Returns the index of an entry.
    ///
    /// - Parameter hint: The index at the last look-up.
    @inlinable
    public func slot(of key: Key, hint: Int = -1) -> Int? {
        if slots.indices.contains(hint), slots[hint].key == key { return hint }
        return index[key]
    }

    /// Returns an entry and marks it as used.
    @inlinable
    public mutating func use(_ key: Key) -> Entry? {
        guard let slot = index[key] else { return nil }
        slots[slot].wasUsed = true
        return slots[slot].entry
    }

    /// Changes an entry in place and marks it as used.
    ///
    /// - Returns: nil if there is no such entry.
    @discardableResult @inlinable
    public mutating func update<Result, Failure: Error>(
        _ key: Key, hint: Int = -1, _ body: (inout Entry) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        guard let slot = slot(of: key, hint: hint) else { return nil }
        slots[slot].wasUsed = true
        return try body(&slots[slot].entry)
    }

    /// Inserts or replaces an entry. A new entry takes a free place, or that of an entry that was not used lately.
    ///
    /// - Parameters:
    ///   - mayGrow: Whether to exceed the limit if all entries are pinned.
    ///   - isPinned: Returns whether an entry must stay.
    /// - Returns: The index of the entry. Nil if there was no room.
    @discardableResult @inlinable
    public mutating func insert(
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

    @discardableResult @inlinable
    public mutating func remove(_ key: Key) -> Entry? {
        guard let slot = index.removeValue(forKey: key) else { return nil }
        let entry = slots[slot].entry
        // The last entry fills the gap, so its old index becomes invalid.
        let last = slots.removeLast()
        if slot < slots.count {
            slots[slot] = last
            index[last.key] = slot
        }
        return entry
    }

    @inlinable
    public mutating func removeAll(where isGone: (Entry) -> Bool) {
        for slot in slots where isGone(slot.entry) { remove(slot.key) }
    }

    /// Returns the index of the entry to evict. The first round may only clear marks of use, so there are two.
    @inlinable
    public mutating func victim(_ isPinned: (Entry) -> Bool) -> Int? {
        for _ in 0..<(2 * slots.count) {
            let slot = hand % slots.count
            hand = slot + 1
            if isPinned(slots[slot].entry) { continue }
            if slots[slot].wasUsed { slots[slot].wasUsed = false } else { return slot }
        }
        return nil
    }
}
