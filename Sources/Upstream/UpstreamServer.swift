internal import Bytes
internal import EventLoop
internal import TLS

/// A server of a pool, with everything besides its state for the balancer.
final class UpstreamServer {
    let name: String
    let tally: ServerTally
    /// The TLS destination. Nil without TLS.
    let destination: TLSDestination?
    /// The addresses, each with a unique number by which connections identify theirs.
    private var addresses: [(number: Int, address: SocketAddress)] = []
    private var numbersGiven = 0
    private var nextAddress = 0
    /// The number of the last address used.
    private(set) var connectedAddress = 0
    /// The idle connections. The last one returned comes first, so that unneeded ones age and are closed.
    var idle: [HTTP1Connection] = []
    /// The HTTP/2 connections, the oldest first, idle or not.
    var open: [HTTP2UpstreamConnection] = []

    /// The time until which no new connection is opened, because the server admits no streams.
    var admitsNoneUntil = Instant(nanoseconds: .min)

    /// Creates a server.
    ///
    /// - Parameter tls: the TLS context of the upstream. Nil without TLS.
    init(_ settings: UpstreamSettings.Server, tls: ClientContext?, tally: ServerTally) {
        // Copies that no other thread refers to.
        name = String(decoding: Array(settings.name.utf8), as: UTF8.self)
        self.tally = tally
        destination = tls.map { context in
            guard let name = settings.certificateName else { preconditionFailure("TLS to a server without a name") }
            return TLSDestination(context, name: String(decoding: Array(name.utf8), as: UTF8.self))
        }
        readdress(settings.addresses)
    }

    var addressCount: Int { addresses.count }

    /// Sets the addresses. Known ones keep their number.
    func readdress(_ new: [SocketAddress]) {
        addresses = new.map { address in
            if let known = addresses.first(where: { $0.address == address }) { return known }
            numbersGiven += 1
            return (numbersGiven, address)
        }
        nextAddress = 0
        admitsNoneUntil = Instant(nanoseconds: .min)
    }

    /// Returns whether the address with this number is still in use.
    func has(_ number: Int) -> Bool { addresses.contains { $0.number == number } }

    /// Returns the server's name for logs, followed by the address with this number if the server has a host name.
    func place(of number: Int) -> String {
        guard let address = addresses.first(where: { $0.number == number })?.address.description, address != name else {
            return name
        }
        return "\(name) at \(address)"
    }

    /// Starts to connect to the addresses in turn.
    ///
    /// - Parameters:
    ///   - left: the number of addresses that may be tried, counted down.
    ///   - ceiling: the number that the descriptor must stay below.
    /// - Throws: the most significant failure if all fail at once. `exhausted` ends the attempts.
    func connect(_ left: inout Int, ceiling: Int32) throws(UpstreamFailure) -> Socket {
        var failure = UpstreamFailure.unresolved
        guard !addresses.isEmpty else { throw failure }
        while true {
            let (number, address) = addresses[nextAddress]
            nextAddress = (nextAddress + 1) % addresses.count
            left -= 1
            connectedAddress = number
            do throws(EventLoopError) {
                return try Socket.connect(to: address, ceiling: ceiling)
            } catch {
                failure = failure.orFurther(.connecting(to: place(of: number), error.errno))
                guard left > 0, failure.kind != .exhausted else { throw failure }
            }
        }
    }
}

extension EventLoopError {
    /// The error number of a failed system call.
    var errno: Int32 {
        if case .system(_, let errno) = self { errno } else { 0 }
    }
}

/// The counters of one server in one worker since its start.
public struct ServerCounts: Sendable {
    /// The number of requests that began there. One that was tried at two servers counts for both.
    public internal(set) var requests: UInt64 = 0
    /// The failures by the raw value of their kind.
    public internal(set) var failures = [UInt64](repeating: 0, count: UpstreamFailure.Kind.allCases.count)
    public internal(set) var ejections: UInt64 = 0
    public internal(set) var checksPassed: UInt64 = 0
    public internal(set) var checksFailed: UInt64 = 0

    public init() {}

    public mutating func add(_ other: ServerCounts) {
        requests += other.requests
        for place in failures.indices { failures[place] += other.failures[place] }
        ejections += other.ejections
        checksPassed += other.checksPassed
        checksFailed += other.checksFailed
    }
}

/// A failure of a server in a request or in a health check.
public struct ServerFailure: Sendable {
    public let failure: HealthCheckFailure
    /// Seconds since 1970-01-01T00:00:00Z.
    public let at: Int64
}

/// The counters of a server in a worker. They outlive the pools, which belong to generations.
public final class ServerTally {
    public internal(set) var counts = ServerCounts()
    /// The last failure. Nil if there was none.
    public internal(set) var lastFailure: ServerFailure?

    public init() {}
}
