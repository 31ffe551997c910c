internal import CLibevent
internal import Glibc

/// A lookup of one name, for its IPv4 and IPv6 addresses at once. Its owner keeps it; releasing it cancels it.
///
/// Each lookup has its own `evdns_base`, which is cheap and has three effects. Each lookup has its own port, against
/// forged answers (RFC 5452 section 9.2). The current /etc/resolv.conf applies. And evdns never probes silent
/// nameservers, which it does with a query for a foreign name.
public final class NameLookup {
    private let loop: Loop
    private let port: UInt16
    private var completion: ((NameAnswer) -> Void)?
    private var base: OpaquePointer?
    private var answer = NameAnswer(ipv4: .failed(.timeout), ipv6: .failed(.timeout))
    /// The number of queries without an answer.
    private var pending = 0
    private var timer: LoopTimer?

    /// The maximum lifetime of addresses from a hosts file, which states none.
    private static let hostsTTL = TimeSpan.seconds(5)

    /// Starts a lookup.
    ///
    /// - Parameters:
    ///   - name: at most 253 bytes (RFC 1035 section 2.3.4).
    ///   - port: the port of the addresses.
    ///   - completion: called once, never before this initializer has returned.
    public init(
        loop: Loop, name: String, port: UInt16, settings: ResolverSettings,
        completion: @escaping (NameAnswer) -> Void
    ) {
        self.loop = loop
        self.port = port
        self.completion = completion
        if let known = Self.known(name, port) {
            answer = known
        } else {
            base = Self.makeBase(loop, settings)
            ask(name, isIPv6: false)
            ask(name, isIPv6: true)
        }
        // evdns waits without end if it has no nameserver, and restarts its timeout for each search domain.
        timer = LoopTimer(loop: loop, startsIn: pending == 0 ? .milliseconds(0) : settings.patience) {
            [unowned self] in finish()
        }
    }

    deinit {
        release()
    }

    /// Returns the answer for names that need no nameserver.
    private static func known(_ name: String, _ port: UInt16) -> NameAnswer? {
        // RFC 6761 section 6.3: never queried, and always loopback.
        if name == "localhost" || name.hasSuffix(".localhost") {
            let octets: [[UInt8]] = [[127, 0, 0, 1], [UInt8](repeating: 0, count: 15) + [1]]
            return answer(octets.compactMap { SocketAddress(octets: $0.span, port: port) })
        }
        let written = HostsFile.addresses(of: name, port: port)
        return written.isEmpty ? nil : answer(written)
    }

    private static func answer(_ addresses: [SocketAddress]) -> NameAnswer {
        func part(isIPv6: Bool) -> NameAnswer.Part {
            let some = addresses.filter { $0.isIPv6 == isIPv6 }
            return some.isEmpty ? .none : .addresses(some, ttl: hostsTTL)
        }
        return NameAnswer(ipv4: part(isIPv6: false), ipv6: part(isIPv6: true))
    }

    // MARK: - Queries

    private static func makeBase(_ loop: Loop, _ settings: ResolverSettings) -> OpaquePointer? {
        _ = isQuiet
        guard let base = evdns_base_new(loop.base, 0) else { return nil }
        if settings.nameservers.isEmpty {
            // Without that file, the nameserver is on this machine (resolv.conf(5)).
            evdns_base_resolv_conf_parse(
                base, DNS_OPTION_SEARCH | DNS_OPTION_NAMESERVERS | DNS_OPTION_MISC, "/etc/resolv.conf")
        }
        for address in settings.nameservers {
            _ = address.withSockaddr { evdns_base_nameserver_sockaddr_add(base, $0, $1, 0) }
        }
        // Overrides that file: our own settings limit a lookup.
        let milliseconds = settings.timeout.nanoseconds / 1_000_000
        let fraction = String(milliseconds % 1_000 + 1_000).dropFirst()
        evdns_base_set_option(base, "timeout:", "\(milliseconds / 1_000).\(fraction)")
        evdns_base_set_option(base, "attempts:", "\(settings.attempts)")
        // A nameserver is not considered dead within one lookup, since it may be the only one.
        evdns_base_set_option(base, "max-timeouts:", "255")
        evdns_base_set_option(base, "initial-probe-timeout:", "3600")
        evdns_base_set_option(base, "randomize-case:", "1")
        return base
    }

    /// Suppresses evdns's messages. It would write them to standard error, where each line is a line of our log.
    private static let isQuiet: Void = evdns_set_log_fn { _, _ in }

    private func ask(_ name: String, isIPv6: Bool) {
        let question = Unmanaged.passRetained(NameQuestion(self, isIPv6: isIPv6))
        let request = base.flatMap { base in
            isIPv6
                ? evdns_base_resolve_ipv6(base, name, 0, nameAnswered, question.toOpaque())
                : evdns_base_resolve_ipv4(base, name, 0, nameAnswered, question.toOpaque())
        }
        if request != nil {
            pending += 1
        } else {
            question.release()
            answered(.failed(.exhausted), isIPv6: isIPv6)
        }
    }

    private func answered(_ part: NameAnswer.Part, isIPv6: Bool) {
        if isIPv6 { answer.ipv6 = part } else { answer.ipv4 = part }
    }

    fileprivate func received(_ part: NameAnswer.Part, isIPv6: Bool) {
        guard completion != nil else { return }
        answered(part, isIPv6: isIPv6)
        pending -= 1
        if pending == 0 { finish() }
    }

    /// Returns the addresses of an answer with the port.
    fileprivate func addresses(_ bytes: UnsafeRawBufferPointer, isIPv6: Bool) -> [SocketAddress] {
        let size = isIPv6 ? 16 : 4
        return stride(from: 0, to: bytes.count, by: size).compactMap { start in
            let octets = Array(bytes[start..<start + size])
            return SocketAddress(octets: octets.span, port: port)
        }
    }

    private func finish() {
        guard let completion else { return }
        self.completion = nil
        release()
        completion(answer)
    }

    private func release() {
        timer = nil
        guard let base else { return }
        self.base = nil
        // Each open query gets one more answer with DNS_ERR_SHUTDOWN after this event, which releases its question.
        evdns_base_free(base, 1)
    }
}

/// The context of one evdns query. evdns answers each query exactly once, perhaps after the lookup is gone.
private final class NameQuestion {
    weak var lookup: NameLookup?
    let isIPv6: Bool

    init(_ lookup: NameLookup, isIPv6: Bool) {
        self.lookup = lookup
        self.isIPv6 = isIPv6
    }
}

/// Handles an answer, and takes over the reference that `ask` retained for it.
///
/// `addresses` holds `count` addresses of 4 or 16 bytes in network order.
private nonisolated func nameAnswered(
    _ result: Int32, _: CChar, _ count: Int32, _ ttl: Int32, _ addresses: UnsafeMutableRawPointer?,
    _ context: UnsafeMutableRawPointer?
) {
    guard let context else { preconditionFailure("an answer without its query") }
    let question = Unmanaged<NameQuestion>.fromOpaque(context).takeRetainedValue()
    guard let lookup = question.lookup else { return }
    lookup.refreshClock()
    guard result == DNS_ERR_NONE else {
        return lookup.received(NameFault.part(of: result), isIPv6: question.isIPv6)
    }
    let size = Int(count) * (question.isIPv6 ? 16 : 4)
    let found = lookup.addresses(UnsafeRawBufferPointer(start: addresses, count: size), isIPv6: question.isIPv6)
    // RFC 2181 section 8: a lifetime with the highest bit set counts as 0.
    let time = TimeSpan.seconds(Int64(max(0, ttl)))
    lookup.received(found.isEmpty ? .none : .addresses(found, ttl: time), isIPv6: question.isIPv6)
}

extension NameLookup {
    fileprivate func refreshClock() { loop.refreshClock() }
}

extension NameFault {
    /// Returns the part of an answer for an error of evdns.
    ///
    /// - Parameter error: an error other than DNS_ERR_NONE.
    fileprivate static func part(of error: Int32) -> NameAnswer.Part {
        switch error {
        case DNS_ERR_NOTEXIST, DNS_ERR_NODATA: .none
        case DNS_ERR_REFUSED, DNS_ERR_NOTIMPL: .failed(.refused)
        case DNS_ERR_TRUNCATED: .failed(.truncated)
        // evdns retries after SERVFAIL, and finally reports a timeout.
        case DNS_ERR_TIMEOUT, DNS_ERR_SERVERFAILED: .failed(.timeout)
        default: .failed(.malformed)
        }
    }
}

/// The result of one lookup, separate for IPv4 and IPv6 because one may fail alone.
public struct NameAnswer: Equatable, Sendable {
    public enum Part: Equatable, Sendable {
        /// At least one address, in the order of the answer.
        case addresses([SocketAddress], ttl: TimeSpan)
        /// The nameserver reports no address.
        case none
        case failed(NameFault)
    }

    public var ipv4: Part
    public var ipv6: Part

    public init(ipv4: Part, ipv6: Part) {
        self.ipv4 = ipv4
        self.ipv6 = ipv6
    }

    /// Returns the answer without some of its addresses. A part without a remaining address becomes a failure, so that
    /// the earlier addresses stay in use.
    func without(_ isRefused: (SocketAddress) -> Bool) -> NameAnswer {
        func rest(of part: Part) -> Part {
            guard case .addresses(let addresses, let ttl) = part else { return part }
            let rest = addresses.filter { !isRefused($0) }
            return rest.isEmpty ? .failed(.forbidden) : .addresses(rest, ttl: ttl)
        }
        return NameAnswer(ipv4: rest(of: ipv4), ipv6: rest(of: ipv6))
    }
}

/// The reason why a name has no addresses.
public enum NameFault: Int, CaseIterable, Sendable {
    /// The name does not exist, or has no address.
    case nonexistent
    /// No nameserver answered in time, or those that did could not resolve the name (SERVFAIL).
    case timeout
    /// A nameserver refuses our queries, or this kind of query.
    case refused
    /// The answer does not fit into a UDP message.
    case truncated
    /// The answer is malformed.
    case malformed
    /// All addresses are forbidden as destinations.
    case forbidden
    /// No query could be sent for lack of memory or descriptors.
    case exhausted

    /// The name in metrics.
    public var name: String { String(describing: self) }

    /// The text for people.
    public var text: String {
        switch self {
        case .nonexistent: "the name does not exist or has no address"
        case .timeout: "no nameserver has answered"
        case .refused: "the nameserver refused the query"
        case .truncated: "the answer does not fit into a UDP message"
        case .malformed: "the nameserver's answer is malformed"
        case .forbidden: "none of its addresses may be used"
        case .exhausted: "out of memory or descriptors"
        }
    }
}

/// The hosts file, which takes precedence over nameservers (hosts(5)).
enum HostsFile {
    /// The maximum size in bytes. No hand-written file is larger.
    private static let limit = 1 << 20

    /// Returns the addresses of a name. Reads the file each time: it is small, and lookups are rare.
    static func addresses(of name: String, port: UInt16, path: String = "/etc/hosts") -> [SocketAddress] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: limit)
        var count = 0
        while count < limit {
            let more = bytes.withUnsafeMutableBytes {
                read(descriptor, $0.baseAddress.map { $0 + count }, limit - count)
            }
            guard more > 0 else { break }
            count += more
        }
        return addresses(of: name, port: port, in: bytes.prefix(count))
    }

    /// Returns the addresses of a name in a text.
    ///
    /// - Parameter text: lines with an address and its names. A # begins a comment.
    static func addresses(of name: String, port: UInt16, in text: some Collection<UInt8>) -> [SocketAddress] {
        let wanted = lowercased(name.utf8)
        var found: [SocketAddress] = []
        for line in text.split(separator: UInt8(ascii: "\n")) {
            let words = line.prefix { $0 != UInt8(ascii: "#") }.split { isBlank($0) }
            guard let first = words.first, words.dropFirst().contains(where: { lowercased($0) == wanted }) else {
                continue
            }
            let literal = Array(first)
            // Not with a zone: connections to upstreams are bound to no interface.
            guard
                let address = SocketAddress(
                    text: literal.span, isIPv6: literal.contains(UInt8(ascii: ":")), port: port),
                !found.contains(address)
            else { continue }
            found.append(address)
        }
        return found
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0d }

    private static func lowercased(_ bytes: some Sequence<UInt8>) -> [UInt8] {
        bytes.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
    }
}

/// The settings of name resolution.
public struct ResolverSettings: Sendable {
    /// The nameservers, queried in turn. Empty for those of /etc/resolv.conf, with its search domains.
    public var nameservers: [SocketAddress]
    /// The timeout of one attempt.
    public var timeout: TimeSpan
    /// The number of queries for one kind of address, to one nameserver after the other.
    public var attempts: Int
    /// The minimum and maximum lifetime of an answer.
    public var minimumTTL: TimeSpan
    public var maximumTTL: TimeSpan

    public init(
        nameservers: [SocketAddress] = [], timeout: TimeSpan = .seconds(1), attempts: Int = 3,
        minimumTTL: TimeSpan = .seconds(5), maximumTTL: TimeSpan = .seconds(300)
    ) {
        self.nameservers = nameservers
        self.timeout = timeout
        self.attempts = attempts
        self.minimumTTL = minimumTTL
        self.maximumTTL = maximumTTL
    }

    /// The maximum duration of a lookup, whatever search domains there are.
    fileprivate var patience: TimeSpan { TimeSpan(nanoseconds: timeout.nanoseconds * Int64(attempts) + 500_000_000) }
}
