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
    var idle: [UpstreamConnection] = []

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
    }

    /// Whether the address with this number is still one of its own.
    func has(_ number: Int) -> Bool { addresses.contains { $0.number == number } }

    /// Starts to connect to the addresses in turn.
    ///
    /// - Parameter left: addresses that may be tried; counted down.
    func connect(_ left: inout Int) throws(UpstreamFailure) -> Socket {
        guard !addresses.isEmpty else { throw .unresolved }
        while true {
            let (number, address) = addresses[nextAddress]
            nextAddress = (nextAddress + 1) % addresses.count
            left -= 1
            connectedAddress = number
            do throws(EventLoopError) {
                return try Socket.connect(to: address)
            } catch {
                guard left > 0 else { throw .unreachable(errno: error.errno) }
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
