internal import EventLoop

/// Which stranger's connection ends for a new one, where there is no room for both.
struct GivingWay {
    private struct Crowd {
        var count = 0
        var oldest: Stranger
    }

    struct Stranger {
        let block: AddressBlock
        /// Counts the connections of the acceptor.
        let number: UInt64
    }

    private var crowds: [AddressBlock: Crowd] = [:]

    mutating func add(_ stranger: Stranger) {
        var crowd = crowds[stranger.block] ?? Crowd(oldest: stranger)
        crowd.count += 1
        if stranger.number < crowd.oldest.number { crowd.oldest = stranger }
        crowds[stranger.block] = crowd
    }

    /// The oldest of the address that has the most: a crowd that comes from elsewhere does not push out whoever is about to
    /// show who he is. A /64 is one crowd, as whoever has one address of it has all. Of crowds alike the one that has the
    /// oldest: whoever comes has as much time as the others had.
    ///
    /// - Returns: its number; nil if there is no stranger.
    var number: UInt64? {
        crowds.values.max { ($0.count, $1.oldest.number) < ($1.count, $0.oldest.number) }?.oldest.number
    }
}
