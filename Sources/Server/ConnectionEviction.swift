internal import EventLoop

/// Which stranger's connection ends for a new one, where there is no room for both.
struct ConnectionEviction {
    private struct AddressGroup {
        var count = 0
        var oldest: Candidate
    }

    struct Candidate {
        let block: AddressBlock
        /// Counts the connections of the acceptor.
        let number: UInt64
    }

    private var groups: [AddressBlock: AddressGroup] = [:]

    mutating func add(_ stranger: Candidate) {
        var group = groups[stranger.block] ?? AddressGroup(oldest: stranger)
        group.count += 1
        if stranger.number < group.oldest.number { group.oldest = stranger }
        groups[stranger.block] = group
    }

    /// The oldest stranger of the address with the most strangers: a crowd from elsewhere does not displace a client
    /// that is about to authenticate. A /64 is one crowd, because the holder of one of its addresses has all. Among
    /// crowds of one size, the crowd with the oldest stranger: each newcomer then has as much time as the others had.
    ///
    /// - Returns: its number; nil if there is no stranger.
    var number: UInt64? {
        groups.values.max { ($0.count, $1.oldest.number) < ($1.count, $0.oldest.number) }?.oldest.number
    }
}
