/// The addresses of all servers that are known by a name, kept up to date without blocking: looks each up, again when the
/// answer's time is over, and again and again while that fails.
///
/// Belongs to the thread of its loop, any loop. Bounded: `lookupLimit` lookups are under way at once, the others wait for their
/// turn; each has `NameRecord.addressLimit` addresses at most.
public final class NameBook {
    public enum Event: Equatable, Sendable {
        /// Lookups begin to fail.
        ///
        /// - Parameter kept: how many earlier addresses stay in use.
        case failing(NamedServer, NameFault, kept: Int)
        /// They succeed again.
        case recovered(NamedServer)
        /// An address of an answer is not used.
        case refused(NamedServer, SocketAddress, reason: String)
    }

    /// What was counted of one server, and what is known of it.
    public struct Counts: Sendable {
        /// Lookups that found addresses.
        public fileprivate(set) var resolved: UInt64 = 0
        /// Those that did not, by the raw value of the fault.
        public fileprivate(set) var faults = [UInt64](repeating: 0, count: NameFault.allCases.count)
        /// Addresses of answers that were not used.
        public fileprivate(set) var refused: UInt64 = 0
        /// Known now.
        public fileprivate(set) var addresses = 0
        /// Whether they may be out of date, because the last lookup failed.
        public fileprivate(set) var isFailing = false
    }

    private struct Entry {
        var record: NameRecord
        var lookup: NameLookup?
        var counts = Counts()
        /// Refused in the last answer, and reported.
        var refused: Set<SocketAddress> = []
    }

    private let loop: Loop
    private var settings: ResolverSettings
    private var forbidden: ForbiddenAddresses
    private var entries: [NamedServer: Entry] = [:]
    private var underWay = 0
    private var timer: LoopTimer?
    /// Who waits until each server has been looked up once.
    private var waiting: (completion: () -> Void, timer: LoopTimer)?
    /// Called with the servers whose addresses have changed.
    public var onChange: ([NamedServer]) -> Void = { _ in }
    /// Called with events that an operator should know.
    public var onEvent: (Event) -> Void = { _ in }

    public static let lookupLimit = 16

    public init(loop: Loop, settings: ResolverSettings, forbidden: ForbiddenAddresses) {
        self.loop = loop
        self.settings = settings
        self.forbidden = forbidden
        timer = LoopTimer(loop: loop, startsIn: nil) { [unowned self] in lookUpDue() }
    }

    /// Those that it was asked to follow, in order.
    public var servers: [NamedServer] { entries.keys.sorted() }

    /// In the order of the answer, both kinds in turn; none if the name has not been resolved.
    public func addresses(of server: NamedServer) -> [SocketAddress] { entries[server]?.record.addresses ?? [] }

    public func counts(of server: NamedServer) -> Counts { entries[server]?.counts ?? Counts() }

    /// The servers that have no address.
    public var unresolved: [(server: NamedServer, fault: NameFault)] {
        entries.filter { $0.value.record.addresses.isEmpty }
            .map { ($0.key, $0.value.record.fault ?? .timeout) }.sorted { $0.0 < $1.0 }
    }

    // MARK: - What is followed

    /// Keeps the addresses of these servers from now on, and of no others. What is known already stays known.
    public func follow(_ servers: Set<NamedServer>) {
        for server in entries.keys where !servers.contains(server) { forget(server) }
        for server in servers where entries[server] == nil {
            entries[server] = Entry(record: NameRecord(dueAt: .now))
        }
        answerWaiting()
        schedule()
    }

    /// Looks up and judges by other rules from now on. Known addresses that must not be used by these are forgotten.
    public func configure(_ settings: ResolverSettings, _ forbidden: ForbiddenAddresses) {
        self.settings = settings
        self.forbidden = forbidden
        var changed: [NamedServer] = []
        for server in servers {
            var entry = entries[server] ?? Entry(record: NameRecord(dueAt: .now))
            let news = entry.record.remove { forbidden.objection(to: $0) != nil }
            entry.counts.addresses = entry.record.addresses.count
            entries[server] = entry
            if news == .changed { changed.append(server) }
        }
        if !changed.isEmpty { onChange(changed) }
    }

    /// Waits until each server has been looked up once, well or not.
    ///
    /// - Parameters:
    ///   - limit: for how long at most.
    ///   - completion: called once, perhaps at once; never if somebody else waits since.
    public func whenAnswered(within limit: TimeSpan, _ completion: @escaping () -> Void) {
        waiting = nil
        guard entries.values.contains(where: { !$0.record.isAnswered }) else { return completion() }
        let timer = LoopTimer(loop: loop, interval: limit) { [unowned self] in stopWaiting() }
        waiting = (completion, timer)
    }

    private func answerWaiting() {
        if !entries.values.contains(where: { !$0.record.isAnswered }) { stopWaiting() }
    }

    private func stopWaiting() {
        guard let (completion, _) = waiting else { return }
        waiting = nil
        completion()
    }

    private func forget(_ server: NamedServer) {
        if entries.removeValue(forKey: server)?.lookup != nil { underWay -= 1 }
    }

    // MARK: - Lookups

    private func schedule() {
        guard underWay < Self.lookupLimit else { return }
        let next = entries.values.lazy.filter { $0.lookup == nil }.map(\.record.nextLookup).min()
        guard let next else { return }
        timer?.start(after: max(next - .now, TimeSpan(nanoseconds: 0)))
    }

    private func lookUpDue() {
        let now = Instant.now
        let due = entries.filter { $0.value.lookup == nil && $0.value.record.nextLookup <= now }
            .sorted { $0.value.record.nextLookup < $1.value.record.nextLookup }
        for (server, _) in due.prefix(Self.lookupLimit - underWay) {
            underWay += 1
            entries[server]?.lookup = NameLookup(
                loop: loop, name: server.host, port: server.port, settings: settings
            ) { [unowned self] in answered(server, $0) }
        }
        schedule()
    }

    private func answered(_ server: NamedServer, _ received: NameAnswer) {
        guard var entry = entries[server], entry.lookup != nil else { return }
        underWay -= 1
        entry.lookup = nil
        var refused: [SocketAddress: String] = [:]
        let answer = received.without { address in
            let reason = forbidden.objection(to: address)
            if let reason { refused[address] = reason }
            return reason != nil
        }
        let wasFailing = entry.record.fault != nil
        let news = entry.record.take(answer, at: .now, settings)
        if let fault = entry.record.fault {
            entry.counts.faults[fault.rawValue] += 1
        } else {
            entry.counts.resolved += 1
        }
        entry.counts.refused += UInt64(refused.count)
        entry.counts.addresses = entry.record.addresses.count
        entry.counts.isFailing = entry.record.fault != nil
        let newlyRefused = Set(refused.keys).subtracting(entry.refused)
        entry.refused = Set(refused.keys)
        entries[server] = entry
        tell(server, entry.record, wasFailing: wasFailing, refused: refused.filter { newlyRefused.contains($0.key) })
        if news == .changed { onChange([server]) }
        answerWaiting()
        schedule()
    }

    private func tell(
        _ server: NamedServer, _ record: NameRecord, wasFailing: Bool, refused: [SocketAddress: String]
    ) {
        for (address, reason) in refused { onEvent(.refused(server, address, reason: reason)) }
        switch record.fault {
        case let fault? where !wasFailing: onEvent(.failing(server, fault, kept: record.addresses.count))
        case nil where wasFailing: onEvent(.recovered(server))
        case _: break
        }
    }
}

extension NameAnswer {
    /// The answer without some of its addresses. One of which nothing is left is a failure: what was known before is better.
    func without(_ isRefused: (SocketAddress) -> Bool) -> NameAnswer {
        func rest(of part: Part) -> Part {
            guard case .addresses(let addresses, let ttl) = part else { return part }
            let rest = addresses.filter { !isRefused($0) }
            return rest.isEmpty ? .failed(.forbidden) : .addresses(rest, ttl: ttl)
        }
        return NameAnswer(ipv4: rest(of: ipv4), ipv6: rest(of: ipv6))
    }
}

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

/// A server whose address is to be found out: a name, and a port.
public struct NamedServer: Hashable, Comparable, Sendable {
    /// In lower case.
    public let host: String
    public let port: UInt16

    public init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    public static func < (left: NamedServer, right: NamedServer) -> Bool {
        (left.host, left.port) < (right.host, right.port)
    }
}

extension NamedServer: CustomStringConvertible {
    public var description: String { "\(host):\(port)" }
}
