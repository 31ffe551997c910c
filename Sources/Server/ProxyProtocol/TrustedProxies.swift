public import EventLoop

/// The peers of a listener that relay other people's connections and say whose: each of theirs begins with a PROXY header.
///
/// Other peers' connections are not searched for a header: a peer that could send one would choose the address that
/// limits and logs use for it.
public struct TrustedProxies: Equatable, Sendable {
    private let networks: [NetworkPrefix]

    public static let none = TrustedProxies([])

    public init(_ networks: [NetworkPrefix]) {
        self.networks = networks
    }

    /// A copy whose memory no other thread refers to.
    var unshared: TrustedProxies { TrustedProxies(networks.map { $0 }) }

    func contains(_ peer: SocketAddress) -> Bool {
        for network in networks where network.contains(peer) { return true }
        return false
    }
}
