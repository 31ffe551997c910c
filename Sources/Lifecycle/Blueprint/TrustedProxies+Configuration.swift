internal import EventLoop
internal import GatewayConfiguration
internal import Server

extension TrustedProxies {
    /// - Parameter configuration: nil if there are none.
    init(_ configuration: ProxyProtocolConfiguration?) {
        self.init(
            (configuration?.from ?? []).map { network in
                guard let prefix = NetworkPrefix(octets: network.octets, length: network.length) else {
                    preconditionFailure("a configured network is always valid")
                }
                return prefix
            })
    }
}
