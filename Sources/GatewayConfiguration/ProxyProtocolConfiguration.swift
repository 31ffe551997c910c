/// The peers whose connections begin with a PROXY header, which contains the client's address.
public struct ProxyProtocolConfiguration: Equatable, Sendable {
    /// At least one network, each once.
    public let from: [Network]
}

extension ProxyProtocolConfiguration {
    enum Keys {
        static let from = Key(
            "from", .proxies, whenMissing: .refused,
            "The load balancers' addresses: their connections, and only theirs, must begin with a PROXY header.")

        static let section = Section(path: "listeners.proxy_protocol", settings: [from.setting])
    }

    /// The section of the enrolment listener, with the same keys.
    static let enrolmentSection = Section(path: "enrolment.proxy_protocol", settings: Keys.section.settings)

    /// Reads the section.
    ///
    /// - Parameter section: the section, at any place of the file.
    init?(_ item: Item, in section: Section, _ reading: Reading) {
        guard let reader = SectionReader(item, section, reading), let from = reader.read(Keys.from) else { return nil }
        self.from = from
    }

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
}

extension Kind where Value == [Network] {
    /// The maximum number of networks, since each connection is compared with all of them.
    private static var most: Int { 64 }

    fileprivate static var proxies: Kind {
        .list(of: .text(Network.expected, Network.parse), minimum: 1, maximum: most) { networks, reading in
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
}
