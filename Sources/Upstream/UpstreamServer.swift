internal import Bytes
internal import EventLoop
internal import TLS

/// What a pool keeps of one server besides what the balancer looks at.
final class UpstreamServer {
    let name: String
    let tally: ServerTally
    /// Whom TLS must find there; nil without TLS.
    let destination: TLSDestination?
    /// Each has a number that no other address of the server ever had, so that connections can tell theirs by it.
    private var addresses: [(number: Int, address: SocketAddress)] = []
    private var numbersGiven = 0
    private var nextAddress = 0
    /// The number of the address that was connected to last.
    private(set) var connectedAddress = 0
    /// Connections nobody uses; the last one given back first, so that those not needed grow old and are closed.
    var idle: [HTTP1Connection] {
        @inline(__always) _read {
            var borrowed = keptIdle.borrow()
            defer { keptIdle.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptIdle.borrow()
            defer { keptIdle.end(&borrowed) }
            yield &borrowed.value
        }
    }
    private var keptIdle = Borrowable<[HTTP1Connection]>([])
    /// Those of HTTP/2, the oldest first, whether anybody uses them or not.
    var open: [HTTP2UpstreamConnection] = []

    /// It admits no streams, as it has said: until then no new connection is opened to find out whether it still does not.
    var admitsNoneUntil = Instant(nanoseconds: .min)

    /// - Parameter tls: the upstream's; nil without TLS.
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

    /// Where it is from now on. What is known already keeps its number.
    func readdress(_ new: [SocketAddress]) {
        addresses = new.map { address in
            if let known = addresses.first(where: { $0.address == address }) { return known }
            numbersGiven += 1
            return (numbersGiven, address)
        }
        nextAddress = 0
        admitsNoneUntil = Instant(nanoseconds: .min)
    }

    /// Whether the address with this number is still one of its own.
    func has(_ number: Int) -> Bool { addresses.contains { $0.number == number } }

    /// What logs call it, with the address that this number stands for where it is known by a name.
    func place(of number: Int) -> String {
        guard let address = addresses.first(where: { $0.number == number })?.address.description, address != name else {
            return name
        }
        return "\(name) at \(address)"
    }

    /// Starts to connect to the addresses in turn.
    ///
    /// - Parameters:
    ///   - left: addresses that may be tried; counted down.
    ///   - ceiling: the number that the descriptor must stay below.
    /// - Throws: the failure that says most, if all fail at once; `exhausted` without trying another one.
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

/// What one worker has counted of one server since it began.
public struct ServerCounts: Sendable {
    /// Requests that began there: one that was tried at two servers counts for both.
    public internal(set) var requests: UInt64 = 0
    /// By the raw value of the kind.
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

/// A server's failure of a request, or of a check of its health.
public struct ServerFailure: Sendable {
    public let failure: HealthCheckFailure
    /// Seconds since 1970-01-01T00:00:00Z.
    public let at: Int64
}

/// Where a worker counts what happens at a server. It outlives the pools, whose generations come and go.
public final class ServerTally {
    public internal(set) var counts: ServerCounts {
        _read {
            var borrowed = keptCounts.borrow()
            defer { keptCounts.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptCounts.borrow()
            defer { keptCounts.end(&borrowed) }
            yield &borrowed.value
        }
    }
    /// Nil while there was none.
    public internal(set) var lastFailure: ServerFailure?
    private var keptCounts = Borrowable(ServerCounts())

    public init() {}
}
