/// How many requests each client has under way in a worker, altogether or at each upstream: nobody takes with many streams, none
/// of which it reads, what others need. A client is a certificate's key, which is one device's at most.
///
/// A fixed table, since it is asked for every request: clients whose places fall together share one.
struct ClientShares {
    /// A place in the table, taken once.
    struct Share {
        fileprivate let place: Int
    }

    private let limit: UInt16
    private var counts: [UInt16]

    /// 128 KiB.
    static let places = 65_536

    /// - Parameter limit: at most 65,535.
    init(limit: Int) {
        self.limit = UInt16(limit)
        counts = Array(repeating: 0, count: Self.places)
    }

    /// - Parameter key: the client's hash, by a function whose seed nobody outside knows.
    /// - Returns: nil if it has as many as it may.
    mutating func take(of upstream: Int, for key: Int) -> Share? {
        let share = Self.share(of: upstream, for: key)
        guard counts[share.place] < limit else { return nil }
        counts[share.place] += 1
        return share
    }

    mutating func give(_ share: Share) {
        counts[share.place] -= 1
    }

    /// Whether one more may be taken.
    func isFree(_ share: Share) -> Bool { counts[share.place] < limit }

    static func share(of upstream: Int, for key: Int) -> Share {
        // Upstreams are few: an odd factor moves each to places of its own.
        Share(place: Int(UInt(bitPattern: key &+ upstream &* 40_503) % UInt(places)))
    }
}
