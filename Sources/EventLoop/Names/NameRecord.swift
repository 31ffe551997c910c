/// What is known of one name, and when it is looked up next. A value: the caller passes the result of each lookup, and
/// the time.
///
/// What was known last stays so while lookups fail: a nameserver that is down must not take the services down with it
/// (RFC 8767 does the same), and whether a service still runs at its address shows when it is asked.
struct NameRecord {
    enum Change: Equatable {
        /// As before.
        case nothing
        /// There are other addresses now.
        case changed
    }

    /// At most `addressLimit`, of both kinds in turn.
    private(set) var addresses: [SocketAddress] = []
    /// When it is due.
    private(set) var nextLookup: Instant
    /// Whether a lookup has ended, well or not.
    private(set) var isAnswered = false
    /// Why the last lookup failed; nil if it did not, or there was none.
    private(set) var fault: NameFault?
    private var ipv4: [SocketAddress] = []
    private var ipv6: [SocketAddress] = []
    /// Lookups, one after the other, that failed.
    private var failures = 0

    static let addressLimit = 16
    private static let longestPause: Int64 = 60

    init(dueAt instant: Instant) {
        nextLookup = instant
    }

    /// - Returns: whether the addresses are others than before. Another order of the same is none.
    mutating func take(_ answer: NameAnswer, at now: Instant, _ settings: ResolverSettings) -> Change {
        isAnswered = true
        guard let ttl = Self.ttl(of: answer) else {
            failures += 1
            fault = Self.fault(of: answer)
            let pause = min(Self.longestPause, 1 << Int64(min(failures - 1, 10)))
            nextLookup = now + .seconds(pause)
            return .nothing
        }
        failures = 0
        fault = nil
        nextLookup = now + min(max(ttl, settings.minimumTTL), settings.maximumTTL)
        Self.update(&ipv4, answer.ipv4)
        Self.update(&ipv6, answer.ipv6)
        return arrange()
    }

    /// Forgets addresses that must not be used any more.
    mutating func remove(where isRefused: (SocketAddress) -> Bool) -> Change {
        ipv4.removeAll(where: isRefused)
        ipv6.removeAll(where: isRefused)
        return arrange()
    }

    /// The shorter one of both kinds; nil if there is no address.
    private static func ttl(of answer: NameAnswer) -> TimeSpan? {
        [answer.ipv4, answer.ipv6].compactMap { part in
            if case .addresses(_, let ttl) = part { ttl } else { nil }
        }.min()
    }

    /// What failed says more than what there is none of.
    private static func fault(of answer: NameAnswer) -> NameFault {
        for case .failed(let fault) in [answer.ipv4, answer.ipv6] { return fault }
        return .nonexistent
    }

    /// What could not be found out stays as it was.
    private static func update(_ known: inout [SocketAddress], _ part: NameAnswer.Part) {
        switch part {
        case .addresses(let addresses, _): known = addresses
        case .none: known = []
        case .failed: break
        }
    }

    private mutating func arrange() -> Change {
        var arranged: [SocketAddress] = []
        for place in 0..<max(ipv4.count, ipv6.count) {
            if place < ipv4.count, !arranged.contains(ipv4[place]) { arranged.append(ipv4[place]) }
            if place < ipv6.count, !arranged.contains(ipv6[place]) { arranged.append(ipv6[place]) }
            guard arranged.count < Self.addressLimit else { break }
        }
        arranged = Array(arranged.prefix(Self.addressLimit))
        guard Set(arranged) != Set(addresses) else { return .nothing }
        addresses = arranged
        return .changed
    }
}
