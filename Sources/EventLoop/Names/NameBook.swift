/// The addresses of all servers that have a name, kept up to date without blocking.
///
/// Each name is looked up again when the lifetime of its answer is over, and repeatedly while lookups fail. Belongs to
/// the thread of its loop. Bounded: at most `lookupLimit` lookups are in flight; the others wait. Each server has at
/// most `NameRecord.addressLimit` addresses.
public final class NameBook {
    public enum Event: Equatable, Sendable {
        /// The first failed lookup after a success.
        ///
        /// - Parameter kept: the number of earlier addresses that stay in use.
        case failing(NamedServer, NameFault, kept: Int)
        /// The first success after failures.
        case recovered(NamedServer)
        /// An address of an answer that is not used.
        case refused(NamedServer, SocketAddress, reason: String)
    }

    /// The counters and the state of one server.
    public struct Counts: Sendable {
        /// The number of lookups that found addresses.
        public fileprivate(set) var resolved: UInt64 = 0
        /// The number of failed lookups, by the raw value of the fault.
        public fileprivate(set) var faults = [UInt64](repeating: 0, count: NameFault.allCases.count)
        /// The number of refused addresses in answers.
        public fileprivate(set) var refused: UInt64 = 0
        /// The number of known addresses.
        public fileprivate(set) var addresses = 0
        /// Whether the addresses may be out of date, because the last lookup failed.
        public fileprivate(set) var isFailing = false
    }

    private struct Entry {
        var record: NameRecord
        var lookup: NameLookup?
        var counts = Counts()
        /// The refused addresses of the last answer, which were reported.
        var refused: Set<SocketAddress> = []
    }

    private let loop: Loop
    private var settings: ResolverSettings
    private var forbidden: ForbiddenAddresses
    private var entries: [NamedServer: Entry] = [:]
    private var underWay = 0
    private var timer: LoopTimer?
    /// The callback that waits for the first lookup of each server.
    private var waiting: (completion: () -> Void, timer: LoopTimer)?
    /// Called with the servers whose addresses have changed.
    public var onChange: ([NamedServer]) -> Void = { _ in }
    /// Called with events for the operator.
    public var onEvent: (Event) -> Void = { _ in }

    public static let lookupLimit = 16

    public init(loop: Loop, settings: ResolverSettings, forbidden: ForbiddenAddresses) {
        self.loop = loop
        self.settings = settings
        self.forbidden = forbidden
        timer = LoopTimer(loop: loop, startsIn: nil) { [unowned self] in lookUpDue() }
    }

    /// The followed servers, in order.
    public var servers: [NamedServer] { entries.keys.sorted() }

    /// Returns the addresses in the order of the answer, both kinds in turn. Empty if the name is not resolved.
    public func addresses(of server: NamedServer) -> [SocketAddress] { entries[server]?.record.addresses ?? [] }

    public func counts(of server: NamedServer) -> Counts { entries[server]?.counts ?? Counts() }

    /// The servers without an address.
    public var unresolved: [(server: NamedServer, fault: NameFault)] {
        entries.filter { $0.value.record.addresses.isEmpty }
            .map { ($0.key, $0.value.record.fault ?? .timeout) }.sorted { $0.0 < $1.0 }
    }

    // MARK: - Followed servers

    /// Follows these servers and no others. Known addresses stay known.
    public func follow(_ servers: Set<NamedServer>) {
        for server in entries.keys where !servers.contains(server) { forget(server) }
        for server in servers where entries[server] == nil {
            entries[server] = Entry(record: NameRecord(dueAt: .now))
        }
        answerWaiting()
        schedule()
    }

    /// Applies new settings. Known addresses that are now forbidden are forgotten.
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

    /// Calls back when each server has been looked up once, with or without success.
    ///
    /// - Parameters:
    ///   - limit: the maximum wait.
    ///   - completion: called once, perhaps at once. Never called if a later call replaces it.
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

/// The addresses of one name, and the time of its next lookup. A value: the caller passes the result of each lookup and
/// the time.
///
/// The last known addresses stay while lookups fail, so an unavailable nameserver does not make services unavailable
/// (RFC 8767 does the same). A request to the address shows whether the service still runs there.
struct NameRecord {
    enum Change: Equatable {
        /// The same addresses.
        case nothing
        /// Other addresses.
        case changed
    }

    /// At most `addressLimit` addresses, both kinds in turn.
    private(set) var addresses: [SocketAddress] = []
    /// The time of the next lookup.
    private(set) var nextLookup: Instant
    /// Whether a lookup has ended, with or without success.
    private(set) var isAnswered = false
    /// The reason why the last lookup failed. Nil if it succeeded, or if there was none.
    private(set) var fault: NameFault?
    private var ipv4: [SocketAddress] = []
    private var ipv6: [SocketAddress] = []
    /// The number of consecutive failures.
    private var failures = 0

    private static let addressLimit = 16
    private static let longestPause: Int64 = 60

    init(dueAt instant: Instant) {
        nextLookup = instant
    }

    /// Applies an answer.
    ///
    /// - Returns: whether the addresses changed. Another order of the same addresses is no change.
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

    /// Removes addresses that are now forbidden.
    mutating func remove(where isRefused: (SocketAddress) -> Bool) -> Change {
        ipv4.removeAll(where: isRefused)
        ipv6.removeAll(where: isRefused)
        return arrange()
    }

    /// Returns the shorter lifetime of both kinds, or nil without an address.
    private static func ttl(of answer: NameAnswer) -> TimeSpan? {
        [answer.ipv4, answer.ipv6].compactMap { part in
            if case .addresses(_, let ttl) = part { ttl } else { nil }
        }.min()
    }

    /// Returns the fault of an answer without addresses. A failure takes precedence over the absence of addresses.
    private static func fault(of answer: NameAnswer) -> NameFault {
        for case .failed(let fault) in [answer.ipv4, answer.ipv6] { return fault }
        return .nonexistent
    }

    /// Applies one part of an answer. A failed part leaves the known addresses unchanged.
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

/// A server whose name is resolved, with its port.
public struct NamedServer: Hashable, Comparable, Sendable {
    /// The name in lower case.
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
