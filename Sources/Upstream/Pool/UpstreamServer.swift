internal import EventLoop
internal import TLS

/// What a pool keeps of one server besides what the balancer looks at.
final class UpstreamServer {
    let name: String
    let tally: ServerTally
    /// Whom TLS must find there; nil without TLS.
    let destination: TLSDestination?
    private let addresses: [SocketAddress]
    private var nextAddress = 0
    /// Connections nobody uses; the last one given back first, so that those not needed grow old and are closed.
    var idle: [UpstreamConnection] = []

    /// - Parameter tls: the upstream's; nil without TLS.
    init(_ settings: UpstreamSettings.Server, tls: ClientContext?, tally: ServerTally) {
        // Copies that no other thread refers to.
        name = String(decoding: Array(settings.name.utf8), as: UTF8.self)
        addresses = settings.addresses.map { $0 }
        self.tally = tally
        destination = tls.map { context in
            guard let name = settings.certificateName else { preconditionFailure("TLS to a server without a name") }
            return TLSDestination(context, name: String(decoding: Array(name.utf8), as: UTF8.self))
        }
    }

    var addressCount: Int { addresses.count }

    /// Starts to connect to the addresses in turn.
    ///
    /// - Parameter left: addresses that may be tried; counted down.
    func connect(_ left: inout Int) throws(UpstreamFailure) -> Socket {
        while true {
            let address = addresses[nextAddress]
            nextAddress = (nextAddress + 1) % addresses.count
            left -= 1
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
