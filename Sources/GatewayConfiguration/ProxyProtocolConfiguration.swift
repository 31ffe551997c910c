/// The peers whose connections begin with a PROXY header, which contains the client's address.
public struct ProxyProtocolConfiguration: Equatable, ConfigurationSection {
    @Setting(
        required: Self.networks,
        "The load balancers' addresses: their connections, and only theirs, must begin with a PROXY header.")
    public var from: [Network]

    static let section = Section("listeners.proxy_protocol", of: Self.self)

    /// The networks of proxies, which are believed what they state of clients.
    static var networks: Kind<[Network]> {
        .list(of: .text(Network.expected, Network.parse), minimum: 1, maximum: most, check: checkNetworks)
    }

    /// The maximum number of networks, since each connection is compared with all of them.
    private static let most = 64

    /// Returns whether one of the peers can connect to the address, and refuses the section if none can. Sockets of one
    /// family accept no connections of the other.
    func canReach(_ address: ServerAddress, at place: Place, _ reading: Reading) -> Bool {
        let isIPv6 = address.host.contains(":")
        guard !from.contains(where: { $0.isIPv6 == isIPv6 }) else { return true }
        reading.refuse(
            place, "no connection to \(address) comes from an \(isIPv6 ? "IPv4" : "IPv6") address",
            expected: "an \(isIPv6 ? "IPv6" : "IPv4") address or network in `from`")
        return false
    }

    private static func checkNetworks(_ networks: [(value: Network, item: Item)], _ reading: Reading) {
        var seen: Set<Network> = []
        for (network, item) in networks {
            if !seen.insert(network).inserted {
                reading.refuse(item.place, "\(item.summary) is listed twice")
            }
            if network.isEverything {
                reading.warn(
                    item.place, "every client could claim any address",
                    expected: "only the addresses of the load balancers")
            }
        }
    }
}
