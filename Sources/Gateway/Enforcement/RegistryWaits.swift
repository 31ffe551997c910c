internal import EventLoop

/// Who waits for an answer of the registry, by the token the answer will come back with.
///
/// A token is never given twice, so an answer that comes after its waiter has left meets nobody.
struct RegistryWaits<Waiter: AnyObject> {
    private struct Place {
        var waiter: Waiter?
        var generation: UInt32 = 0
        var since = Instant(nanoseconds: 0)
    }

    private var places: [Place] = []
    private var free: [UInt32] = []

    var count: Int { places.count - free.count }

    mutating func enter(_ waiter: Waiter, at now: Instant) -> UInt64 {
        let index = free.popLast() ?? UInt32(places.count)
        if index == places.count { places.append(Place()) }
        places[Int(index)].waiter = waiter
        places[Int(index)].since = now
        return UInt64(places[Int(index)].generation) << 32 | UInt64(index)
    }

    /// - Returns: who waited; nil if that one has left.
    mutating func leave(_ token: UInt64) -> Waiter? {
        let index = Int(token & 0xffff_ffff)
        guard index < places.count, places[index].generation == UInt32(token >> 32), let waiter = places[index].waiter
        else { return nil }
        places[index].waiter = nil
        places[index].generation &+= 1
        free.append(UInt32(index))
        return waiter
    }

    /// Those that have waited for too long; they stay until they leave.
    func overdue(at now: Instant, after patience: TimeSpan) -> [Waiter] {
        places.compactMap { $0.waiter != nil && now - $0.since >= patience ? $0.waiter : nil }
    }
}
