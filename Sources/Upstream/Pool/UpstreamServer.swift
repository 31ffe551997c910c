internal import EventLoop

/// What a pool keeps of one server besides what the balancer looks at.
final class UpstreamServer {
    let name: String
    let tally: ServerTally
    private let addresses: [SocketAddress]
    private var nextAddress = 0
    /// Connections nobody uses; the last one given back first, so that those not needed grow old and are closed.
    var idle: [UpstreamConnection] = []

    init(_ settings: UpstreamSettings.Server, tally: ServerTally) {
        // Copies that no other thread refers to.
        name = String(decoding: Array(settings.name.utf8), as: UTF8.self)
        addresses = settings.addresses.map { $0 }
        self.tally = tally
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
