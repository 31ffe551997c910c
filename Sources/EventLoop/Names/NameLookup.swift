internal import CLibevent
internal import Glibc

/// One name being looked up, for its IPv4 and IPv6 addresses at once. Its owner keeps it; dropping it cancels it.
///
/// Each lookup has an `evdns_base` of its own, which is cheap. So each has a port of its own too, as RFC 5452 section 9.2 wants
/// it against forged answers; /etc/resolv.conf is always the one of now; and evdns, which asks nameservers that were silent
/// for a name of a stranger's until they answer, never comes to that.
public final class NameLookup {
    private let loop: Loop
    private let port: UInt16
    private var completion: ((NameAnswer) -> Void)?
    private var base: OpaquePointer?
    private var answer = NameAnswer(ipv4: .failed(.timeout), ipv6: .failed(.timeout))
    /// Questions without an answer.
    private var pending = 0
    private var timer: LoopTimer?

    /// What the addresses of a hosts file are believed for at most: it tells no time.
    private static let hostsTTL = TimeSpan.seconds(5)

    /// - Parameters:
    ///   - name: of at most 253 bytes (RFC 1035 section 2.3.4).
    ///   - port: what the addresses are given.
    ///   - completion: called once, never before this has returned.
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
        // Our own timeout: evdns waits without end where it has no nameserver, and restarts its timeout for each search
        // domain.
        timer = LoopTimer(loop: loop, startsIn: pending == 0 ? .milliseconds(0) : settings.patience) {
            [unowned self] in finish()
        }
    }

    deinit {
        release()
    }

    /// What no nameserver is asked for.
    private static func known(_ name: String, _ port: UInt16) -> NameAnswer? {
        // RFC 6761 section 6.3: never asked for, and always loopback.
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

    // MARK: - Asking

    private static func makeBase(_ loop: Loop, _ settings: ResolverSettings) -> OpaquePointer? {
        _ = isQuiet
        guard let base = evdns_base_new(loop.base, 0) else { return nil }
        if settings.nameservers.isEmpty {
            // Without that file it is the one on this machine, as everywhere (resolv.conf(5)).
            evdns_base_resolv_conf_parse(
                base, DNS_OPTION_SEARCH | DNS_OPTION_NAMESERVERS | DNS_OPTION_MISC, "/etc/resolv.conf")
        }
        for address in settings.nameservers {
            _ = address.withSockaddr { evdns_base_nameserver_sockaddr_add(base, $0, $1, 0) }
        }
        // Over what that file says: what a lookup may take is ours to bound.
        let milliseconds = settings.timeout.nanoseconds / 1_000_000
        let fraction = String(milliseconds % 1_000 + 1_000).dropFirst()
        evdns_base_set_option(base, "timeout:", "\(milliseconds / 1_000).\(fraction)")
        evdns_base_set_option(base, "attempts:", "\(settings.attempts)")
        // A nameserver is not taken for dead within one lookup: there may be no other.
        evdns_base_set_option(base, "max-timeouts:", "255")
        evdns_base_set_option(base, "initial-probe-timeout:", "3600")
        evdns_base_set_option(base, "randomize-case:", "1")
        return base
    }

    /// evdns would write to standard error, where each line is one of our log.
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

    /// Octets of an answer, with the port.
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
        // Whatever it was asked is answered once more, with DNS_ERR_SHUTDOWN and when this event is over: the questions are
        // let go of then.
        evdns_base_free(base, 1)
    }
}

/// The context of one request of evdns, which answers each exactly once, and may do so after the lookup is gone.
private final class NameQuestion {
    weak var lookup: NameLookup?
    let isIPv6: Bool

    init(_ lookup: NameLookup, isIPv6: Bool) {
        self.lookup = lookup
        self.isIPv6 = isIPv6
    }
}

/// Takes over the reference that `ask` retained for it. `addresses` holds `count` of 4 or 16 bytes in network order.
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
    // RFC 2181 section 8: one with the highest bit is none.
    let time = TimeSpan.seconds(Int64(max(0, ttl)))
    lookup.received(found.isEmpty ? .none : .addresses(found, ttl: time), isIPv6: question.isIPv6)
}

extension NameLookup {
    fileprivate func refreshClock() { loop.refreshClock() }
}

extension NameFault {
    /// - Parameter error: one of evdns's other than DNS_ERR_NONE.
    fileprivate static func part(of error: Int32) -> NameAnswer.Part {
        switch error {
        case DNS_ERR_NOTEXIST, DNS_ERR_NODATA: .none
        case DNS_ERR_REFUSED, DNS_ERR_NOTIMPL: .failed(.refused)
        case DNS_ERR_TRUNCATED: .failed(.truncated)
        // evdns asks again after SERVFAIL, and calls it a timeout in the end.
        case DNS_ERR_TIMEOUT, DNS_ERR_SERVERFAILED: .failed(.timeout)
        default: .failed(.malformed)
        }
    }
}
