internal import Vocabulary

/// The tunnels of one generation whose clients the registry is asked about: a tunnel has no next request that would be
/// judged by what has become known meanwhile.
final class OpenTunnels {
    private var tunnels: [ObjectIdentifier: ForwardingExchange] = [:]

    func enter(_ tunnel: ForwardingExchange) { tunnels[ObjectIdentifier(tunnel)] = tunnel }

    func leave(_ tunnel: ForwardingExchange) { tunnels[ObjectIdentifier(tunnel)] = nil }

    /// Asks about every one. Once a second: a lookup in memory costs less than a microsecond.
    func confirm() {
        // A copy: who ends leaves.
        for tunnel in Array(tunnels.values) { tunnel.confirmStanding() }
    }

    /// Asks about those of these mTLS keys.
    func confirm(_ keys: [KeyID]) {
        guard !tunnels.isEmpty else { return }
        let meant = Set(keys)
        for tunnel in Array(tunnels.values) where tunnel.connection.identity?.keyID.map(meant.contains) == true {
            tunnel.confirmStanding()
        }
    }
}
